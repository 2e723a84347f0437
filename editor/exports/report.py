"""Writes reports: CSV, JSON, Markdown and HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from editor.devices.device import travels_as
from editor.errors import ExportError
from editor.exports.benchmark_file import doubt_of, read_measurement, results_in
from editor.exports.dot import device_colour, text_colour
from editor.exports.first_page import (
    ERROR_HEAD,
    accuracy_in_words,
    boxes,
    doubt_of_estimates,
    error_cells,
    first_page,
    headline,
    measured_in_words,
    op_facts,
    runtimes,
    shapes_in_words,
)
from editor.files import json_text, safe_stem, write_atomic
from editor.graph.flops import op_bytes, op_flops
from editor.graph.graph import Graph
from editor.graph.layout.layered import Wrap, draw
from editor.graph.states import unit_of_rate, what_a_run_makes
from editor.kinds import Kind, told_apart
from editor.placement.choices import policy_label
from editor.placement.chosen_costs import (
    aimed_rate,
    assumed_speeds,
    costs_of_plan,
    left_out,
    source_of_figures,
)
from editor.placement.costs import Costs
from editor.placement.device_profile import basis_of, costs_of
from editor.placement.energy import energy_of
from editor.placement.fallbacks import fallbacks
from editor.placement.placement import Placement
from editor.placement.state_memory import full_at
from editor.placement.wires import wire_bytes, wire_name
from editor.text import csv_text, human_bytes, human_seconds, pluralize


@dataclass(frozen=True)
class LinkUsage:
    """All boundary tensors that go over one wire; graph inputs and outputs are not among them."""

    name: str
    """Such as ``edge -> server``."""
    tensors: int
    bytes: int
    """Of the tensors; those of unknown size are not counted."""
    sent: int
    """Bytes on the wire: fewer where tensors travel in a narrower type."""
    travel_as: tuple[str, ...]
    """The narrower types."""
    seconds: float
    """By the costs."""


def link_usage(placement: Placement, costs: Costs) -> list[LinkUsage]:
    """The wires of a plan, each tensor once per machine that reads it, in the order of the subgraphs."""
    graph, devices = placement.graph, placement.devices
    found: dict[str, LinkUsage] = {}
    if costs.wires is None:
        return []
    for transfer in placement.division.transfers:
        source = placement.device_number(placement.subgraphs[transfer.source].device)
        tensor, sender = graph.tensor_index[transfer.tensor], devices[source]
        sent = int(wire_bytes(graph, sender.wire_type)[tensor])
        kind = graph.tensor_types[tensor]
        travels = travels_as(kind, sender.wire_type)
        readers = {
            devices[number].machine: number
            for number in map(placement.device_number, transfer.to_devices)
        }
        for machine, reader in readers.items():
            if machine == sender.machine:
                continue
            name = wire_name(sender.machine, machine)
            way = found.get(name) or LinkUsage(name, 0, 0, 0, (), 0.0)
            found[name] = replace(
                way,
                tensors=way.tensors + 1,
                bytes=way.bytes + max(transfer.bytes, 0),
                sent=way.sent + sent,
                travel_as=tuple(sorted({*way.travel_as, *([travels] if travels != kind else [])})),
                seconds=way.seconds + costs.wires.way(tensor, source, [reader]),
            )
    return list(found.values())


_AT_PEAK = 10
"""Tensors at the peak of a device's memory that a report names."""
_PAGE = Path(__file__).resolve().parent / "runners" / "standalone.html"


