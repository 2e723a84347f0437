"""YAML from strangers: read within limits, with the line of what is wrong."""

from __future__ import annotations

from typing import Any

import yaml

from editor.text import is_utf8

MAX_TEXT = 16 << 20
"""Characters of a document."""
MAX_NODES = 1_000_000
"""Values of a document when every alias is replaced by what it stands for."""


class YamlError(ValueError):
    """The text is not YAML, or exceeds a limit; the message does not repeat its content."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """From 1; None where no line is at fault."""


def load_yaml(text: str) -> tuple[yaml.Node | None, Any]:
    """The root node, for the lines of its parts, and the value of a YAML document.

    Raises:
        YamlError: it is not valid, too long, nested too deeply, or its aliases expand to too much.
    """
    if len(text) > MAX_TEXT:
        raise YamlError(f"more than {MAX_TEXT:,} characters")
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, None
        _check_size(node)
        return node, loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise YamlError(
            str(getattr(error, "problem", None) or "not valid YAML"),
            mark.line + 1 if mark else None,
        ) from error
    except RecursionError:
        raise YamlError("nested too deeply") from None
    except (
        ValueError,
        OverflowError,
        TypeError,
    ) as error:  # dates and numbers that do not exist, keys that are lists
        if isinstance(error, YamlError):
            raise
        raise YamlError(
            "a value cannot be read (a date or number that does not exist, or a key that is a list)"
        ) from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_size(root: yaml.Node) -> None:
    """Refuses aliases of aliases of aliases: each is small, and all of them together are not."""
    sizes: dict[int, int] = {}

    def size_of(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            if known < 0:
                raise YamlError(
                    "an alias stands for something that contains it", node.start_mark.line + 1
                )
            return known
        sizes[id(node)] = -1
        children: list[yaml.Node] = []
        if isinstance(node, yaml.ScalarNode) and not is_utf8(node.value):
            raise YamlError("a text is not valid Unicode", node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        total = 1 + sum(size_of(child) for child in children)
        if total > MAX_NODES:
            raise YamlError(
                f"more than {MAX_NODES:,} values when its aliases are replaced",
                node.start_mark.line + 1,
            )
        sizes[id(node)] = total
        return total

    size_of(root)
