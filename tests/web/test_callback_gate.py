"""Requests that do not fit a callback are refused, and never become an internal error."""

from __future__ import annotations

import copy
import json
import random
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import write_dag
from pages import Serve, Server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from editor.exports.formats import FORMATS
from editor.workspace.history import Store

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    "",
    "x",
    "\0",
    "../../etc/passwd",
    "data:,A",
    [],
    [None],
    {},
    {"x": 1},
    [[]],
    "9" * 50,
)
_FILE, _NAMES = "data:application/octet-stream;base64,AAAA", {"names": ["this plan"], "sequence": 1}
VALUES: dict[str, Any] = {
    "request": {"path": "/nowhere.onnx", "devices": "HETERO:CPU", "define": {"batch": 1}},
    "open-path": 1,
    "path": "/nowhere.onnx",
    "uploaded": "/nowhere.onnx",
    "rules-file": _FILE,
    "import-file": _FILE,
    "detail": {"mode": "all", "open": []},
    "detail-request": {"do": "mode", "mode": "blocks", "sequence": 1},
    "strokes": {"page": "a", "seen": 0, "strokes": [{"do": "unpin", "ops": [1], "sequence": 1}]},
    "device-add": "GPU",
    "search-request": {"text": "conv", "number": 1},
    "hover-request": {"ops": [1], "pairs": [[1, 2]], "number": 1},
    "selection": {"ops": [3], "count": True},
    "panes-request": _NAMES,
    "comparison-request": _NAMES,
    "layout-keep": 1,
    "layout-name": "kept",
    "bench-seconds": 1,
    "bench-mode": "latency",
    "bench-requests": 1,
    "scheme": "dark",
    "map-request": 1,
    "layout-remove": {"names": ["kept"], "sequence": 1},
}
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
    assert (
        json.load(urllib.request.urlopen(server.url + "/_page?path=/"))["props"]["id"] == "editor"
    )
    document = Store(str(server.workspace)).recent()[0].id
    found = json.loads(urllib.request.urlopen(server.url + "/_dash-dependencies").read())
    return [_body(each, document) for each in found if not each["clientside_function"]]


def _body(callback: dict[str, Any], document: str) -> dict[str, Any]:
    def filled(spec: dict[str, str]) -> Any:
        if spec["id"].startswith("{"):
            identity = {k: 1 if v == ["ALL"] else v for k, v in json.loads(spec["id"]).items()}
            return [{"id": identity, "property": spec["property"], "value": 1}]
        return {**spec, "value": copy.deepcopy({**VALUES, "doc": document}.get(spec["id"]))}

    inputs, names = (
        [filled(s) for s in callback["inputs"]],
        callback["output"].strip(".").split("..."),
    )
    outputs = [dict(zip(("id", "property"), name.rsplit(".", 1), strict=False)) for name in names]
    first = callback["inputs"][0]
    return {
        "output": callback["output"],
        "outputs": outputs if callback["output"].startswith("..") else outputs[0],
        "inputs": inputs,
        "state": [filled(s) for s in callback["state"]],
        "changedPropIds": []
        if first["id"].startswith("{")
        else [f"{first['id']}.{first['property']}"],
    }


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


def test_malformed_bodies_are_answered_with_400(
    server: Server, bodies: list[dict[str, Any]]
) -> None:
    """361 of 500 were answered with 500."""
    chance = random.Random(16)
    seen = {}
    for i in range(500):
        body = json.dumps(_spoil(chance.choice(bodies), chance)).encode()
        if i % 10 == 0:
            body = body[: chance.randrange(len(body))]
        seen[body] = post(server, body)
    faults = [
        (status, body[:300]) for body, status in seen.items() if status not in (200, 204, 400)
    ]
    assert not faults, f"{len(faults)} of {len(seen)}: {faults[:5]}"
    assert sum(status == 400 for status in seen.values()) > len(seen) / 2


