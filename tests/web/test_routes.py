"""The routes of the page, asked as a script would; requests that do not fit are refused and never an internal error."""

from __future__ import annotations

import copy
import json
import random
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import write_dag
from pages import Serve, Server

from editor.exports.formats import FORMATS
from editor.workspace.history import Store

Reply = tuple[int, Any]
Ask = Callable[..., Reply]


def fetch(
    address: str, body: bytes | None = None, kind: str = "application/json", method: str = ""
) -> Reply:
    """Status of a request, and its answer: parsed where it is JSON."""
    request = urllib.request.Request(
        address, body, {"content-type": kind}, method=method or ("GET" if body is None else "POST")
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, content = int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content.decode("utf-8", "replace")


def opened(server: Server) -> str:
    """The document that a server was started with."""
    assert fetch(server.url + "/_page?path=/")[1]["props"]["id"] == "editor"
    return Store(str(server.workspace)).recent()[0].id


@pytest.fixture(scope="module")
def document(server: Server) -> str:
    return opened(server)


@pytest.fixture(scope="module")
def ask(server: Server, document: str) -> Ask:
    """Asks about the document: ``ask("edits", {...})``, or a GET without a body."""

    def work(what: str, body: Any = None) -> Reply:
        sent = (
            None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        return fetch(f"{server.url}/d/{document}/{what}", sent)

    return work


def test_a_whole_session_as_a_script(serve: Serve, tmp_path: Path) -> None:
    """Edit, look, search, undo, benchmark: what `docs/reference/http.md` tells."""
    model = write_dag(tmp_path / "net.onnx", [[], [0], [1], [2]])
    served = serve(str(model), "--devices", "HETERO:OpenVINO,CPU")
    root = f"{served.url}/d/{opened(served)}"

    def post(what: str, body: Any) -> Reply:
        return fetch(f"{root}/{what}", json.dumps(body).encode())

    view = fetch(f"{root}/view")[1]
    ops, names = view["ops"], [device["name"] for device in view["devices"]]
    cpu = names.index("CPU")
    status, painted = post(
        "edits",
        {
            "page": "script",
            "seen": view["version"],
            "edits": [
                {"do": "paint", "ops": [ops[1]], "device": cpu},
                {"do": "grow", "ops": [ops[1]], "how": "downstream"},
            ],
        },
    )
    assert status == 200 and painted["sequence"] == 2 and painted["figures"]["pins"] == 1
    assert painted["view"]["device"][1] == cpu and painted["view"]["pin"][1] == 1
    assert painted["selection"]["ops"] == ops[1:]
    assert fetch(f"{root}/status")[1]["version"] == painted["view"]["version"] > view["version"]
    ribbon = fetch(f"{root}/ribbon")[1]
    assert [part["device"] for part in ribbon["parts"]].count(cpu) == 1
    assert ribbon["kind"] == "estimate"
    assert fetch(f"{root}/selection?where=device+==+CPU")[1]["ops"] == [ops[1]]
    assert str(ops[1]) in fetch(f"{root}/search?text=device+==+CPU")[1]["ops"]
    assert "CPU" in str(fetch(f"{root}/hover?ops={ops[1]}")[1]["content"])
    drawn = post(
        "drawing", {"detail": {"mode": "ops"}, "change": {"do": "mode", "mode": "subgraphs"}}
    )[1]
    assert (
        len([e for e in drawn["elements"] if "ops" in e["data"]]) == painted["figures"]["subgraphs"]
    )
    assert fetch(f"{root}/map")[1]["count"] == len(ops)
    panes = fetch(f"{root}/panes?name=this+plan&name=all+on+CPU")[1]
    assert panes["layouts"][0]["name"] == "this plan"
    rules = b"- type: Neg\n  to: CPU\n"
    status, brought = fetch(f"{root}/imports?what=rules&name=r.yaml", rules, "application/yaml")
    assert status == 200 and brought["edit"]["do"] == "rules"
    status, undone = post("edits", {"page": "script", "seen": 10**6, "edits": [{"do": "undo"}]})
    assert status == 200 and undone["figures"]["pins"] == 0 and not undone["view"]["undo"]
    status, run = post("runs", {"kind": "benchmark", "seconds": 0.2})
    assert status == 200 and run["run"]
    with urllib.request.urlopen(f"{root}/runs/events", timeout=120) as stream:
        events = [json.loads(line[5:]) for line in stream if line.startswith(b"data:")]
    assert [event["done"] for event in events][-1] and "Done: median" in events[-1]["text"]
    for event in events[:-1]:
        assert event["label"], "what it does"
        assert event["share"] is not None or "%" not in event["label"]
    assert fetch(f"{root}/ribbon")[1]["kind"] == "measurement"
    assert post("cancel", {})[0] == post("runs/cancel", {})[0] == 204


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
REQUESTS: dict[str, dict[str, Any]] = {
    "edits": {
        "page": "a",
        "seen": 0,
        "edits": [
            {"do": "unpin", "ops": [1], "sequence": 1},
            {"do": "region", "ops": [3], "device": None},
            {"do": "device-field", "name": "CPU", "device": 0, "field": "memory", "value": "8GB"},
        ],
    },
    "drawing": {"detail": {"mode": "blocks", "open": []}, "change": {"do": "open", "units": [1]}},
    "runs": {"kind": "nothing", "seconds": 1, "mode": "latency", "requests": 1, "memory": False},
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


def test_malformed_bodies_are_refused_with_the_field(ask: Ask) -> None:
    chance = random.Random(16)
    statuses = []
    for i in range(400):
        what = chance.choice(list(REQUESTS))
        body = json.dumps(_spoil(REQUESTS[what], chance)).encode()
        if i % 10 == 0:
            body = body[: chance.randrange(len(body))]
        status, said = ask(what, body)
        assert status in (200, 400, 422), (what, body[:300], said)
        assert status == 200 or said["detail"], (what, body[:300])
        statuses.append(status)
    assert statuses.count(422) > 200


def test_a_comparison_is_a_file_whatever_its_model_is_called(serve: Serve, tmp_path: Path) -> None:
    """A header takes no other letters than Latin ones as they are."""
    served = serve(str(write_dag(tmp_path / '模型 "é".onnx', [[], [0]])))
    names = "name=this+plan&name=all+on+CPU"
    address = f"{served.url}/d/{opened(served)}/comparison?{names}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        how, page = answer.headers["content-disposition"], answer.read().decode()
    assert urllib.parse.unquote(how) == "attachment; filename*=UTF-8''模型 _é__comparison.html"
    assert "<html" in page


@pytest.mark.parametrize(
    "query",
    [
        "hover?ops=x",
        "hover?ops=5-1",
        "hover?pairs=1-2-3",
        "hover?ops=" + "9" * 40,
        "hover?ops=%ff",
        "hover?ops=0-99999999999",
        "pattern?kind=scope",
        "pattern?kind=nothing&text=x",
        "pattern?kind=regex&text=" + "(" * 400,
        "search",
        "search?text=" + "(" * 400,
        "selection?where=op+==",
        "panes?name=nothing",
        "comparison?name=nothing",
        "comparison",
        "runs/events?x=1",
        "panes",
        "imports?name=x&what=y",
        "map?x=1",
        "../../etc/passwd",
    ],
)
def test_odd_questions_are_answered(ask: Ask, query: str) -> None:
    status, _ = ask(query)
    assert status in (200, 400, 404, 405, 422)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps("caf\udce9/m.onnx").encode(),
        '"caf\udce9"'.encode("utf-8", "surrogatepass"),
        b'"caf\xe9"',
    ],
    ids=["escaped", "encoded", "latin-1"],
)
def test_a_text_that_is_not_unicode_is_refused(server: Server, ask: Ask, text: bytes) -> None:
    """A path of such a text ended the process for jobs; others became internal errors."""
    edits = b'{"page": "u", "seen": 0, "edits": [{"do": "filter", "text": HERE}]}'
    assert ask("edits", edits.replace(b"HERE", text))[0] in (400, 422)
    drawing = b'{"detail": {"mode": "ops"}, "change": {"do": "find", "text": HERE}}'
    assert ask("drawing", drawing.replace(b"HERE", text))[0] in (400, 422)
    assert fetch(server.url + "/_page?path=/d/caf%ED%B3%A9")[0] == 200
    assert fetch(server.url + "/d/%ED%B3%A9%E9/status")[0] == 200


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400], ids=["large", "small", "huge"])
@pytest.mark.parametrize("field", ["seen", "sequence", "step", "ops"])
def test_numbers_that_no_database_holds_are_refused(ask: Ask, field: str, number: int) -> None:
    edit: dict[str, Any] = (
        {"do": "step", "step": 1} if field == "step" else {"do": "unpin", "ops": [1]}
    )
    body: dict[str, Any] = {"page": "huge", "seen": 0, "edits": [edit]}
    (body if field == "seen" else edit)[field] = [number] if field == "ops" else number
    status, said = ask("edits", body)
    assert status == 422 and (field in said["detail"] or "JSON" in said["detail"])


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
def test_what_is_no_request_at_all_is_refused(
    server: Server, document: str, body: bytes, kind: str
) -> None:
    assert fetch(f"{server.url}/d/{document}/edits", body, kind)[0] in (400, 422)


