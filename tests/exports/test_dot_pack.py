"""Graphviz reads and draws the DOT files of every model: the bundled ones always, the whole pack where it is.

``nop`` and ``gc`` parse in linear time; ``dot`` itself would lay out first, which takes minutes from a few hundred ops.
"""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest
from conftest import EXAMPLES, ODDITIES, ROOT

import editor
from editor.exports.dot import affinity_dot, dag_dot, render, subgraphs_dot
from editor.graph.graph import Graph
from editor.runtimes.base import Capability
from editor.workspace.plan import Plan

PACK = Path(os.environ.get("MODEL_PACK", ROOT.parent / "shared" / "data" / "models"))
BUNDLED = sorted([*ODDITIES.glob("*.onnx"), *(EXAMPLES / "models").glob("*.onnx")])
REST = sorted([*PACK.rglob("*.onnx"), *PACK.rglob("*.onnx.gz")]) if PACK.is_dir() else []
LARGEST_PICTURE = 10_000
"""Ops; larger graphs are only parsed."""
TABLE = [{"name": 'A"<b>\\', "backendName": "CPU"}, {"name": "B & é", "backendName": "CPU"}]


def opened(path: Path, folder: Path) -> Graph | None:
    """The model with every symbol bound, None where it is none."""
    if path.suffix == ".gz":
        unpacked = folder / path.stem
        unpacked.write_bytes(gzip.decompress(path.read_bytes()))
        path = unpacked
    try:
        graph = editor.load_model(path)
        return editor.load_model(path, dict.fromkeys(graph.unbound, 2)) if graph.unbound else graph
    except editor.EditorError:
        return None


def striped(graph: Graph) -> Plan:
    """Alternately on two devices in stripes, at most a hundred of them."""
    keys = [graph.op_keys[op] for op in graph.order.tolist() if not graph.op_is_constant[op]]
    width = max(2, len(keys) // 100)
    return editor.partition(
        graph,
        TABLE,
        capabilities=[Capability.everything(graph)] * 2,
        pins={key: TABLE[1]["name"] for i, key in enumerate(keys) if i // width % 2},
    )


def told(program: str, *arguments: str, text: str) -> str:
    done = subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and not done.stderr, f"{program}: {done.stderr[:500]}"
    return done.stdout


def check(path: Path, folder: Path) -> None:
    graph = opened(path, folder)
    if graph is None:
        pytest.skip("no valid model")
    plan = striped(graph)
    part = plan.placement.division.subgraph_of_op
    nodes = int((part >= 0).sum()) + len(graph.inputs) + len(graph.outputs) + len(TABLE)
    texts = {
        "affinity": affinity_dot(plan.placement),
        "subgraphs": subgraphs_dot(plan.placement),
        "dag": dag_dot(plan.placement),
    }
    for name, text in texts.items():
        told("nop", text=text)
        expected = len(plan.subgraphs) if name == "dag" else nodes
        assert int(told("gc", "-n", text=text).split()[0]) == expected, name
        if len(graph) > LARGEST_PICTURE:
            continue
        (folder / f"{name}.dot").write_text(text)
        drawn = render(folder / f"{name}.dot").read_text()
        assert drawn.rstrip().endswith("</svg>") and drawn.count('class="node"') == expected, name


@pytest.mark.parametrize("path", BUNDLED, ids=lambda p: p.stem)
def test_graphviz_renders_every_bundled_model(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


@pytest.mark.skipif(not REST, reason="the pack of models is not here")
@pytest.mark.parametrize("path", REST, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_graphviz_renders_the_whole_pack(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)
