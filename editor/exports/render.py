"""Renders DOT files as pictures.

``dot`` takes minutes for a few hundred ops with long skip connections and fails for thousands, so larger graphs
are drawn by ``neato -n`` at positions of the editor's layered layout.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

from editor.errors import ExportError
from editor.files import write_atomic
from editor.graph.layout.layered import draw

RENDER_SECONDS = 120
MAX_EDGES_FOR_DOT = 150
"""``dot`` may take minutes for the 297 edges among the subgraphs of a Llama; a fixed bound keeps pictures deterministic."""
MAX_EDGES = 20_000
"""Graphviz needs minutes for more, and nobody can read such a picture."""
_NODE_WIDTH = 150
"""Width of a node in points."""
_NODE = re.compile(r"^\s*(\w+) \[", re.MULTILINE)
_EDGE = re.compile(r"^\s*(\w+) -> (\w+)", re.MULTILINE)
_KEYWORDS = {"node", "edge", "graph"}


def render(path: Path, form: str = "svg") -> Path:
    """Renders a DOT file of the editor with Graphviz, into the same folder; returns the picture's path.

    Raises:
        ExportError: Graphviz is not installed, takes too long or fails.
    """
    if shutil.which("dot") is None:
        raise ExportError(f"{path.name} was not drawn: Graphviz is not installed "
                          "(Debian and Ubuntu: `apt install graphviz`)")
    text = path.read_text(encoding="utf-8")
    edges = _EDGE.findall(text)
    if len(edges) > MAX_EDGES:
        raise ExportError(f"{path.name} was not drawn: it has {len(edges):,} edges, the limit of a picture is {MAX_EDGES:,}")
    command = ["dot", f"-T{form}"]
    if len(edges) > MAX_EDGES_FOR_DOT:
        text, command = _with_positions(text, edges), ["neato", "-n", "-Gsplines=line", f"-T{form}"]
    if text.startswith("// "):  # becomes a comment in SVG; other formats have none
        command.append(f"-Gcomment={text.partition(chr(10))[0][3:]}")
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=RENDER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ExportError(f"{path.name} was not drawn: {command[0]} took more than {RENDER_SECONDS} s") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()[:300]
        raise ExportError(f"{path.name} was not drawn: {command[0]} failed: {message}")
    return write_atomic(path.with_suffix(f".{form}"), done.stdout)


def _with_positions(text: str, edges: list[tuple[str, str]]) -> str:
    """The DOT text with a position for each node; DOT allows further attributes of a node."""
    index = {name: i for i, name in enumerate(dict.fromkeys(n for n in _NODE.findall(text) if n not in _KEYWORDS))}
    pairs = sorted({(index[a], index[b]) for a, b in edges})
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    drawing = draw(len(index), source, target, _NODE_WIDTH)
    positions = "".join(f'\t{name} [pos="{drawing.x[i]:.0f},{-drawing.y[i]:.0f}"]\n' for name, i in index.items())
    return f"{text[:text.rindex('}')]}{positions}}}\n"
