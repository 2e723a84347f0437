"""Writes DOT files, and draws them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import graphviz
import numpy as np

from editor.errors import ExportError
from editor.files import safe_stem, write_atomic
from editor.graph.layout.layered import draw
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.text import human_bytes, pluralize, shortened_name

DEVICE_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#5A5A5A",
)


def device_colour(index: int) -> str:
    """Fill colour of the device at a position of the table."""
    return DEVICE_COLOURS[index % len(DEVICE_COLOURS)]


def text_colour(fill: str) -> str:
    """Black or white, whichever contrasts more with a fill (WCAG 2 relative luminance)."""
    channels = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def subgraph_colours(count: int, neighbours: Mapping[int, Sequence[int]]) -> list[str]:
    """A colour for each subgraph, different from all its neighbours where the palette allows."""
    colours: list[int] = []
    for i in range(count):
        used = {colours[n] for n in neighbours.get(i, ()) if n < i}
        order = [(i + step) % len(DEVICE_COLOURS) for step in range(len(DEVICE_COLOURS))]
        colours.append(next((c for c in order if c not in used), order[0]))
    return [DEVICE_COLOURS[c] for c in colours]


__all__ = ["affinity_dot", "dag_dot", "render", "subgraphs_dot", "write_dot"]

_MAX_LINE = 160
_MAX_NAME = 40
_TRANSFER = {"color": "#000000", "penwidth": "2"}
_SAME_DEVICE = {"style": "dashed"}
_LINES = (
    "solid, thick: transfer to another device",
    "dashed: to another subgraph of the same device",
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def write_dot(
    placement: Placement,
    out_dir: Path,
    colour_by: str = "affinity",
    stamp: str = "",
    dag: str = "yes",
) -> list[Path]:
    """Writes ``hetero_affinity_<model>.dot``, ``hetero_subgraphs_<model>.dot`` and ``DAG.dot`` of the subgraphs.

    Args:
        placement: the placement to draw.
        out_dir: the folder.
        colour_by: colouring of the first file: ``affinity``, or one of the levels ``device``, ``unit``, ``codegen``.
        stamp: text of a comment in the first line.
        dag: "no" omits ``DAG.dot``.
    """
    stem = safe_stem(placement.graph.name)
    head = f"// {_CONTROL.sub(' ', stamp)}\n" if stamp else ""
    return [
        write_atomic(
            out_dir / f"hetero_affinity_{stem}.dot", head + affinity_dot(placement, colour_by)
        ),
        write_atomic(out_dir / f"hetero_subgraphs_{stem}.dot", head + subgraphs_dot(placement)),
        *([write_atomic(out_dir / "DAG.dot", head + dag_dot(placement))] if dag == "yes" else []),
    ]


def affinity_dot(placement: Placement, colour_by: str = "affinity") -> str:
    """DOT text of ops in the colour of their device or of its label, with a legend."""
    return _Writer(placement, by_subgraph=False, colour_by=colour_by).text()


def subgraphs_dot(placement: Placement) -> str:
    """DOT text of ops in the colour of their subgraph, in one cluster per subgraph."""
    return _Writer(placement, by_subgraph=True).text()


def dag_dot(placement: Placement) -> str:
    """DOT text of one node per subgraph and one edge per pair that exchanges tensors, with count and bytes."""
    dot = graphviz.Digraph(
        f"DAG_{placement.graph.name}",
        node_attr={
            "shape": "box",
            "style": "filled,rounded",
            "fontname": "Helvetica",
            "fontsize": "11",
        },
        edge_attr={"fontname": "Helvetica", "fontsize": "9", "color": "#666666"},
    )
    index = {d.name: i for i, d in enumerate(placement.devices)}
    for s in placement.subgraphs:
        colour = device_colour(index[s.device])
        lines = [
            f"subgraph {s.id}",
            f"device={s.device}",
            f"{s.size} ops",
            f"{s.memory.total} bytes",
        ]
        dot.node(
            f"s{s.id}",
            label=_label(lines),
            fillcolor=colour,
            fontcolor=text_colour(colour),
            device=_value(s.device),
            subgraph=str(s.id),
        )
    links = grouped(
        ((boundary.source, target), max(boundary.bytes, 0))
        for boundary in placement.boundaries
        for target in boundary.targets
    )
    device = {s.id: s.device for s in placement.subgraphs}
    for (source, target), sizes in sorted(links.items()):
        count = f"{len(sizes)} tensor{'s' if len(sizes) > 1 else ''}"
        transfer = device[source] != device[target]
        dot.edge(
            f"s{source}",
            f"s{target}",
            label=_label([f"{count}, {sum(sizes)} bytes"]),
            bytes=str(sum(sizes)),
            transfer="true" if transfer else "false",
            **(_TRANSFER if transfer else _SAME_DEVICE),
        )
    return str(dot.source)


class _Writer:
    def __init__(
        self, placement: Placement, by_subgraph: bool, colour_by: str = "affinity"
    ) -> None:
        self.placement, self.graph, self.by_subgraph = placement, placement.graph, by_subgraph
        kind = "subgraphs" if by_subgraph else "affinity"
        self.dot = graphviz.Digraph(
            f"hetero_{kind}_{self.graph.name}",
            graph_attr={
                "label": _label(self._title(kind)),
                "labelloc": "t",
                "fontname": "Helvetica",
                "rankdir": "TB",
            },
            node_attr={
                "shape": "box",
                "style": "filled,rounded",
                "fontname": "Helvetica",
                "fontsize": "10",
            },
            edge_attr={"fontname": "Helvetica", "fontsize": "8", "color": "#666666"},
        )
        neighbours = {s.id: s.depends_on for s in placement.subgraphs}
        self.colours = subgraph_colours(len(placement.subgraphs), neighbours)
        self.boundaries = {b.tensor: b for b in placement.boundaries}
        self.index_of_device = {d.name: i for i, d in enumerate(placement.devices)}
        labels = [
            d.name if colour_by == "affinity" else d.labels()[colour_by] for d in placement.devices
        ]
        kinds = list(dict.fromkeys(labels))
        self.fill = [device_colour(kinds.index(label)) for label in labels]
        self.level = "" if colour_by == "affinity" else colour_by

    def text(self) -> str:
        """The DOT text."""
        self._legend()
        for tensor in self.graph.inputs.tolist():
            self._terminal(f"in{tensor}", "Input", tensor)
        if self.by_subgraph:
            for subgraph in self.placement.subgraphs:
                with self.dot.subgraph(name=f"cluster_{subgraph.id}") as cluster:
                    cluster.attr(
                        label=_label([f"subgraph {subgraph.id} on {subgraph.device}"]),
                        style="rounded",
                        color=device_colour(self.index_of_device[subgraph.device]),
                        penwidth="2",
                    )
                    self._ops(cluster, subgraph.id)
        else:
            self._ops(self.dot, None)
        for position, tensor in enumerate(self.graph.outputs.tolist()):
            self._terminal(f"out{position}", "Output", tensor)
        self._edges()
        return str(self.dot.source)

    def _title(self, kind: str) -> list[str]:
        p = self.placement
        transfers = pluralize(len(p.division.transfers), "transfer")
        return [
            f"{self.graph.name}: {kind}",
            f"{pluralize(len(p.subgraphs), 'subgraph')}, {transfers}, "
            f"{p.division.bytes_moved} bytes moved",
        ]

    def _legend(self) -> None:
        with self.dot.subgraph(name="cluster_legend") as legend:
            lines = ["Legend", *(_LINES if self.boundaries else ())]
            legend.attr(label=_label(lines), style="rounded", color="#999999")
            for i, device in enumerate(self.placement.devices):
                colour = self.fill[i]
                count = self.placement.op_counts[device.name]
                lines = [device.name, device.description, f"{count} ops"]
                if self.level:
                    lines.append(f"{self.level}={device.labels()[self.level]}")
                fill = (
                    {}
                    if self.by_subgraph
                    else {"fillcolor": colour, "fontcolor": text_colour(colour)}
                )
                style = {"style": "rounded", "penwidth": "2"} if self.by_subgraph else {}
                legend.node(
                    f"legend{i}",
                    label=_label(lines),
                    color=colour,
                    device=_value(device.name),
                    **fill,
                    **style,
                )

    def _ops(self, dot: graphviz.Digraph, subgraph: int | None) -> None:
        subgraph_of_op = self.placement.division.subgraph_of_op
        for op in self.graph.order.tolist():
            if subgraph_of_op[op] < 0 or (subgraph is not None and subgraph_of_op[op] != subgraph):
                continue
            device = int(self.placement.assignment.device[op])
            name = self.placement.devices[device].name
            colour = self.colours[subgraph_of_op[op]] if self.by_subgraph else self.fill[device]
            lines = [self.graph.display_name(op), self.graph.type_label(op), f"device={name}"]
            if self.by_subgraph:
                lines.append(f"subgraph={subgraph_of_op[op]}")
            key = self.graph.op_keys[op]
            extra = (
                {"penwidth": "2", "color": "#000000"}
                if key in self.placement.constraints.pins
                else {}
            )
            dot.node(
                f"op{op}",
                label=_label(lines),
                fillcolor=colour,
                fontcolor=text_colour(colour),
                device=_value(name),
                subgraph=str(subgraph_of_op[op]),
                tooltip=_label([key], len(key)),  # `import` knows the op by it
                **extra,
            )

    def _terminal(self, node: str, what: str, tensor: int) -> None:
        lines = [
            self.graph.tensor_names[tensor],
            what,
            f"{self.graph.tensor_types[tensor]} {self.graph.shape_label(tensor)}",
        ]
        self.dot.node(
            node,
            label=_label(lines),
            shape="ellipse",
            style="filled",
            fillcolor="#eeeeee",
            fontcolor="#000000",
        )

    def _edges(self) -> None:
        graph, subgraph_of_op = self.graph, self.placement.division.subgraph_of_op
        is_input = set(graph.inputs.tolist())
        for op in graph.order.tolist():
            if subgraph_of_op[op] < 0:
                continue
            for tensor in graph.op_reads[op].tolist():
                producer = int(graph.tensor_producer[tensor])
                if tensor in is_input:
                    self._edge(f"in{tensor}", f"op{op}", tensor)
                elif producer >= 0 and subgraph_of_op[producer] >= 0:
                    if subgraph_of_op[producer] == subgraph_of_op[op]:
                        self._edge(f"op{producer}", f"op{op}", tensor)
                    else:
                        more = self._crossing(producer, op, tensor)
                        self.dot.edge(f"op{producer}", f"op{op}", **more)
        for position, tensor in enumerate(graph.outputs.tolist()):
            producer = int(graph.tensor_producer[tensor])
            if producer >= 0 and subgraph_of_op[producer] >= 0:
                self._edge(f"op{producer}", f"out{position}", tensor)
            elif tensor in is_input:
                self._edge(f"in{tensor}", f"out{position}", tensor)

    def _edge(self, source: str, target: str, tensor: int) -> None:
        self.dot.edge(source, target, label=_label([self.graph.shape_label(tensor)]))

    def _crossing(self, producer: int, op: int, tensor: int) -> dict[str, str]:
        """Attributes of an edge to another subgraph: a transfer, or a tensor that stays on its device."""
        device, name = self.placement.assignment.device, self.graph.tensor_names[tensor]
        boundary = self.boundaries[name]
        transfer = bool(device[producer] != device[op])
        return {
            "label": _label(
                [
                    shortened_name(_plain(name), _MAX_NAME),
                    f"{boundary.type_text} {boundary.shape}",
                    human_bytes(boundary.bytes) if boundary.bytes >= 0 else "unknown size",
                ]
            ),
            "tensor": _value(name),
            "transfer": "true" if transfer else "false",
            **({"bytes": str(boundary.bytes)} if boundary.bytes >= 0 else {}),
            **(_TRANSFER if transfer else _SAME_DEVICE),
        }


def _label(lines: list[str], most: int = _MAX_LINE) -> str:
    """Lines of arbitrary text as a DOT label, each of at most so many characters."""
    quoted: str = graphviz.nohtml(
        "\\n".join(graphviz.escape(_plain(line, most).replace("&", "&amp;")) for line in lines)
    )
    return quoted


def _value(text: str) -> str:
    """Arbitrary text as an attribute value. Backslashes are doubled, because no DOT string may end with one."""
    quoted: str = graphviz.nohtml(graphviz.escape(_plain(text)))
    return quoted


def _plain(text: str, most: int = _MAX_LINE) -> str:
    text = _CONTROL.sub(" ", text.encode("utf-8", "replace").decode("utf-8"))
    return text if len(text) <= most else text[: most - 1] + "…"


RENDER_SECONDS = 120
MAX_EDGES_FOR_DOT = 150
"""``dot`` may take minutes for the 297 edges among the subgraphs of a Llama; a fixed bound keeps pictures deterministic."""
MAX_EDGES = 20_000
"""Graphviz needs minutes for more, and such a picture cannot be read."""
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
        raise ExportError(
            f"{path.name} was not drawn: Graphviz is not installed "
            "(Debian and Ubuntu: `apt install graphviz`)"
        )
    text = path.read_text(encoding="utf-8")
    edges = _EDGE.findall(text)
    if len(edges) > MAX_EDGES:
        raise ExportError(
            f"{path.name} was not drawn: it has {len(edges):,} edges, the limit of a picture is {MAX_EDGES:,}"
        )
    command = ["dot", f"-T{form}"]
    if len(edges) > MAX_EDGES_FOR_DOT:
        text, command = _with_positions(text, edges), ["neato", "-n", "-Gsplines=line", f"-T{form}"]
    if text.startswith("// "):  # becomes a comment in SVG; other formats have none
        command.append(f"-Gcomment={text.partition(chr(10))[0][3:]}")
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=RENDER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ExportError(
            f"{path.name} was not drawn: {command[0]} took more than {RENDER_SECONDS} s"
        ) from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()[:300]
        raise ExportError(f"{path.name} was not drawn: {command[0]} failed: {message}")
    return write_atomic(path.with_suffix(f".{form}"), done.stdout)


def _with_positions(text: str, edges: list[tuple[str, str]]) -> str:
    """The DOT text with a position for each node; DOT allows further attributes of a node."""
    index = {
        name: i
        for i, name in enumerate(
            dict.fromkeys(n for n in _NODE.findall(text) if n not in _KEYWORDS)
        )
    }
    pairs = sorted({(index[a], index[b]) for a, b in edges})
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    drawing = draw(len(index), source, target, _NODE_WIDTH)
    positions = "".join(
        f'\t{name} [pos="{drawing.x[i]:.0f},{-drawing.y[i]:.0f}"]\n' for name, i in index.items()
    )
    return f"{text[: text.rindex('}')]}{positions}}}\n"