def report_of(
    placement: Placement, stamp: str = "", measured: str = "", accuracy: str = ""
) -> dict[str, Any]:
    """The report as JSON data. Sizes in bytes, -1 where unknown.

    Args:
        placement: the plan.
        stamp: origin of the report.
        measured: a file that `bench --json` wrote of this plan; "" for none.
        accuracy: one that `accuracy --json` wrote.

    Raises:
        ExportError: a file holds no benchmark or accuracy of this plan.
    """
    graph, division = placement.graph, placement.division
    costs, basis = costs_of_plan(placement)
    placed, device = placement.placed_ops, placement.assignment.device
    seconds = np.bincount(
        division.subgraph_of_op[placed],
        costs.op[placed, device[placed]],
        len(placement.subgraphs),
    )
    memory, energy = placement.run_memory, energy_of(placement, costs, basis)
    whole, beside, tokens = read_measurement(measured, placement)
    parts = [None] * len(placement.subgraphs)
    for run in (whole, beside):
        if run is not None and run["kind"] == Kind.MEASUREMENT and run["mode"] == "latency":
            parts = run["subgraphs"]
    if tokens and not tokens["simulated"] and len(tokens["subgraphs"]) == len(parts):
        parts = tokens["subgraphs"]
    report = {
        "format": "hetero-editor/report",
        "version": 1,
        "made_by": stamp,
        "model": {
            "name": _name_of(graph),
            "file": graph.path.name,
            "sha256": graph.sha256,
            "opsets": dict(graph.opsets),
            "define": dict(sorted(graph.define.items())),
            "ops": int((division.subgraph_of_op >= 0).sum()),
        },
        "runtimes": runtimes(placement),
        "policy": placement.settings.policy,
        "policy_label": policy_label(placement.settings.policy, placement.settings.policy_options),
        "grouping": placement.settings.subgraphs,
        "totals": {
            "subgraphs": len(placement.subgraphs),
            "boundaries": len(division.boundaries),
            "transfers": division.transfer_count,
            "bytes_moved": division.bytes_moved,
            "pins": len(placement.settings.pins),
            "ruled": len(placement.constraints.ruled),
            "forced": len(placement.forced_ops),
            "latency": placement.price(costs).total,
            "throughput": aimed_rate(placement, costs),
            "rate_unit": unit_of_rate(graph),
            "run_makes": what_a_run_makes(graph).strip(),
            "kind": basis.kind,
            "source": basis.source,
            "left_out": left_out(placement, costs),
            "assumed_speeds": assumed_speeds(placement, costs),
            "energy": energy.to_dict() if energy is not None else None,
        },
        "measurement": whole,
        "measured_beside": beside,
        "doubt": doubt_of(results_in(measured), placement) or doubt_of_estimates(placement, costs),
        "tokens": tokens,
        "accuracy": _accuracy(accuracy, placement),
        "fallbacks": [
            asdict(f)
            | {
                "ops": [graph.op_keys[op] for op in f.ops],
                "details": [op_facts(placement, op) for op in f.ops],
                "op_type": f.op_type,
                "lost": f.lost,
                "kind": basis.kind,
            }
            for f in fallbacks(placement, costs)
        ],
        "devices": [
            {
                "name": d.name,
                "runtime": d.description,
                "planned": d.planned,
                "published": d.published.note,
                "preset": d.published.preset,
                "source": d.published.source,
                "properties": {k: str(v) for k, v in d.properties.items()},
                "ops": placement.op_counts[d.name],
                "memory": memory.devices[i].peak,
                "constants": memory.devices[i].constants,
                "limit": d.memory,
                "limit_text": d.limit_text,
                "taken": memory.devices[i].peak + memory.added_by_runtime(i),
                "at_peak": [
                    {"tensor": t.tensor, "what": t.kind, "bytes": t.bytes}
                    for t in memory.at_peak(i)[:_AT_PEAK]
                ],
            }
            for i, d in enumerate(placement.devices)
        ],
        "subgraphs": [
            {
                "id": s.id,
                "device": s.device,
                "ops": s.size,
                "seconds": float(seconds[s.id]),
                "measured": parts[s.id],
                "inputs": list(s.inputs),
                "outputs": list(s.outputs),
                "depends_on": list(s.depends_on),
                "total": s.memory.total,
                "constants": s.memory.constants,
            }
            for s in placement.subgraphs
        ],
        "transfers": [
            {
                "tensor": b.tensor,
                "from": b.source,
                "to": list(b.targets),
                "to_devices": list(b.to_devices),
                "bytes": b.bytes,
                "shape": b.shape,
                "type": b.type,
                "counted_as": b.counted_as,
            }
            for b in division.transfers
        ],
        "wires": [asdict(way) | {"kind": basis.kind} for way in link_usage(placement, costs)],
    }
    return report | {"first_page": first_page(placement, report, costs)}


