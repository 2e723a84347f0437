"""Requests that do not fit a callback are refused, and never become an internal error."""

from __future__ import annotations

import copy
import json
import random
import urllib.error
import urllib.request
from typing import Any

import pytest
from pages import Server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from editor.workspace.history import Store

JUNK: tuple[Any, ...] = (None, True, -1, 1e308, "", "x", "\0", "../../etc/passwd", "data:,A", [], [None], {}, {"x": 1}, [[]],
                         "9" * 50)
_FILE, _NAMES = "data:application/octet-stream;base64,AAAA", {"names": ["this plan"], "sequence": 1}
VALUES: dict[str, Any] = {
    "request": {"path": "/nowhere.onnx", "devices": "HETERO:CPU", "define": {"batch": 1}}, "open-path": 1,
    "path": "/nowhere.onnx", "uploaded": "/nowhere.onnx", "rules-file": _FILE, "import-file": _FILE,
    "detail": {"mode": "all", "open": []}, "detail-request": {"do": "mode", "mode": "blocks", "sequence": 1},
    "strokes": {"page": "a", "seen": 0, "strokes": [{"do": "unpin", "ops": [1], "sequence": 1}]},
    "device-add": "GPU", "search-request": {"text": "conv", "number": 1},
    "hover-request": {"ops": [1], "pairs": [[1, 2]], "number": 1}, "selection": {"ops": [3], "count": True},
    "panes-request": _NAMES, "comparison-request": _NAMES, "layout-keep": 1, "layout-name": "kept", "bench-seconds": 1,
    "bench-mode": "latency", "bench-requests": 1, "scheme": "dark", "map-request": 1,
    "layout-remove": {"names": ["kept"], "sequence": 1}}
CALLBACKS = "/_dash-update-component"


def post(server: Server, body: bytes, kind: str = "application/json") -> int:
    request = urllib.request.Request(server.url + CALLBACKS, body, {"content-type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


@pytest.fixture(scope="module")
def bodies(server: Server) -> list[dict[str, Any]]:
    """A request for each callback of the server, as the page would make it."""
    assert json.load(urllib.request.urlopen(server.url + "/_page?path=/"))["props"]["id"] == "editor"
    document = Store(str(server.workspace)).recent()[0].id
    found = json.loads(urllib.request.urlopen(server.url + "/_dash-dependencies").read())
    return [_body(each, document) for each in found if not each["clientside_function"]]


def _body(callback: dict[str, Any], document: str) -> dict[str, Any]:
    def filled(spec: dict[str, str]) -> Any:
        if spec["id"].startswith("{"):
            identity = {k: 1 if v == ["ALL"] else v for k, v in json.loads(spec["id"]).items()}
            return [{"id": identity, "property": spec["property"], "value": 1}]
        return {**spec, "value": copy.deepcopy({**VALUES, "doc": document}.get(spec["id"]))}

    inputs, names = [filled(s) for s in callback["inputs"]], callback["output"].strip(".").split("...")
    outputs = [dict(zip(("id", "property"), name.rsplit(".", 1), strict=False)) for name in names]
    first = callback["inputs"][0]
    return {"output": callback["output"], "outputs": outputs if callback["output"].startswith("..") else outputs[0],
            "inputs": inputs, "state": [filled(s) for s in callback["state"]],
            "changedPropIds": [] if first["id"].startswith("{") else [f"{first['id']}.{first['property']}"]}


def _spoil(body: dict[str, Any], chance: random.Random) -> Any:
    """Replaces, removes or doubles something somewhere in a body."""
    made = copy.deepcopy(body)
    here: Any = made
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return chance.choice(JUNK)
        key = chance.choice(keys)
        if isinstance(here[key], dict | list) and here[key] and chance.random() < 0.75:
            here = here[key]
            continue
        way = chance.randrange(3)
        if way == 0:
            here[key] = copy.deepcopy(chance.choice(JUNK))
        elif way == 1:
            del here[key]
        elif isinstance(here, list):
            here.append(copy.deepcopy(here[key]))
        else:
            here[str(chance.choice(JUNK))] = 1
        return made


def test_malformed_bodies_are_answered_with_400(server: Server, bodies: list[dict[str, Any]]) -> None:
    """361 of 500 were answered with 500."""
    chance = random.Random(16)
    seen = {}
    for i in range(500):
        body = json.dumps(_spoil(chance.choice(bodies), chance)).encode()
        if i % 10 == 0:
            body = body[:chance.randrange(len(body))]
        seen[body] = post(server, body)
    faults = [(status, body[:300]) for body, status in seen.items() if status not in (200, 204, 400)]
    assert not faults, f"{len(faults)} of {len(seen)}: {faults[:5]}"
    assert sum(status == 400 for status in seen.values()) > len(seen) / 2


@pytest.mark.parametrize("query", [
    "", "path=", "path=/d/", "path=/d/none", "path=/d/%00", "path=//d/../../etc/passwd", "path=%ff", "path=/d/" + "x" * 5000,
    "path=/d/a&path=/d/b", "path=/elsewhere"])
def test_every_address_has_a_page(server: Server, query: str) -> None:
    with urllib.request.urlopen(f"{server.url}/_page?{query}", timeout=60) as answer:
        page = json.load(answer)
    assert answer.status == 200 and page["namespace"] and page["props"]["children"]


@pytest.mark.parametrize(("body", "kind"), [
    (b"", "application/json"), (b"{}", "text/plain"), (b"[" * 100_000, "application/json"), (b"\xff\xfe", "application/json"),
    (b"null", "application/json")])
def test_what_is_no_request_at_all_is_answered_with_400(server: Server, body: bytes, kind: str) -> None:
    assert post(server, body, kind) == 400


@pytest.mark.parametrize("message", ["", "x", "[]", "null", '{"type": 1}', '{"type": "callback_request"}', b"\x00\xff",
                                     '{"type": "callback_request", "payload": {"output": "nothing"}}',
                                     '{"type": "callback_request", "requestId": [], "payload": {}}'])
def test_malformed_messages_close_their_connection_only(server: Server, message: str | bytes) -> None:
    with connect(server.url.replace("http", "ws") + "/_dash-ws-callback", origin=server.url) as socket:  # type: ignore[arg-type]
        socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd and closed.value.rcvd.code == 1008
    assert urllib.request.urlopen(server.url).status == 200