def test_a_document_that_is_not_there_is_said(server: Server) -> None:
    for what in ("view", "ribbon", "map", "hover?ops=1", "search?text=x"):
        status, said = fetch(f"{server.url}/d/none/{what}")
        assert status == 404 and "not in the workspace" in said["detail"]


@pytest.mark.parametrize(
    "path",
    ["os/__init__.py", "dash/nothing.js", "nothing/x.js", "os/%00", "dash/..%2f..%2fetc/passwd"],
)
def test_a_file_that_is_none_of_the_components_is_not_found(server: Server, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{server.url}/_dash-component-suites/{path}", timeout=60)
    assert error.value.code == 404


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


CALLBACKS = "/_dash-update-component"


def pressed(server: Server, document: str, identity: dict[str, Any]) -> int:
    """The status of a button of the page, which is Dash's to answer."""
    callbacks = fetch(server.url + "/_dash-dependencies")[1]
    (callback,) = (
        each
        for each in callbacks
        if any(f'"type":"{identity["type"]}"' in i["id"] for i in each["inputs"])
    )
    outputs = [
        dict(zip(("id", "property"), name.rsplit(".", 1), strict=True))
        for name in callback["output"].strip(".").split("...")
    ]
    pressed = {"id": identity, "property": "n_clicks", "value": 1}
    body = {
        "output": callback["output"],
        "outputs": outputs,
        "inputs": [[pressed]],
        "state": [{"id": "doc", "property": "data", "value": document}],
        "changedPropIds": [
            json.dumps(identity, sort_keys=True, separators=(",", ":")) + ".n_clicks"
        ],
    }
    return fetch(server.url + CALLBACKS, json.dumps(body).encode())[0]


@pytest.mark.parametrize("what", ["nothing", "kit:99"])
def test_an_export_that_no_page_has_is_a_message(server: Server, document: str, what: str) -> None:
    assert pressed(server, document, {"type": "export", "what": what}) == 200


@pytest.mark.parametrize("change", ["gone", "folder gone", "no model", "a folder", "fewer ops"])
def test_a_model_that_changes_while_its_document_is_open_is_a_message_in_every_export(
    serve: Serve, tmp_path: Path, change: str
) -> None:
    model = tmp_path / "models" / "net.onnx"
    model.parent.mkdir()
    write_dag(model, [[], [0], [1]])
    served = serve(str(model))
    document = opened(served)
    model.unlink()
    if change == "folder gone":
        model.parent.rmdir()
    elif change == "no model":
        model.write_bytes(b"something else")
    elif change == "a folder":
        model.mkdir()
    elif change == "fewer ops":
        write_dag(model, [[], [0]])
    kinds = [
        *(f"bundle:{form}" for form in FORMATS),
        "kit:0",
        "plan.json",
        "devices.yaml",
        "partition.log",
    ]
    statuses = {what: pressed(served, document, {"type": "export", "what": what}) for what in kinds}
    assert {what: status for what, status in statuses.items() if status not in (200, 204)} == {}