def _accuracy(path: str, placement: Placement) -> dict[str, Any] | None:
    if not path:
        return None
    from editor.exports.accuracy_report import accuracy_report, read_accuracy  # loads runtimes

    return accuracy_report(read_accuracy(path, placement), placement)


def write_csv(
    placement: Placement, out_dir: Path, stamp: str = "", accuracy: str = ""
) -> list[Path]:
    """Writes ``<model>_ops.csv``: one line per op, with the columns ``op,device`` first so that ``import`` can read it.

    ``seconds`` are those of the op on its device, ``kind`` says whether they are an estimate or a prediction. With the file of
    an ``accuracy`` the noisiest tensor of each op follows; the columns are empty for ops that were not compared.
    """
    added: Mapping[str, Sequence[object]] = {}
    if accuracy:
        from editor.exports.accuracy_report import ERRORS, noisiest, read_accuracy

        added = noisiest(read_accuracy(accuracy, placement), placement)
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    flops, moved = op_flops(graph), op_bytes(graph)
    source = source_of_figures(graph, placement.devices, placement.settings)
    costs = costs_of(graph, placement.devices, source)
    kinds = [basis_of(costs, source, [d]).kind for d in range(len(placement.devices))]
    columns = [
        "op",
        "device",
        "type",
        "name",
        "subgraph",
        "pinned",
        "flops",
        "bytes",
        "seconds",
        "kind",
        "because",
    ]
    if accuracy:
        columns += ERRORS
    rows: list[tuple[object, ...]] = []
    for op in placement.placed_ops.tolist():
        why, device = placement.why(graph.op_keys[op]), int(placement.assignment.device[op])
        rows.append(
            (
                graph.op_keys[op],
                why.device,
                graph.type_label(op),
                graph.op_names[op],
                int(subgraph_of_op[op]),
                "yes" if why.pinned else "no",
                int(flops[op]),
                int(moved[op]),
                f"{costs.op[op, device]:.4g}",
                kinds[device],
                why.because,
                *added.get(graph.op_keys[op], ()),
            )
        )
    comment = f"# {stamp}\n" if stamp else ""
    return [
        write_atomic(
            out_dir / f"{safe_stem(graph.name)}_ops.csv", comment + csv_text(columns, rows)
        )
    ]


def _name_of(graph: Graph) -> str:
    """The model's name, with its folder where exporters give every model that name: "llama/model"."""
    says_little = "model" in graph.name.lower().split("_")
    of_upload = graph.path.parent.parent.name == "uploads"  # the folder is named by what it holds
    folder = graph.path.parent.name
    return f"{folder}/{graph.name}" if says_little and folder and not of_upload else graph.name


def write_json(
    placement: Placement, out_dir: Path, stamp: str = "", measured: str = "", accuracy: str = ""
) -> list[Path]:
    """Writes ``<model>_report.json``; ``measured`` and ``accuracy`` are as for ``report_of``."""
    text = json_text(report_of(placement, stamp, measured, accuracy))
    return [write_atomic(out_dir / f"{safe_stem(placement.graph.name)}_report.json", text)]


