"""What the command line prints does not control the terminal, and streams that cannot be written are said in words."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from editor.terminal import printable

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = (
    "\x1b]0;title\x07 \x1b]52;c;aGk=\x07 \x1b[2J\x1b[H \x9b2J a\rb \u202e\u2066txt \x7f\x08\x08"
)
"""Sets the title of a terminal, its clipboard, clears it, writes over what is there, reverses text."""


def run(*arguments: object, cwd: Path, **environment: str) -> bytes:
    """Standard output and error of a command."""
    given = [a if isinstance(a, bytes) else str(a) for a in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "editor", *given],
        cwd=cwd,
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.stdout + done.stderr


def write_model(path: Path, text: str, domain: str = "") -> Path:
    """A model with the text in every name that a model has."""
    value = helper.make_tensor_value_info
    kind = f"Odd{text}" if domain else "Neg"
    nodes = [
        helper.make_node(kind, [f"x{text}"], [f"t{text}"], f"n{text}", domain=domain),
        helper.make_node("Relu", [f"t{text}"], [f"u{text}"], f"m{text}", doc_string=text),
        helper.make_node("Softplus", [f"u{text}"], [f"y{text}"], f"l{text}"),
    ]
    graph = helper.make_graph(
        nodes,
        f"g{text}",
        [value(f"x{text}", TensorProto.FLOAT, [f"d{text}", 4])],
        [value(f"y{text}", TensorProto.FLOAT, [f"d{text}", 4])],
        doc_string=text,
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(
        helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name=text, doc_string=text
        ),
        path,
    )
    return path


def test_no_name_of_a_model_controls_the_terminal(tmp_path: Path) -> None:
    text, folder = HOSTILE, tmp_path
    model = write_model(tmp_path / f"m{text}.onnx", text)
    table = tmp_path / "table.json"
    table.write_text(
        json.dumps(
            [
                {"name": f"A{text}", "backendName": "CPU", "supportedOps": "Neg, Relu"},
                {"name": "OV", "backendName": "openvino"},
                {"name": "NPU", "backendName": "NPU"},
            ]
        )
    )
    plain = tmp_path / "plain.json"
    plain.write_text(
        json.dumps(
            [
                {"name": "A", "backendName": "CPU", "nonSupportedNodes": "Softplus"},
                {"name": "OV", "backendName": "openvino"},
                {"name": "NPU", "backendName": "NPU"},
            ]
        )
    )
    times = tmp_path / "times.csv"
    times.write_text(f'op,microseconds\n"l{text}",5\n"odd{text}",x\n', encoding="utf-8", newline="")
    plan, key = tmp_path / "out" / "plan.json", f"u{text}"
    commands: list[tuple[object, ...]] = [
        ("partition", model, "--devices", plain, "--out", "out", "--pin", f"t{text}=OV"),
        ("partition", model, "--devices", table, "--out", "named"),
        ("partition", f"gone{text}.onnx", "--out", "x"),
        ("partition", model, "--devices", f"HETERO:{text}", "--out", "x"),
        ("partition", model, "--out", "x", "--pin", f"{text}=A"),
        ("partition", model, "--out", "x", "--policy", text),
        ("partition", model, "--out", "x", "--define", f"{text}=x"),
        (
            "partition",
            write_model(tmp_path / "odd.onnx", text, f"dom{text}"),
            "--devices",
            "HETERO:CPU",
            "--out",
            "x",
        ),
        ("sizes", plan, f"d{text}=1,2"),
        ("sizes", plan, f"e{text}=1,2"),
        ("why", plan, key),
        ("why", plan, f"none{text}"),
        ("run", plan),
        ("run", plan, "--inputs", f"gone{text}.npz"),
        ("check", plan, "--max-subgraphs", "1"),
        ("check", plan, "--against", tmp_path / "named" / "plan.json"),
        ("import", plan, times, "--device", "NPU"),
        ("import", plan, f"gone{text}.json", "--out", "x.json"),
        ("kit", plan, "--out", "kit"),
        ("kit", plan, "--out", "kit", "--device", text),
        ("bench", plan, "--seconds", "0.1"),
        ("profile", plan, "--seconds", "0.1"),
        ("adapter-test", text),
        ("watch", model, "--devices", plain, "--times", "1", "--out", "watched"),
        *[
            ("export", plan, "--to", form, "--out", form)
            for form in ("dot", "openvino", "onnxruntime", "onnx", "split", "tvm")
        ],
    ]
    for command in commands:
        printed = run(*command, cwd=folder).decode("utf-8")
        assert printed or command[0] == "watch", command
        assert not CONTROLS.search(printed), (command, printed)


@given(st.text(st.characters()))
def test_printable_text_has_no_controls_and_json_stays_the_same(text: str) -> None:
    assert not CONTROLS.search(printable(text))
    assert json.loads(printable(json.dumps(text))) == text
    assert printable(printable(text)) == printable(text)
    if not CONTROLS.search(text) and not set(text) & set("\u2028\u2029"):
        assert printable(text) == text


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    run(
        "partition",
        write_model(folder / "m.onnx", "µ"),
        "--devices",
        "HETERO:CPU,openvino",
        "--out",
        folder,
        cwd=folder,
    )
    return folder / "plan.json"


def shell(command: str, plan: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m editor {command}", "bash", str(plan)],
        cwd=plan.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.mark.parametrize("command", ['why "$1" yµ', "devices --json", "--help"])
def test_output_that_cannot_be_written_is_said_in_words(plan: Path, command: str) -> None:
    full = shell(f"{command} > /dev/full", plan)
    assert (full.returncode, full.stderr) == (
        1,
        "error: standard output cannot be written: No space left on device\n",
    )
    closed = shell(f"{command} >&-", plan)
    assert (closed.returncode, closed.stderr) == (
        1,
        "error: standard output is closed; > /dev/null discards what is printed\n",
    )
    piped = shell(f"{command} | true; exit $PIPESTATUS", plan)
    assert (piped.returncode, piped.stderr) == (0, "")


def test_errors_that_cannot_be_written_are_lost_and_nothing_else(plan: Path) -> None:
    for redirection in ("2> /dev/full", "2>&-", "2>&- 0<&-"):
        done = shell(f'why "$1" yµ {redirection}', plan)
        assert (done.returncode, done.stderr) == (0, "") and "is on CPU" in done.stdout
        done = shell(f'why "$1" nothing {redirection}', plan)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_an_encoding_that_lacks_characters_gets_escapes(
    plan: Path, environment: dict[str, str]
) -> None:
    printed = run("why", plan, "y\u00b5".encode(), cwd=plan.parent, **environment)
    assert b"is on " in printed or b"no op with the key" in printed
    assert b"\\xb5" in printed or b"\xb5" in printed or b"\\udcb5" in printed


def test_progress_on_a_terminal_still_moves_the_cursor(plan: Path) -> None:
    owner, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "editor", "sizes", str(plan), "dµ=1,2"],
        cwd=plan.parent,
        check=False,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    os.close(terminal)
    shown = os.read(owner, 1 << 16)
    os.close(owner)
    assert done.returncode == 0 and b"\r\x1b[K2 of 2: " in shown
