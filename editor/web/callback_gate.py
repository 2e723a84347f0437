"""Refuses requests to Dash's callbacks that do not fit them: Dash would answer them with an internal error."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from dash import Dash
from dash._utils import split_callback_id, stringify_id

from editor.errors import EditorError
from editor.files import parse_json
from editor.text import is_utf8
from editor.web.security import Receive, Scope, Send
from editor.web.validation import require_value

_CALLBACKS, _SOCKET = "/_dash-update-component", "/_dash-ws-callback"
_MANY = ('["ALL"]', '["ALLSMALLER"]')
_POLICY_VIOLATION = 1008


class CallbackGate:
    """ASGI middleware: a request must name a callback, and bring what that takes, of the types that it declares."""

    def __init__(self, app: Any, dash: Dash) -> None:
        self.app, self.dash = app, dash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what fits; otherwise answers 400, or closes the connection."""
        if scope["type"] == "http" and scope["path"] == _CALLBACKS and scope["method"] == "POST":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == _SOCKET:
            await self.app(scope, self._checked(receive, send), send)
        else:
            await self.app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts, more = [], True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"".join(parts)
        parts.clear()
        try:
            if not dict(scope["headers"]).get(b"content-type", b"").startswith(b"application/json"):
                raise EditorError("the content type is not application/json")
            self.check(_parsed(body))
        except EditorError as error:
            await send(
                {
                    "type": "http.response.start",
                    "status": 400,
                    "headers": [(b"content-type", b"text/plain; charset=utf-8")],
                }
            )
            await send(
                {
                    "type": "http.response.body",
                    "body": f"This request does not fit: {error}.".encode(),
                }
            )
            return
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, again, send)

    def _checked(self, receive: Receive, send: Send) -> Receive:
        async def checked() -> Any:
            message = await receive()
            if message["type"] == "websocket.receive":
                try:
                    self._check_message(_parsed(message.get("text") or ""))
                except EditorError as error:
                    await send(
                        {
                            "type": "websocket.close",
                            "code": _POLICY_VIOLATION,
                            "reason": str(error)[:100],
                        }
                    )
                    return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
            return message

        return checked

    def _check_message(self, message: Any) -> None:
        fields = _mapping(message, "the message")
        for name in ("type", "requestId", "rendererId"):
            if not isinstance(fields.get(name, ""), str):
                raise EditorError(f"{name} is not a text")
        if fields.get("type") == "callback_request":
            self.check(fields.get("payload"))

    def check(self, body: Any) -> None:
        """Checks the body of a request.

        Raises:
            EditorError: what does not fit.
        """
        fields = _mapping(body, "the body")
        output = str(fields.get("output"))
        callback = self.dash.callback_map.get(output)
        if callback is None or "callback" not in callback:
            raise EditorError("there is no such callback")
        values, changes = [], set()
        for part, name in (("inputs", "inputs"), ("state", "states")):
            given, expected = _items(fields.get(part, []), name), callback[part]
            if len(given) != len(expected):
                raise EditorError(f"it has {len(given)} {name} instead of {len(expected)}")
            for item, spec in zip(given, expected, strict=True):
                values.append(_value_of(item, spec))
                changes |= {_address(each) for each in (item if isinstance(item, list) else [item])}
        if not set(_texts(fields.get("changedPropIds", []))) <= changes:
            raise EditorError("what has changed is not among the inputs")
        if not callback.get("no_output"):
            _check_outputs(fields.get("outputs"), output)
        _check_types(callback["callback"], values)


def _parsed(text: bytes | str) -> Any:
    try:
        value = parse_json(text if isinstance(text, str) else text.decode("utf-8"))
    except ValueError as error:
        raise EditorError(f"it is not JSON ({error})") from error
    if not is_utf8(json.dumps(value, ensure_ascii=False)):
        raise EditorError("a text in it is not valid Unicode")
    return value


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise EditorError(f"{what} is not an object")
    return value


def _items(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise EditorError(f"{what} are not a list")
    return value


def _texts(value: Any) -> list[str]:
    if not all(isinstance(each, str) for each in _items(value, "changed properties")):
        raise EditorError("a changed property is not a text")
    return list(value)


def _check_outputs(given: Any, output: str) -> None:
    """What the answer is for must be what the callback makes."""
    expected = split_callback_id(output)
    if isinstance(expected, list) != isinstance(given, list):
        raise EditorError("its outputs are not those of the callback")
    pairs = (
        [(given, expected)]
        if isinstance(expected, dict)
        else list(zip(given, expected, strict=False))
    )
    if isinstance(expected, list) and len(given) != len(expected):
        raise EditorError(f"it has {len(given)} outputs instead of {len(expected)}")
    for item, spec in pairs:
        _address(item)
        if item["id"] != spec["id"] or _plain(item["property"]) != _plain(spec["property"]):
            raise EditorError(f"an output is not {spec['id']}.{_plain(spec['property'])}")


def _plain(name: str) -> str:
    """A property without the mark of one of several callbacks that set it."""
    return name.partition("@")[0]


def _address(item: Any) -> str:
    """``id.property`` of an input or output, as Dash writes it."""
    fields = _mapping(item, "an input")
    identity, name = fields.get("id"), fields.get("property")
    if not isinstance(name, str) or not isinstance(identity, str | dict) or not identity:
        raise EditorError("an input has no id or no property")
    return f"{stringify_id(identity)}.{name}"


def _value_of(item: Any, spec: Mapping[str, str]) -> Any:
    """The value of an input; a list for a pattern that fits many."""
    if spec["id"].startswith("{") and any(word in spec["id"] for word in _MANY):
        return [_one_value(each, spec) for each in _items(item, "values of a pattern")]
    return _one_value(item, spec)


def _one_value(item: Any, spec: Mapping[str, str]) -> Any:
    fields = _mapping(item, "an input")
    _address(fields)
    identity, expected = fields["id"], spec["id"]
    fits = (
        identity == expected
        if not expected.startswith("{")
        else isinstance(identity, dict) and identity.keys() == json.loads(expected).keys()
    )
    if not fits or fields["property"] != spec["property"]:
        raise EditorError(f"an input is not {expected}.{spec['property']}")
    return fields.get("value")


def _check_types(function: Any, values: list[Any]) -> None:
    for (name, kind), value in zip(_parameters(inspect.unwrap(function)), values, strict=False):
        require_value(value, kind, name)


@lru_cache
def _parameters(function: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(function)
    return [(name, hints.get(name, Any)) for name in inspect.signature(function).parameters]