def write_markdown(
    placement: Placement, out_dir: Path, stamp: str = "", measured: str = "", accuracy: str = ""
) -> list[Path]:
    """Writes ``<model>_report.md``; ``measured`` and ``accuracy`` are as for ``report_of``."""
    report = report_of(placement, stamp, measured, accuracy)
    lines = [*_first_page_lines(report), *_appendix_lines(report)]
    lines += ["", stamp] if stamp else []
    return [
        write_atomic(
            out_dir / f"{safe_stem(placement.graph.name)}_report.md", "\n".join(lines) + "\n"
        )
    ]


def _first_page_lines(report: Mapping[str, Any]) -> Iterator[str]:
    totals, page = report["totals"], report["first_page"]
    verdict = page["verdict"]
    yield from [
        f"# {_cell(report['model']['name'])} over {pluralize(len(report['devices']), 'device')}",
        "",
        _cell(" ".join(page["conclusion"])),
        "",
        f"**{verdict['figure']}** ({verdict['kind']}). {_cell(' '.join(verdict['besides']))}".rstrip(),
        "",
        f"{report['model']['ops']:,} ops, {pluralize(totals['subgraphs'], 'subgraph')}, "
        f"{pluralize(totals['transfers'], 'transfer')}, "
        f"{human_bytes(totals['bytes_moved'])} transferred per inference, {pluralize(totals['pins'], 'pin')}, "
        f"{pluralize(len(page['rules']), 'rule')}; "
        f"policy “{report['policy_label']}”, subgraphs {report['grouping']}.",
        "",
    ]
    if totals["forced"]:
        yield from [
            f"**{pluralize(totals['forced'], 'op')} forced onto a device that cannot run them.**",
            "",
        ]
    yield from [
        "## Model and runtimes",
        "",
        *(f"- {_cell(line)}" for line in page["versions"]),
        "",
        "## Assumptions",
        "",
        *(f"- {_cell(line)}" for line in page["assumptions"] or ["None."]),
        "",
        "## Devices",
        "",
        "| device | runs on | ops | peak memory |",
        "| --- | --- | ---: | ---: |",
    ]
    for d in report["devices"]:
        where = (
            ", ".join(filter(None, ("planned", d["published"]))) if d["planned"] else d["runtime"]
        )
        where += "".join(f", {key}={value}" for key, value in d["properties"].items())
        yield (f"| {_cell(d['name'])} | {_cell(where)} | {d['ops']:,} | {_memory(d)} |")
    if page["states"]:
        yield from ("", *(f"- {_cell(line)}" for line in page["states"]))
    if page["pins"]:
        yield from ["", "## Pins", ""]
    yield from [f"- {_cell(p['what'])} on {_cell(p['device'])}" for p in page["pins"][:_FIRST_PINS]]
    if rest := page["pins"][_FIRST_PINS:]:
        yield (f"- and {pluralize(sum(len(p['ops']) for p in rest), 'more op')}, listed below")
    if page["rules"]:
        yield from ["", "## Rules", "", "The first rule that matches an op decides.", ""]
    for number, rule in enumerate(page["rules"], 1):
        what = _cell(rule["what"]).replace("*", "\\*")
        yield (f"{number}. {what}: {pluralize(rule['ops'], 'op')}")
    if report["measurement"]:
        yield from [
            "",
            "## Measurement" if report["measurement"]["kind"] == Kind.MEASUREMENT else "## Outputs",
            "",
            *(f"- {_cell(line)}" for line in measured_in_words(report)),
        ]
    if report["accuracy"]:
        yield from _accuracy_lines(report["accuracy"])
    if page["reasons"]:
        yield from [
            "",
            "## Fallbacks",
            "",
            "| preferred | why not | ops | op types | for example | runs on |",
            "| --- | --- | ---: | --- | --- | --- |",
            *(
                f"| {_cell(f['wanted'])} | {_why(f)} | {f['ops']} | {_cell(', '.join(f['types']))} | {_example(f)} | "
                f"{_cell(', '.join(f['devices']))} |"
                for f in page["reasons"]
            ),
        ]


