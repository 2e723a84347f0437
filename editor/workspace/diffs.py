"""Two models side by side: what came, went and changed, and where the same devices and policy put each."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from editor.arguments import as_mapping, as_path
from editor.devices.device import Device
from editor.devices.table import Spec
from editor.errors import ModelError, UnsupportedOpError
from editor.execution.weight_values import Gap, Scaled, gaps, match_models
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_diff import (
    Digests,
    How,
    base_type,
    input_name,
    plain_name,
    settings_of,
    weights_of_op,
)
from editor.graph.proposed_sizes import sizes_text, with_all_sizes
from editor.groups import grouped
from editor.kinds import Kind, too_close
from editor.placement.choices import PolicyName
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.costs import estimate
from editor.text import counted, human_seconds, pluralize
from editor.workspace.plan import Plan, partition

Graphs = tuple[Graph, Graph]


@dataclass(frozen=True)
class DiffOp:
    """An op that only one of two models has."""

    key: str
    name: str
    type: str
    into: str
    """Key of the op of the other model that makes the tensor of this name, so that the op is a part of it; "" without one."""
    device: str
    """Where it is placed; "" where its model is not."""
    seconds: float | None


@dataclass(frozen=True)
class OpChange:
    """Something about an op, an input or an output that is not the same in both models."""

    what: Literal["type", "attribute", "shape", "element type", "input", "output"]
    name: str
    """Of the attribute, input or output; which output of an op, where it is not the first."""
    before: str
    after: str

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.what}{name} {self.before or 'none'} -> {self.after or 'none'}"


@dataclass(frozen=True)
class WeightChange:
    """A constant of an op that is not the same in both models."""

    input: str
    """What ONNX calls the input, or its number."""
    before: str
    """Type and shape; "" where only the second model has it."""
    after: str
    relative: float | None
    """Root mean square of the difference, relative to that of the first; None where they cannot be compared."""
    largest: float | None
    """Largest difference of an element."""
    same_in_another_order: bool

    def __str__(self) -> str:
        kinds = self.before if self.before == self.after else f"{self.before} -> {self.after}"
        if not self.before or not self.after:
            return f"{self.input} {self.before or 'none'} -> {self.after or 'none'}"
        if self.same_in_another_order:
            return f"{self.input} ({kinds}) has its values in another order"
        if self.relative is None:
            return f"{self.input} ({kinds}) differs"
        return f"{self.input} ({kinds}) differs by {100 * self.relative:.2g} %"


@dataclass(frozen=True)
class OpPair:
    """An op of one model, and the same op in the other."""

    key: tuple[str, str]
    name: tuple[str, str]
    type: tuple[str, str]
    how: Literal["name", "weights", "structure"]
    """By what it was matched."""
    changes: tuple[OpChange, ...]
    weights: tuple[WeightChange, ...]
    device: tuple[str, str]
    seconds: tuple[float | None, float | None]

    @property
    def changed(self) -> bool:
        """Whether it is not the same in both."""
        return bool(self.changes or self.weights)


@dataclass(frozen=True)
class ModelDiff:
    """Two models side by side."""

    models: tuple[str, str]
    """Paths."""
    ops: tuple[int, int]
    """Without constants."""
    constants: tuple[int, int]
    """Ops that compute constants: they count with the ops that read them."""
    opsets: tuple[Mapping[str, int], Mapping[str, int]]
    pairs: tuple[OpPair, ...]
    """In the order of the first model."""
    went: tuple[DiffOp, ...]
    came: tuple[DiffOp, ...]
    ends: tuple[OpChange, ...]
    """Inputs and outputs of the models that differ."""
    plans: tuple[Plan | None, Plan | None]
    """Each on the same devices by the same policy; None where a device is missing for an op."""
    seconds: tuple[float | None, float | None]
    """Of one run."""
    kinds: tuple[Kind | None, Kind | None]
    """Of the times of each."""
    notes: tuple[str, ...]
    """What was assumed, left out or could not be compared."""

    @property
    def changed(self) -> tuple[OpPair, ...]:
        """Ops of both that are not the same."""
        return tuple(pair for pair in self.pairs if pair.changed)

    @property
    def same(self) -> bool:
        """Whether nothing came, went or changed."""
        return not (self.came or self.went or self.ends or self.changed)

    @property
    def moved(self) -> tuple[OpPair, ...]:
        """Ops of both that are on different devices."""
        return tuple(pair for pair in self.pairs if pair.device[0] != pair.device[1])

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "format": "hetero-editor/diff",
            "version": 1,
            "models": list(self.models),
            "ops": list(self.ops),
            "constants": list(self.constants),
            "opsets": [dict(one) for one in self.opsets],
            "same": self.same,
            "seconds": list(self.seconds),
            "kinds": [None if kind is None else str(kind) for kind in self.kinds],
            "devices": [_placed(plan) for plan in self.plans],
            "subgraphs": [None if plan is None else len(plan.subgraphs) for plan in self.plans],
            "came": [asdict(op) for op in self.came],
            "went": [asdict(op) for op in self.went],
            "ends": [asdict(change) for change in self.ends],
            "pairs": [asdict(pair) | {"changed": pair.changed} for pair in self.pairs],
            "notes": list(self.notes),
        }


def _placed(plan: Plan | None) -> dict[str, int] | None:
    return None if plan is None else dict(plan.placement.op_counts)


def diff(
    one: Graph | str | Path,
    other: Graph | str | Path,
    devices: Spec | Sequence[Device] | None = "HETERO",
    policy: PolicyName = "priority",
    *,
    define: Mapping[str, int] | None = None,
) -> ModelDiff:
    """Compares two versions of a model, op by op.

    Ops are matched by name, by the content of their weights, and by what is around them, so that a model can be compared
    with what a quantiser, an optimiser or another exporter made of it.

    Args:
        one: a model, from ``load_model`` or as a path.
        other: another version of it.
        devices: a device table, or what ``load_devices`` takes, on which each of them is placed; None places none.
        policy: the automatic mode that places them.
        define: sizes of the dimensions that the models leave open; each takes those that it has.

    Raises:
        ModelError: a file is not a model, or the models have no op in common.
        EditorError: the device table is at fault.
    """
    notes: list[str] = []
    graphs = _graphs(one, other, {} if define is None else as_mapping(define, "define"), notes)
    plans = tuple(_plan(graph, devices, policy, notes) for graph in graphs)
    return _diff(graphs, (plans[0], plans[1]), notes)


def diff_plans(one: Plan, other: Plan) -> ModelDiff:
    """Compares the models of two plans, as ``diff``, with the placements that they have.

    Raises:
        ModelError: the models have no op in common.
    """
    return _diff((one.graph, other.graph), (one, other), [])


def _diff(graphs: Graphs, plans: tuple[Plan | None, Plan | None], notes: list[str]) -> ModelDiff:
    found = match_models(*graphs)
    notes += found.problems
    matching, contents, values = found.matching, found.digests, found.values
    pairs = matching.pairs(graphs[0].order)
    if not pairs and all(_compared(graph) for graph in graphs):
        raise ModelError(
            f"{graphs[0].path} and {graphs[1].path} have no op in common by name, weights or structure; "
            "compare two versions of one model"
        )
    times = _times(plans)
    if graphs[0].format != graphs[1].format:
        notes.append(
            "attributes and weights are not compared, as the formats have them in different ways"
        )
        changes: list[tuple[OpChange, ...]] = [_shape_changes(graphs, *pair) for pair in pairs]
        weights: list[tuple[WeightChange, ...]] = [()] * len(pairs)
    else:
        changes = [
            (*_setting_changes(graphs, values, *pair), *_shape_changes(graphs, *pair))
            for pair in pairs
        ]
        weights = _weight_changes(graphs, contents, pairs)
    return ModelDiff(
        models=(str(graphs[0].path), str(graphs[1].path)),
        ops=(_compared(graphs[0]), _compared(graphs[1])),
        constants=(_constants(graphs[0]), _constants(graphs[1])),
        opsets=(graphs[0].opsets, graphs[1].opsets),
        pairs=tuple(
            OpPair(
                (graphs[0].op_keys[a], graphs[1].op_keys[b]),
                (graphs[0].display_name(a), graphs[1].display_name(b)),
                (graphs[0].type_label(a), graphs[1].type_label(b)),
                _HOW[How(int(matching.how[a]))],
                changes[i],
                weights[i],
                (_device(plans[0], a), _device(plans[1], b)),
                (times[0].ops.get(a), times[1].ops.get(b)),
            )
            for i, (a, b) in enumerate(pairs)
        ),
        went=_only(graphs[0], graphs[1], [a for a, _ in pairs], plans[0], times[0]),
        came=_only(graphs[1], graphs[0], [b for _, b in pairs], plans[1], times[1]),
        ends=(*_end_changes(graphs, "input"), *_end_changes(graphs, "output")),
        plans=plans,
        seconds=(times[0].total, times[1].total),
        kinds=(times[0].kind, times[1].kind),
        notes=tuple(dict.fromkeys(notes)),
    )


_HOW: Mapping[How, Literal["name", "weights", "structure"]] = {
    How.NAME: "name",
    How.WEIGHTS: "weights",
    How.STRUCTURE: "structure",
}


def _compared(graph: Graph) -> int:
    return int((~graph.op_is_constant).sum())


def _constants(graph: Graph) -> int:
    return int(graph.op_is_constant.sum())


def _graphs(
    one: Graph | str | Path, other: Graph | str | Path, define: Mapping[str, int], notes: list[str]
) -> tuple[Graph, Graph]:
    """Both models with the same sizes, as far as they have the same dimensions."""
    used: set[str] = set()
    assumed: dict[str, int] = {}
    loaded = []
    for model in (one, other):
        if isinstance(model, Graph):
            graph, given = model, {}
        else:
            path = as_path(model, "a model", ModelError)
            given = _known(path, define)
            graph = load_model(path, given)
            used |= given.keys()
        if graph.unbound:
            sizes = {name: assumed[name] for name in graph.unbound if name in assumed}
            graph = load_model(graph.path, {**graph.define, **sizes}) if sizes else graph
            graph, proposed = with_all_sizes(graph)
            assumed |= sizes | proposed
        loaded.append(graph)
    if assumed:
        notes.append(f"sizes assumed: {sizes_text(assumed)}; --define changes them")
    if missing := [name for name in define if name not in used]:
        for model in (one, other):
            if not isinstance(model, Graph):
                load_model(model, {missing[0]: define[missing[0]]})  # says which names there are
    return loaded[0], loaded[1]


def _known(path: Path, define: Mapping[str, int]) -> dict[str, int]:
    """The part of ``define`` that a model has; all of it where there is only one way to know, which is to fail."""
    if not define:
        return {}
    load_model(path)  # what is wrong with the file itself is said of it
    known = {}
    for name, size in define.items():
        try:
            load_model(path, {name: size})
        except ModelError:
            continue
        known[name] = size
    return known


def _plan(
    graph: Graph, devices: Spec | Sequence[Device] | None, policy: PolicyName, notes: list[str]
) -> Plan | None:
    if devices is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return partition(graph, devices, policy)
        except UnsupportedOpError as error:
            notes.append(f"{graph.path} is not placed: {error}")
            return None


@dataclass(frozen=True)
class _Times:
    """Times of a plan."""

    total: float | None = None
    kind: Kind | None = None
    ops: Mapping[int, float] = field(default_factory=dict)


def _times(plans: Sequence[Plan | None]) -> list[_Times]:
    """Times of each plan; estimates where only one of them has a profile, as others could not be compared."""
    priced = [None if plan is None else costs_of_plan(plan.placement) for plan in plans]
    alike = len({basis.kind for _, basis in filter(None, priced)}) <= 1
    found = []
    for plan, known in zip(plans, priced, strict=True):
        if plan is None or known is None:
            found.append(_Times())
            continue
        placement, (costs, basis) = plan.placement, known
        if not alike:
            costs = estimate(placement.graph, placement.devices)
        device = placement.assignment.device
        ops = {op: float(costs.op[op, device[op]]) for op in placement.placed_ops.tolist()}
        kind = basis.kind if alike else Kind.ESTIMATE
        found.append(_Times(placement.price(costs).total, kind, ops))
    return found


def _device(plan: Plan | None, op: int) -> str:
    return "" if plan is None else plan.affinity.get(plan.graph.op_keys[op], "")


def _only(
    graph: Graph, other: Graph, paired: Sequence[int], plan: Plan | None, times: _Times
) -> tuple[DiffOp, ...]:
    """Ops without a partner, in the order of their model."""
    taken, makers = set(paired), _makers(other)
    found = []
    for op in graph.order.tolist():
        if op not in taken and not graph.op_is_constant[op]:
            outputs = [graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0]
            found.append(
                DiffOp(
                    graph.op_keys[op],
                    graph.display_name(op),
                    graph.type_label(op),
                    next((makers[name] for name in outputs if name in makers), ""),
                    _device(plan, op),
                    times.ops.get(op),
                )
            )
    return tuple(found)


def _makers(graph: Graph) -> dict[str, str]:
    """Name of a tensor, without the ending of a tool -> key of the op that makes it."""
    made = np.flatnonzero(graph.tensor_producer >= 0).tolist()
    return {
        plain_name(graph.tensor_names[t]): graph.op_keys[int(graph.tensor_producer[t])]
        for t in made
    }


def _setting_changes(
    graphs: Graphs, values: Sequence[Mapping[int, str]], a: int, b: int
) -> list[OpChange]:
    found = []
    types = (graphs[0].type_label(a), graphs[1].type_label(b))
    if types[0] != types[1]:
        found.append(OpChange("type", "", *types))
    before, own = settings_of(graphs[0], a, values[0])
    after, its = settings_of(graphs[1], b, values[1])
    for name in sorted(before.keys() | after.keys()):
        # Where the type of one has no such attribute, the default of the other is as good as none.
        one = before.get(name) or own.get(name) or its.get(name, "")
        other = after.get(name) or its.get(name) or own.get(name, "")
        if one != other:
            found.append(OpChange("attribute", name, one, other))
    return found


def _shape_changes(graphs: Graphs, a: int, b: int) -> tuple[OpChange, ...]:
    """Shapes and types of outputs that are known in both models and differ."""
    found = []
    outputs = (graphs[0].op_outputs[a].tolist(), graphs[1].op_outputs[b].tolist())
    for place, (one, other) in enumerate(zip(*outputs, strict=False)):
        if one < 0 or other < 0:
            continue
        name = f"of output {place}" if place else ""
        shapes = (graphs[0].tensor_shapes[one], graphs[1].tensor_shapes[other])
        if None not in shapes and shapes[0] != shapes[1]:
            texts = (graphs[0].shape_label(one), graphs[1].shape_label(other))
            found.append(OpChange("shape", name, *texts))
        types = (graphs[0].tensor_types[one], graphs[1].tensor_types[other])
        if all(types) and types[0] != types[1]:
            found.append(OpChange("element type", name, *types))
    return tuple(found)


def _end_changes(graphs: Graphs, what: Literal["input", "output"]) -> list[OpChange]:
    known: list[dict[str, str]] = []
    for graph in graphs:
        tensors = graph.inputs if what == "input" else graph.outputs
        known.append({graph.tensor_names[t]: _kind_of(graph, t) for t in tensors.tolist()})
    names = dict.fromkeys((*known[0], *known[1]))
    return [
        OpChange(what, name, known[0].get(name, ""), known[1].get(name, ""))
        for name in names
        if known[0].get(name) != known[1].get(name)
    ]


def _kind_of(graph: Graph, tensor: int) -> str:
    return f"{graph.tensor_types[tensor] or '?'} {graph.shape_label(tensor)}"


def _weight_changes(
    graphs: Graphs, contents: Sequence[Digests], pairs: Sequence[tuple[int, int]]
) -> list[tuple[WeightChange, ...]]:
    """[pair] constants that differ, of ops that stand for the same type."""
    found: list[list[tuple[str, int, int]]] = []
    asked: dict[tuple[Scaled, Scaled], int] = {}
    for a, b in pairs:
        differing: list[tuple[str, int, int]] = []
        found.append(differing)
        if base_type(graphs[0].op_types[a]) != base_type(graphs[1].op_types[b]):
            continue
        ours, theirs = dict(weights_of_op(graphs[0], a)), dict(weights_of_op(graphs[1], b))
        for place in sorted(ours.keys() | theirs.keys()):
            one, other = ours.get(place, -1), theirs.get(place, -1)
            digests_of = (contents[0].get(one), contents[1].get(other))
            if min(one, other) >= 0 and (None in digests_of or digests_of[0] == digests_of[1]):
                continue
            differing.append((_input_label(graphs[0], a, place), one, other))
            if min(one, other) >= 0:
                scaled = (_scaled(graphs[0], a, one), _scaled(graphs[1], b, other))
                asked.setdefault(scaled, len(asked))
    known = gaps(*graphs, [*asked])
    answers = {(pair[0].tensor, pair[1].tensor): known[i] for pair, i in asked.items()}
    return [
        tuple(
            _weight_change(graphs, label, one, other, answers.get((one, other), Gap(None, None)))
            for label, one, other in differing
        )
        for differing in found
    ]


def _weight_change(graphs: Graphs, label: str, one: int, other: int, gap: Gap) -> WeightChange:
    before = "" if one < 0 else _kind_of(graphs[0], one)
    after = "" if other < 0 else _kind_of(graphs[1], other)
    return WeightChange(label, before, after, gap.relative, gap.largest, gap.same_in_another_order)


def _input_label(graph: Graph, op: int, place: int) -> str:
    kind, domain = base_type(graph.op_types[op]), ""
    return input_name(kind, domain, graph.opsets.get("ai.onnx", 1), place) or f"input {place}"


_SCALES = {"QLinearConv": 0, "QLinearMatMul": 1, "QGemm": 0}
"""Type of an op whose fourth input is scaled by its fifth and sixth -> the axis of the scales."""


def _scaled(graph: Graph, op: int, tensor: int) -> Scaled:
    inputs, kind = graph.op_inputs[op].tolist(), graph.op_types[op]
    if kind not in _SCALES or len(inputs) < 6 or inputs[3] != tensor:
        return Scaled(tensor)
    axis = _SCALES[kind]
    if kind == "QGemm" and dict(graph.op_attributes[op]).get("transB", "0") == "0":
        axis = 1
    return Scaled(tensor, inputs[4], inputs[5], axis)


_MOST_LINES = 20
_MOST_TYPES = 6


def text_of(found: ModelDiff, most: int = _MOST_LINES) -> str:
    """The lines of a report."""
    how = Counter(pair.how for pair in found.pairs)
    matched = ", ".join(f"{how[key]:,} by {key}" for key in _HOW.values() if how[key])
    lines = [
        f"{found.models[0]} -> {found.models[1]}: {pluralize(found.ops[0], 'op')} -> {pluralize(found.ops[1], 'op')}, "
        f"{len(found.pairs):,} matched{f' ({matched})' if matched else ''}"
    ]
    for domain in sorted(found.opsets[0].keys() & found.opsets[1].keys()):
        versions = [opsets[domain] for opsets in found.opsets]
        if versions[0] != versions[1]:
            lines.append(f"opset {domain or 'ai.onnx'} {versions[0]} -> {versions[1]}")
    if found.constants[0] != found.constants[1]:
        before, after = found.constants
        lines.append(f"{pluralize(before, 'op')} of constants -> {pluralize(after, 'op')}")
    lines += [str(change) for change in found.ends]
    if found.same:
        lines.append("nothing came, went or changed")
    for word, sign, ops in (("came", "+", found.came), ("went", "-", found.went)):
        if ops:
            types = counted((op.type for op in ops), _MOST_TYPES)
            lines.append(f"{word}: {pluralize(len(ops), 'op')} ({types})")
            lines += _some([_line(sign, op) for op in ops], most)
    if found.changed:
        lines.append(f"changed: {pluralize(len(found.changed), 'op')}")
        lines += _some(_pair_lines(found.changed), most)
    return "\n".join((*lines, *_place_lines(found, most)))


def _place_lines(found: ModelDiff, most: int) -> list[str]:
    """Placement and times of both, beside each other."""
    one, other = found.plans
    if one is None and other is None:
        return []
    counts = [_placed(plan) for plan in found.plans]
    lines = ["on the same devices:"]
    for name in counts[0] or counts[1] or {}:
        ops = ["not placed" if c is None else pluralize(c.get(name, 0), "op") for c in counts]
        lines.append(f"  {name}: {ops[0]} -> {ops[1]}")
    parts = [
        "-" if plan is None else pluralize(len(plan.subgraphs), "subgraph") for plan in found.plans
    ]
    times = [
        "-" if seconds is None else f"{human_seconds(seconds)} ({kind})"
        for seconds, kind in zip(found.seconds, found.kinds, strict=True)
    ]
    lines.append(f"  {parts[0]} -> {parts[1]}; {times[0]} -> {times[1]}{compared_times(found)}")
    if one is not None and other is not None and found.moved:
        lines.append(f"  on another device: {pluralize(len(found.moved), 'op')}")
        moved = [f"{p.name[1]} ({p.type[1]}): {p.device[0]} -> {p.device[1]}" for p in found.moved]
        lines += [f"  {line}" for line in _some([f"  {text}" for text in moved], most)]
    return lines


def compared_times(found: ModelDiff) -> str:
    """What the two times say of each other, as far as figures of their kinds can; "" without two."""
    before, after = found.seconds
    if before is None or after is None:
        return ""
    kinds = [kind for kind in found.kinds if kind is not None]
    if too_close(before, after, *kinds):
        return ": no difference that such figures can tell"
    return f": {'shorter' if after < before else 'longer'}"


def _line(sign: str, op: DiffOp) -> str:
    into = f"; its result is made by {op.into!r}" if op.into else ""
    return f"  {sign} {op.name} ({op.type}){into}"


def _pair_lines(pairs: Sequence[OpPair]) -> list[str]:
    """One line for ops of a type that changed alike."""
    alike = grouped(
        ((pair.type[0], "; ".join(map(str, (*pair.changes, *pair.weights)))), pair)
        for pair in pairs
    )
    lines = []
    for (kind, text), group in alike.items():
        one, other = group[0].name
        name = one if one == other else f"{one} = {other}"
        more = f" and {len(group) - 1:,} more" if len(group) > 1 else ""
        lines.append(f"  ~ {name}{more} ({kind}): {text}")
    return lines


def _some(lines: list[str], most: int) -> list[str]:
    rest = len(lines) - most
    return [*lines[:most], f"  … {rest:,} more; --json and --out have all"] if rest > 0 else lines


COLUMNS = (
    *("state", "how", "key before", "key after", "name", "type before", "type after", "changes"),
    *("largest relative change of weights", "device before", "device after"),
    *("seconds before", "seconds after"),
)


def rows_of(found: ModelDiff) -> list[tuple[object, ...]]:
    """One row of ``COLUMNS`` per op: those of both models, those that went, those that came."""
    rows: list[tuple[object, ...]] = []
    for pair in found.pairs:
        most = max((w.relative for w in pair.weights if w.relative is not None), default="")
        text = "; ".join(map(str, (*pair.changes, *pair.weights)))
        state = "changed" if pair.changed else "same"
        rows.append(
            (
                *(state, pair.how, *pair.key, pair.name[1], *pair.type, text, most),
                *(*pair.device, *("" if s is None else s for s in pair.seconds)),
            )
        )
    for op in found.went:
        rows.append(
            ("went", "", op.key, "", op.name, op.type, "", "", "", op.device, "", op.seconds, "")
        )
    for op in found.came:
        rows.append(
            ("came", "", "", op.key, op.name, "", op.type, "", "", "", op.device, "", op.seconds)
        )
    return rows