@pytest.mark.parametrize(
    "text",
    [
        json.dumps("caf\udce9/m.onnx").encode(),
        '"caf\udce9"'.encode("utf-8", "surrogatepass"),
        b'"caf\xe9"',
    ],
    ids=["escaped", "encoded", "latin-1"],
)
def test_a_text_that_is_not_unicode_is_answered_with_400(
    server: Server, bodies: list[dict[str, Any]], text: bytes
) -> None:
    """A path of such a text ended the process for jobs; others became internal errors."""
    for body in bodies:
        for part in ("inputs", "state"):
            for number in range(len(body[part])):
                made = copy.deepcopy(body)
                made[part][number] = (
                    {**made[part][number][0], "value": "HERE"}
                    if isinstance(made[part][number], list)
                    else {**made[part][number], "value": "HERE"}
                )
                assert post(server, json.dumps(made).encode().replace(b'"HERE"', text)) == 400
    with urllib.request.urlopen(server.url + "/_page?path=/d/caf%ED%B3%A9", timeout=60) as answer:
        assert answer.status == 200
    assert (
        urllib.request.urlopen(server.url + "/_standing?document=%ED%B3%A9%E9", timeout=60).status
        == 200
    )


def answer_to_strokes(server: Server, bodies: list[dict[str, Any]], message: dict[str, Any]) -> str:
    body = next(copy.deepcopy(each) for each in bodies if each["output"].startswith("..view.data"))
    body["inputs"][0]["value"] = message
    request = urllib.request.Request(
        server.url + CALLBACKS, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("kind", "op"),
    [([], 5), ({}, 6), ([["undo"]], 7), (1, 8), (None, 9), ("nothing", 10), ("rules", 11)],
)
def test_a_stroke_of_an_odd_kind_is_a_message(
    server: Server, bodies: list[dict[str, Any]], kind: Any, op: int
) -> None:
    """Also after a change of another tab, which some kinds may not take back."""
    for number, do in enumerate(
        ({"do": "paint", "ops": [op], "device": 0, "force": False}, {"do": kind})
    ):
        message = {"page": f"{number} of {kind}", "seen": 0, "strokes": [{**do, "sequence": 1}]}
        said = answer_to_strokes(server, bodies, message)
    assert "The page sent" in said and "failed" not in said


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400], ids=["large", "small", "huge"])
@pytest.mark.parametrize("field", ["seen", "sequence", "step", "ops"])
def test_numbers_that_no_database_holds_are_messages(
    server: Server, bodies: list[dict[str, Any]], field: str, number: int
) -> None:
    stroke: dict[str, Any] = (
        {"do": "step", "step": 1} if field == "step" else {"do": "unpin", "ops": [1]}
    )
    stroke["sequence"] = 1
    message: dict[str, Any] = {"page": "huge", "seen": 0, "strokes": [stroke]}
    (message if field == "seen" else stroke)[field] = [number] if field == "ops" else number
    said = answer_to_strokes(server, bodies, message)
    assert "The page sent" in said and "failed" not in said


@pytest.mark.parametrize(
    "path",
    ["os/__init__.py", "dash/nothing.js", "nothing/x.js", "os/%00", "dash/..%2f..%2fetc/passwd"],
)
def test_a_file_that_is_none_of_the_components_is_not_found(server: Server, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{server.url}/_dash-component-suites/{path}", timeout=60)
    assert error.value.code == 404


@pytest.mark.parametrize(
    ("identity", "value"),
    [
        ({"type": "example", "number": 99}, 1),
        ({"type": "example", "number": "x"}, 1),
        ({"type": "example", "number": -1}, 1),
        ({"type": "export", "what": 5}, 1),
        ({"type": "export", "what": "nothing"}, 1),
        ({"type": "export", "what": "kit:99"}, 1),
    ],
)
def test_a_button_that_no_page_has_is_answered(
    server: Server, bodies: list[dict[str, Any]], identity: dict[str, Any], value: int
) -> None:
    body = next(
        copy.deepcopy(each)
        for each in bodies
        if isinstance(each["inputs"][0], list)
        and each["inputs"][0][0]["id"]["type"] == identity["type"]
    )
    body["inputs"][0] = [{"id": identity, "property": "n_clicks", "value": value}]
    body["changedPropIds"] = [
        json.dumps(identity, sort_keys=True, separators=(",", ":")) + ".n_clicks"
    ]
    assert post(server, json.dumps(body).encode()) in (200, 204, 400)


@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        ("detail", {"mode": "nothing", "open": []}),
        ("detail", {}),
        ("detail", {"mode": "blocks", "open": [10**6, -5]}),
        ("bench-seconds", "x"),
        ("bench-seconds", -1),
        ("bench-requests", [1]),
        ("bench-mode", "x"),
        ("device-forms-table", [{}]),
        ("request", {"path": "/x.onnx", "devices": "HETERO:CPU", "define": {"n": []}}),
    ],
)
def test_odd_states_of_the_page_are_answered(
    server: Server, bodies: list[dict[str, Any]], wanted: str, changed: Any
) -> None:
    statuses = []
    for body in bodies:
        made = copy.deepcopy(body)
        parts = [
            each
            for each in (*made["inputs"], *made["state"])
            if isinstance(each, dict) and each["id"] == wanted
        ]
        if parts:
            parts[0]["value"] = changed
            if wanted.startswith("bench"):
                made["inputs"][0]["value"] = 1  # the button is pressed
            statuses.append(post(server, json.dumps(made).encode()))
    assert statuses and all(status in (200, 204, 400) for status in statuses)