def _accuracy_lines(accuracy: Mapping[str, Any]) -> Iterator[str]:
    """Yields the verdict, and the tensors at the ends of subgraphs that are furthest from their references."""
    yield from ("", "## Accuracy", "")
    yield from (f"- {_cell(line)}" for line in accuracy_in_words(accuracy))
    if accuracy["worst"]:
        yield from ("", "Worst at the ends of subgraphs:", "", *_error_table(accuracy["worst"]))


def _error_table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [
        f"| {' | '.join(ERROR_HEAD)} |",
        f"|{' --- |' * len(ERROR_HEAD)}",
        *(f"| {' | '.join(map(_cell, error_cells(row)))} |" for row in rows),
    ]


def _appendix_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the long lists, folded."""
    totals, found = report["totals"], report["fallbacks"]
    if found:
        yield from _folded(
            f"Fallbacks by op type ({len(found)})",
            f"Ops that are off their preferred device. Times: {totals['kind']} {totals['source']}; they add up.",
            "",
            "| preferred | why not | op | ops | layers | runs on | subgraphs | transferred | time lost |",
            "| --- | --- | --- | ---: | ---: | --- | ---: | ---: | ---: |",
            *(
                f"| {_cell(f['wanted'])} | {_why(f)} | {_cell(f['op_type'])} | {len(f['ops'])} | {f['layers'] or '-'} | "
                f"{_cell(', '.join(f['devices']))} | {f['subgraphs']} | {human_bytes(f['bytes'])} | "
                f"{f['lost']} |"
                for f in found
            ),
        )
        yield from _folded(
            f"Ops that fell back ({sum(len(f['ops']) for f in found)})",
            "| op | type | opset | shapes | preferred | runs on |",
            "| --- | --- | ---: | --- | --- | --- |",
            *(
                f"| {_cell(o['name'])} | {_cell(o['type'])} | {o['opset'] or ''} | {_cell(shapes_in_words(o))} | "
                f"{_cell(f['wanted'])} | {_cell(o['device'])} |"
                for f in found
                for o in f["details"]
            ),
        )
    if any(len(p["ops"]) > 1 for p in report["first_page"]["pins"]):
        yield from _folded(
            f"Pinned ops ({totals['pins']})",
            "| pins | on | op |",
            "| --- | --- | --- |",
            *(
                f"| {_cell(p['what'])} | {_cell(p['device'])} | {_cell(key)} |"
                for p in report["first_page"]["pins"]
                for key in p["ops"]
            ),
        )
    yield from _folded(
        f"Subgraphs ({len(report['subgraphs'])})",
        "| subgraph | device | ops | inputs | outputs | constants with boundary |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {s['id']} | {_cell(s['device'])} | {s['ops']:,} | {len(s['inputs'])} | {len(s['outputs'])} | "
            f"{human_bytes(s['total'])} |"
            for s in report["subgraphs"]
        ),
    )
    if report["transfers"]:
        yield from _folded(
            f"Transfers ({len(report['transfers'])})",
            "| transfer | from | to | size |",
            "| --- | ---: | --- | ---: |",
            *(
                f"| {_cell(t['tensor'])} | {t['from']} | {', '.join(map(str, t['to']))} | "
                f"{human_bytes(t['bytes'])}{_as_type(t['counted_as'])} |"
                for t in report["transfers"]
            ),
        )
    if report["accuracy"]:
        tensors = report["accuracy"]["tensors"]
        yield from _folded(f"Accuracy by tensor ({len(tensors)})", *_error_table(tensors))
    if report["wires"]:
        yield from [
            "",
            "## Wires",
            "",
            f"Between machines, without graph inputs and outputs. Times: {totals['kind']} {totals['source']}.",
            "",
            "| wire | tensors | bytes | on the wire | time |",
            "| --- | ---: | ---: | ---: | ---: |",
            *(
                f"| {_cell(w['name'])} | {w['tensors']} | {human_bytes(w['bytes'])} | "
                f"{human_bytes(w['sent'])}{_as_type(' and '.join(w['travel_as']))} | {human_seconds(w['seconds'])} |"
                for w in report["wires"]
            ),
        ]


def write_html(
    placement: Placement, out_dir: Path, stamp: str = "", measured: str = "", accuracy: str = ""
) -> list[Path]:
    """Writes ``<model>.html``: graph, colours, reasons and tables in one file that needs no server.

    ``measured`` and ``accuracy`` are as for ``report_of``.
    """
    return write_comparison({"this plan": placement}, out_dir, stamp, measured, accuracy)


MAX_COMPARED = 4


def write_comparison(
    layouts: Mapping[str, Placement],
    out_dir: Path,
    stamp: str = "",
    measured: str | Mapping[str, str] = "",
    accuracy: str = "",
    doubt: str = "",
) -> list[Path]:
    """Writes ``<model>.html`` with up to four layouts of one model side by side; the others are compared with the first.

    ``measured`` and ``accuracy`` are as for ``report_of``, of the first; ``measured`` may have files by name of layout.
    ``doubt`` says why what was worked out is doubtful, beside what the layouts themselves say.

    Raises:
        ExportError: there are more than four layouts, or they are of different models.
    """
    first = next(iter(layouts.values()))
    if len(layouts) > MAX_COMPARED:
        raise ExportError(
            f"{len(layouts)} layouts do not fit on a page; at most {MAX_COMPARED} can be compared"
        )
    for name, one in layouts.items():
        if one.graph.op_keys != first.graph.op_keys:
            raise ExportError(
                f"{name!r} is of another model ({one.graph.path}) than {first.graph.path}"
            )
    return [
        write_atomic(
            out_dir / f"{safe_stem(first.graph.name)}.html",
            standalone(layouts, stamp, measured, accuracy, doubt),
        )
    ]


def standalone(
    layouts: Mapping[str, Placement],
    stamp: str = "",
    measured: str | Mapping[str, str] = "",
    accuracy: str = "",
    doubt: str = "",
) -> str:
    """The HTML page as text; ``layouts`` are by name and all of one model, the rest is as for ``write_comparison``."""
    first = next(iter(layouts.values()))
    runs = {next(iter(layouts)): measured} if isinstance(measured, str) else measured
    graph, ops = first.graph, drawn_ops(layouts.values())
    devices = list(dict.fromkeys(d.name for p in layouts.values() for d in p.devices))
    reasons: dict[str, int] = {}
    source = _source(layouts.values())
    data = {
        **drawing_of(graph, ops),
        "doubt": doubt,
        "devices": devices,
        "told": 1 / (1 - told_apart(Kind.ESTIMATE)),  # by which factor rough figures must differ
        "colours": [[device_colour(i), text_colour(device_colour(i))] for i in range(len(devices))],
        "layouts": [
            _layout(
                name,
                p,
                ops,
                devices,
                reasons,
                source,
                report_of(p, stamp, runs.get(name, ""), accuracy if p is first else ""),
            )
            for name, p in layouts.items()
        ],
        "reasons": list(reasons),
        "source": str(basis_of(costs_of(graph, first.devices, source), source)),
    }
    # Names are untrusted: no text in the data may be parsed as markup.
    body = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = _PAGE.read_text(encoding="utf-8")
    return (
        page.replace("@TITLE@", html.escape(graph.name))
        .replace("@MADE_BY@", html.escape(stamp))
        .replace("@DATA@", body)
    )


def drawn_ops(placements: Iterable[Placement]) -> list[int]:
    """The ops that are in a subgraph of any placement of one model, in topological order."""
    several = list(placements)
    return [
        op
        for op in several[0].graph.order.tolist()
        if any(p.division.subgraph_of_op[op] >= 0 for p in several)
    ]


def drawing_of(graph: Graph, ops: Sequence[int]) -> dict[str, Any]:
    """Where ops and the edges between them are drawn, and what the ops are called, as JSON data."""
    position = {op: i for i, op in enumerate(ops)}
    producer, consumer, _ = graph.edges
    pairs = sorted(
        {
            (position[p], position[c])
            for p, c in zip(producer.tolist(), consumer.tolist(), strict=True)
            if p in position and c in position
        }
    )
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    drawing = draw(len(ops), ends[:, 0], ends[:, 1], 128, wrap=Wrap())
    return {
        "x": [round(float(v)) for v in drawing.x],
        "y": [round(float(v)) for v in drawing.y],
        "edges": pairs,
        "bends": {
            i: [[round(x), round(y)] for x, y in points] for i, points in drawing.bends.items()
        },
        "type": [graph.type_label(op) for op in ops],
        "name": [graph.display_name(op) for op in ops],
        "key": [graph.op_keys[op] for op in ops],
    }


def placed(placement: Placement, ops: Sequence[int], reasons: dict[str, int]) -> dict[str, Any]:
    """The subgraph of each op, and the number of the reason for its device; new reasons are added."""
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    return {
        "part": [max(int(subgraph_of_op[op]), 0) for op in ops],
        "reason": [
            reasons.setdefault(placement.why(graph.op_keys[op]).because, len(reasons)) for op in ops
        ],
    }


def _layout(
    name: str,
    placement: Placement,
    ops: list[int],
    devices: list[str],
    reasons: dict[str, int],
    source: str,
    report: Mapping[str, Any],
) -> dict[str, Any]:
    number = [devices.index(d.name) for d in placement.devices]
    costs = costs_of(placement.graph, placement.devices, source)
    return {
        "name": name,
        "report": report,
        "headline": headline(report),
        "predicted": placement.price(costs).total,
        "doubt": doubt_of_estimates(placement, costs),
        "tight": placement.run_memory.over_with_runtimes,
        "fits": full_at(placement),  # tokens of context; none where nothing grows
        "boxes": boxes(placement),
        "measured": measured_in_words(report),
        "accuracy": accuracy_in_words(report["accuracy"]) if report["accuracy"] else [],
        "device": [number[int(d)] for d in placement.device_of_op[ops]],
        **placed(placement, ops, reasons),
    }


def _source(placements: Iterable[Placement]) -> str:
    """``measured`` where the figures of all layouts come from profiles, so that they are comparable."""
    sources = {source_of_figures(p.graph, p.devices, p.settings) for p in placements}
    return "estimate" if "estimate" in sources else "measured"


_FIRST_PINS = 12
"""Groups of pins on the first page."""


def _folded(title: str, *lines: str) -> list[str]:
    """A part that is folded where Markdown is shown."""
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _as_type(name: str) -> str:
    """The end of a size that is counted in another type; "" where that has no name."""
    return f" as {name}" if name else ""


def _example(reason: Mapping[str, Any]) -> str:
    """One of the ops: name, shapes and opset."""
    op = reason["example"]
    opset = f", opset {op['opset']}" if op["opset"] else ""
    return _cell(f"{op['name']}: {shapes_in_words(op)}{opset}")


def _why(fallback: Mapping[str, Any]) -> str:
    why, source = (
        _cell(fallback["reason"].replace(f" ({fallback['source']})", "")),
        fallback["source"],
    )
    why = f"{why} ([document]({source}))" if source.startswith("https://") else why
    return why + (f" ({fallback['by_rule']:,} by rule)" if fallback.get("by_rule") else "")


def _memory(device: Mapping[str, Any]) -> str:
    limit = device["limit"]
    if limit is None:
        return human_bytes(device["memory"])
    over = " **over**" if device["memory"] > limit else ""
    return f"{human_bytes(device['memory'])} of {device['limit_text']}{over}"


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()).replace("|", "\\|"), quote=False)
