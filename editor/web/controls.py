"""Fields, lists, tabs and menus as Dash components, of the browser's own elements; `assets/controls*.js` draw them.

A library of components would be read and run before the first graph is shown; these take two kilobytes.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from dash.development.base_component import Component


class _Control(Component):  # type: ignore[misc]  # Dash has no types
    _namespace = "hetero_controls"
    _type = ""
    _children_props: ClassVar[list[str]] = []
    _base_nodes: ClassVar[list[str]] = ["children"]
    _valid_wildcard_attributes: ClassVar[list[str]] = ["data-", "aria-"]
    _prop_names: ClassVar[list[str]] = []
    available_wildcard_properties: ClassVar[list[str]] = ["data-", "aria-"]

    def __init__(self, children: Any = None, **properties: Any) -> None:
        super().__init__(**properties if children is None else {"children": children, **properties})

    def __init_subclass__(cls) -> None:
        cls._type = cls.__dict__.get("_type", cls.__name__)
        cls.available_properties = cls._prop_names


# Dash imports a component's namespace for each of its properties; one that is not a module is looked for on the disk each time.
sys.modules[_Control._namespace] = sys.modules[__name__]


class Button(_Control):
    """A button with a text; ``children`` is the text.

    ``icon``: name of a picture before it; ``primary``: the one to press first; ``busy``: what it started is under way.
    """

    _prop_names: ClassVar[list[str]] = [
        "children",
        "id",
        "n_clicks",
        "disabled",
        "busy",
        "icon",
        "primary",
        "className",
        "title",
    ]


class Select(_Control):
    """A list to choose one value from.

    ``data``: texts, {value, label}, or {group, items}; ``placeholder``: what "no value" is called, which can be chosen too.
    """

    _prop_names: ClassVar[list[str]] = [
        "id",
        "value",
        "data",
        "label",
        "placeholder",
        "disabled",
        "hidden",
        "width",
        "className",
        "title",
    ]


class Field(_Control):
    """A text, with ``rows`` of several lines, or with ``type="number"`` a number ("" while there is none).

    ``debounce``: the value changes when the field is left or Enter is pressed, and not with every key;
    ``n_submit`` counts Enter; ``suggestions``: texts that are offered; ``code``: its name in a file, beside the label.
    """

    _prop_names: ClassVar[list[str]] = [
        "id",
        "value",
        "type",
        "label",
        "code",
        "placeholder",
        "icon",
        "min",
        "max",
        "step",
        "debounce",
        "n_submit",
        "suggestions",
        "rows",
        "disabled",
        "width",
        "className",
        "title",
    ]


class Checkbox(_Control):
    """Yes or no: ``checked``."""

    _prop_names: ClassVar[list[str]] = ["id", "checked", "label", "disabled"]


class MultiSelect(_Control):
    """Several values of a list, in the order in which they were chosen.

    ``data`` as for `Select`; ``search``: whether a value is typed (with suggestions) instead of chosen from a list.
    """

    _prop_names: ClassVar[list[str]] = [
        "id",
        "value",
        "data",
        "label",
        "placeholder",
        "search",
        "className",
    ]


class Store(_Control):
    """``data`` that the page and callbacks tell each other, and that nobody sees."""

    _prop_names: ClassVar[list[str]] = ["id", "data"]


class Address(_Control):
    """The address of the page: ``pathname``."""

    _prop_names: ClassVar[list[str]] = ["id", "pathname"]


class Link(_Control):
    """To another page, without loading everything anew: ``href``."""

    _prop_names: ClassVar[list[str]] = ["children", "id", "href", "className", "title"]


class Deferred(_Control):
    """What comes once the graph is on the screen, because the first stroke does not need it."""

    _prop_names: ClassVar[list[str]] = ["children"]


class StaticHtml(_Control):
    """Elements without callbacks of their own; made by `static_html`.

    Dash asks every component that it knows after every change of the page whether it has changed. This is one for all of them.
    """

    _prop_names: ClassVar[list[str]] = ["tree"]


class PlainInput(_Control):
    """A field of `static_html`: no callback follows it, a script listens to its changes. A new ``key`` makes it anew."""

    _namespace, _type = "dash_html_components", "Input"
    _prop_names: ClassVar[list[str]] = [
        "key",
        "type",
        "min",
        "max",
        "step",
        "defaultValue",
        "placeholder",
        "className",
    ]


def static_html(*content: Any) -> StaticHtml:
    """Elements of ``dash.html``, texts and lists of them, as one component.

    Raises:
        TypeError: something in it is a component that needs Dash.
    """
    return StaticHtml(tree=_nodes(content))


def _nodes(content: Any) -> list[Any]:
    """Each as a text or ``[tag, properties, *children]``."""
    if content is None:
        return []
    if isinstance(content, list | tuple):
        return [node for each in content for node in _nodes(each)]
    if not isinstance(content, Component):
        return [str(content)]
    if content._namespace != "dash_html_components" or isinstance(
        getattr(content, "id", None), dict
    ):
        raise TypeError(f"{type(content).__name__} needs Dash, it cannot be in what is plain")
    properties = {
        name: value
        for name, value in content.to_plotly_json()["props"].items()
        if value is not None
    }
    children = _nodes(properties.pop("children", None))
    return [[content._type.lower(), properties, *children]]


class Tabs(_Control):
    """One of several panels at a time; what was shown once stays as it is. The panels come once the graph is on the screen.

    ``tabs``: {value, label, lazy} for each of the ``children``; a lazy one is made when it is first shown.
    """

    _prop_names: ClassVar[list[str]] = ["children", "id", "value", "tabs"]


class Popover(_Control):
    """A button that opens ``children`` below it; ``menu``: they are commands, of which one is chosen."""

    _prop_names: ClassVar[list[str]] = [
        "children",
        "id",
        "label",
        "icon",
        "title",
        "menu",
        "busy",
        "link",
        "end",
    ]


class Alert(_Control):
    """A message that can be put away."""

    _prop_names: ClassVar[list[str]] = ["children", "id", "title"]