def pressed(
    server: Server, bodies: list[dict[str, Any]], document: str, identity: dict[str, Any]
) -> tuple[int, str]:
    """Status and answer of a button of the page."""
    body = next(
        copy.deepcopy(each)
        for each in bodies
        if isinstance(each["inputs"][0], list)
        and each["inputs"][0][0]["id"]["type"] == identity["type"]
    )
    body["inputs"][0] = [{"id": identity, "property": "n_clicks", "value": 1}]
    body["state"] = [{"id": "doc", "property": "data", "value": document}]
    body["changedPropIds"] = [
        json.dumps(identity, sort_keys=True, separators=(",", ":")) + ".n_clicks"
    ]
    request = urllib.request.Request(
        server.url + CALLBACKS, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("change", ["gone", "folder gone", "no model", "a folder"])
def test_a_model_that_changes_while_its_document_is_open_is_a_message_in_every_export(
    serve: Serve, tmp_path: Path, bodies: list[dict[str, Any]], change: str
) -> None:
    model = tmp_path / "models" / "net.onnx"
    model.parent.mkdir()
    write_dag(model, [[], [0], [1]])
    served = serve(str(model))
    assert (
        json.load(urllib.request.urlopen(served.url + "/_page?path=/"))["props"]["id"] == "editor"
    )
    document = Store(str(served.workspace)).recent()[0].id
    model.unlink()
    if change == "folder gone":
        model.parent.rmdir()
    elif change == "no model":
        model.write_bytes(b"something else")
    elif change == "a folder":
        model.mkdir()
    kinds = [
        *(f"bundle:{form}" for form in FORMATS),
        "kit:0",
        "plan.json",
        "devices.yaml",
        "partition.log",
    ]
    answers = {
        what: pressed(served, bodies, document, {"type": "export", "what": what}) for what in kinds
    }
    assert {what: status for what, (status, _) in answers.items() if status not in (200, 204)} == {}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "path=",
        "path=/d/",
        "path=/d/none",
        "path=/d/%00",
        "path=//d/../../etc/passwd",
        "path=%ff",
        "path=/d/" + "x" * 5000,
        "path=/d/a&path=/d/b",
        "path=/elsewhere",
    ],
)
def test_every_address_has_a_page(server: Server, query: str) -> None:
    with urllib.request.urlopen(f"{server.url}/_page?{query}", timeout=60) as answer:
        page = json.load(answer)
    assert answer.status == 200 and page["namespace"] and page["props"]["children"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"{}", "text/plain"),
        (b"[" * 100_000, "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"null", "application/json"),
    ],
)
def test_what_is_no_request_at_all_is_answered_with_400(
    server: Server, body: bytes, kind: str
) -> None:
    assert post(server, body, kind) == 400


@pytest.mark.parametrize(
    "message",
    [
        "",
        "x",
        "[]",
        "null",
        '{"type": 1}',
        '{"type": "callback_request"}',
        b"\x00\xff",
        '{"type": "callback_request", "payload": {"output": "nothing"}}',
        '{"type": "callback_request", "requestId": [], "payload": {}}',
    ],
)
def test_malformed_messages_close_their_connection_only(
    server: Server, message: str | bytes
) -> None:
    with connect(
        server.url.replace("http", "ws") + "/_dash-ws-callback", origin=server.url
    ) as socket:  # type: ignore[arg-type]
        socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd and closed.value.rcvd.code == 1008
    assert urllib.request.urlopen(server.url).status == 200
