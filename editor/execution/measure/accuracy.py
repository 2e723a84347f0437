"""Measures how accurate a plan computes, tensor by tensor: against the unsplit model, a float original, or given values.

The noise of a tensor is the root mean square of its difference, relative to that of the reference. Of each op it is told
whether its noise was there in what it reads (inherited), or became larger in it (grown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from editor.errors import ExecutionError
from editor.execution.inputs import UNREADABLE, check_inputs
from editor.execution.measure.mismatch import (
    MAX_BYTES,
    PlanValues,
    compare,
    drawn_tensors,
    in_groups,
    precision_of_plan,
    unsplit_values,
)
from editor.execution.weight_values import arrays, match_models
from editor.files import meant
from editor.graph.flops import Floats
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_diff import plain_name
from editor.placement.placement import Placement
from editor.runtimes.base import Value
from editor.runtimes.registry import stand_in
from editor.runtimes.values import to_numpy
from editor.text import pluralize

Take = Callable[[Sequence[str]], Mapping[str, Any]]
"""Names of tensors of the reference -> their values."""

_GROWS = 2.0
"""How many times the error of its inputs an op must have for it to be its own."""
ORIGINS = {
    "grown": f"more than {_GROWS:g} times the noise of what the op reads",
    "inherited": "the noise was there in what the op reads",
}
"""What the origins of a noise mean."""
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm", "Integer")
_STORES = frozenset({"QuantizeLinear", "DequantizeLinear", "Cast"})
"""Types of ops that change how a tensor is stored."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class TensorError:
    """How far a tensor of a plan is from its reference."""

    tensor: str
    key: str
    """Of the op that makes it."""
    name: str
    type: str
    subgraph: int
    device: str
    reference: str
    """What the tensor is called in the reference."""
    relative: float
    """Largest difference, relative to the largest magnitude."""
    noise: float
    """Root mean square of the difference, relative to that of the reference."""
    cosine: float
    """1 where both point in the same direction."""
    tolerance: float
    """Of ``relative``."""
    ok: bool
    origin: Literal["none", "grown", "inherited"]
    """``grown`` in the op, or in what is between it and the next compared tensors before it; ``inherited`` from these."""
    inherited: float
    """The largest noise of the compared tensors before it; 0 where only inputs are."""

    @property
    def snr(self) -> float:
        """Signal to noise in dB; infinite without noise."""
        if not self.noise:
            return float("inf")
        return float(-20 * np.log10(self.noise)) if np.isfinite(self.noise) else float("-inf")


@dataclass(frozen=True)
class Accuracy:
    """Errors of the tensors of a plan in one run."""

    reference: str
    """What was compared with."""
    every_tensor: bool
    tensors: tuple[TensorError, ...]
    """In the order of the run."""
    outputs: tuple[str, ...]
    """Those of the model that were compared."""
    notes: tuple[str, ...]
    """What was left out or assumed."""
    plan: str = ""
    """The fingerprint of the placement."""

    @property
    def first(self) -> TensorError | None:
        """The first one outside its tolerance, in the order of the run; None where all are within."""
        return next((one for one in self.tensors if not one.ok), None)

    @property
    def within_tolerance(self) -> bool:
        """Whether all of them are."""
        return self.first is None

    @property
    def grown(self) -> tuple[TensorError, ...]:
        """Those whose error is their op's own, the noisiest first."""
        own = (one for one in self.tensors if one.origin == "grown")
        return tuple(sorted(own, key=lambda one: -one.noise))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        first = self.first
        return {
            "format": "hetero-editor/accuracy",
            "version": 1,
            "plan": self.plan,
            "reference": self.reference,
            "every_tensor": self.every_tensor,
            "within_tolerance": self.within_tolerance,
            "first": None if first is None else first.tensor,
            "outputs": list(self.outputs),
            "tensors": [dict(zip(COLUMNS, row_of(one), strict=True)) for one in self.tensors],
            "notes": list(self.notes),
        }


COLUMNS = (
    *("op", "name", "type", "tensor", "subgraph", "device", "reference", "relative", "noise"),
    *("snr_db", "cosine", "tolerance", "ok", "origin", "inherited_noise"),
)


def row_of(one: TensorError) -> tuple[object, ...]:
    """The values of ``COLUMNS``."""
    return (
        *(one.key, one.name, one.type, one.tensor, one.subgraph, one.device, one.reference),
        *(one.relative, one.noise, one.snr, one.cosine, one.tolerance, one.ok, one.origin),
        one.inherited,
    )


def accuracy_of(data: Mapping[str, Any]) -> Accuracy:
    """What ``Accuracy.as_dict`` wrote, also as JSON, where null stands for a number that is not finite.

    Raises:
        KeyError, TypeError: it is something else.
    """
    return Accuracy(
        data["reference"],
        data["every_tensor"],
        tuple(map(_error_of, data["tensors"])),
        tuple(data["outputs"]),
        tuple(data["notes"]),
        data["plan"],
    )


def _error_of(row: Mapping[str, Any]) -> TensorError:
    infinite = float("inf")
    return TensorError(
        tensor=row["tensor"],
        key=row["op"],
        name=row["name"],
        type=row["type"],
        subgraph=row["subgraph"],
        device=row["device"],
        reference=row["reference"],
        relative=infinite if row["relative"] is None else row["relative"],
        noise=infinite if row["noise"] is None else row["noise"],
        cosine=float("nan") if row["cosine"] is None else row["cosine"],
        tolerance=row["tolerance"],
        ok=row["ok"],
        origin=row["origin"],
        inherited=infinite if row["inherited_noise"] is None else row["inherited_noise"],
    )


@dataclass(frozen=True, eq=False)
class Reference:
    """What the tensors of a plan are compared with."""

    text: str
    names: Mapping[str, Sequence[str]]
    """Tensor of the plan -> what may be the same in the reference; the nearest one counts"""
    take: Take
    precision: str = ""
    """The lowest precision that it allows for, as ``mismatch.compare`` knows it."""
    notes: tuple[str, ...] = ()
    other_model: bool = False
    """Whether its tensors may have other shapes, and are not compared then."""
    every_name: bool = False
    """Whether all that it has are compared, wherever they are."""


def unsplit_reference(
    placement: Placement, inputs: Mapping[str, Value], threads: int = 0
) -> Reference:
    """The unsplit model on the CPU in float32."""
    graph, device = placement.graph, stand_in(placement.graph.format)
    return Reference(
        f"the unsplit model on {device.description}",
        {name: (name,) for name in _computed(graph)},
        lambda names: unsplit_values(graph, device, inputs, names, threads),
        precision_of_plan(placement, device),
    )


_GIVEN = "the given values"


def given_reference(placement: Placement, values: Mapping[str, Any]) -> Reference:
    """Values that somebody has.

    Raises:
        ExecutionError: one of them is of no tensor that the model computes, or has another shape.
    """
    graph = placement.graph
    known = _computed(graph)
    outputs = ", ".join(graph.output_names)
    for name, value in values.items():
        if name not in known:
            raise ExecutionError(
                f"{_GIVEN}: {name[:200]!r} is no tensor that the model computes (its outputs are {outputs}); "
                "name each array after its tensor"
            )
        shape = graph.tensor_shapes[graph.tensor_index[name]]
        found = np.shape(value)
        if shape is not None and (
            len(shape) != len(found)
            or any(isinstance(d, int) and d != n for d, n in zip(shape, found, strict=True))
        ):
            raise ExecutionError(
                f"{_GIVEN}: {name!r} has the shape {'x'.join(map(str, found)) or 'scalar'}, and the model makes "
                f"{graph.shape_label(graph.tensor_index[name])}; give values of this model at these sizes"
            )
    if not values:
        raise ExecutionError(
            f"{_GIVEN}: has no values; name each array after its tensor ({outputs})"
        )
    return Reference(
        _GIVEN,
        {name: (name,) for name in values},
        lambda _: values,
        precision_of_plan(placement, stand_in(graph.format)),
        every_name=True,
    )


def load_original(path: Path, graph: Graph) -> Graph:
    """The float original of a model, at the same sizes.

    Raises:
        ModelError: the file is not a model, or has no such sizes.
    """
    original = load_model(path)
    if not original.unbound:
        return original
    define: dict[str, int] = {}
    for name, dims in original.input_dims.items():
        tensor = graph.tensor_index.get(name, -1)
        shape = graph.tensor_shapes[tensor] if tensor >= 0 else None
        if shape is not None and len(shape) == len(dims):
            define |= {
                f"{name}[{axis}]": size
                for axis, (dim, size) in enumerate(zip(dims, shape, strict=True))
                if isinstance(dim, str) and isinstance(size, int)
            }
    return load_model(path, define)


def read_values(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Values by name, of an ``.npz`` file or a folder of ``.npy`` files named after their tensors.

    Raises:
        ExecutionError: there are none, or they cannot be read.
    """
    if not path.exists():
        raise ExecutionError(f"{path}: no such file{meant(path)}")
    try:
        if path.is_dir():
            return {
                file.relative_to(path).with_suffix("").as_posix(): np.load(file, allow_pickle=False)
                for file in sorted(path.rglob("*.npy"))
            }
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ExecutionError(
                f"{path}: one array without a name; write an .npz file, or name a folder"
            )
        with archive:
            return {name: archive[name] for name in archive.files}
    except UNREADABLE as error:
        raise ExecutionError(
            f"{path}: cannot be read as an .npz file or a folder of .npy files ({error})"
        ) from error


def original_reference(
    placement: Placement, original: Graph, inputs: Mapping[str, Value], threads: int = 0
) -> Reference:
    """The float model that the model of a plan was made of, on the CPU; its tensors are matched as ``diff`` matches ops.

    Raises:
        ExecutionError: it has other inputs, or no tensor in common.
    """
    graph, device = placement.graph, stand_in(original.format)
    given = _inputs_of(original, graph, inputs)
    names = _tensors_in_common(original, graph)
    if not names:
        raise ExecutionError(
            f"{original.path} has no tensor in common with {graph.path}; name the model that it was made of"
        )
    quantized = any(part in kind for kind in graph.op_types for part in _QUANTIZED)
    return Reference(
        f"{original.path} on {device.description}",
        names,
        lambda wanted: unsplit_values(original, device, given, wanted, threads),
        "int8" if quantized else precision_of_plan(placement, device),
        ("tolerances are those of int8, because the model is quantised",) if quantized else (),
        other_model=True,
    )


def _inputs_of(original: Graph, graph: Graph, inputs: Mapping[str, Value]) -> dict[str, Value]:
    wanted = original.input_names
    if missing := [name for name in wanted if name not in inputs]:
        own = ", ".join(graph.input_names)
        raise ExecutionError(
            f"{original.path} has the input {missing[0]!r}, and {graph.path} has {own}; name the float original of this model"
        )
    given: dict[str, Value] = {}
    for name in wanted:
        value, kind = inputs[name], original.tensor_types[original.tensor_index[name]]
        if isinstance(value, np.ndarray) and "float" in value.dtype.name and value.dtype != kind:
            value = value.astype(kind)
        given[name] = value
    try:
        check_inputs(original, given)
    except ExecutionError as error:
        raise ExecutionError(f"{original.path} takes other inputs: {error}") from error
    return given


def _tensors_in_common(original: Graph, graph: Graph) -> dict[str, tuple[str, ...]]:
    """Tensor of a model -> those of its original that may be the same: of its name, of the op that was matched, and of what
    follows that op and has no partner, as an activation may be fused with the op, or with the quantisation behind it."""
    theirs = _computed(original)
    matching = match_models(original, graph).matching
    found = {name: [plain_name(name)] for name in _computed(graph)}
    for one, other in matching.pairs(original.order):
        rows = (original.op_outputs[one].tolist(), graph.op_outputs[other].tolist())
        for a, b in zip(*rows, strict=False):
            if a < 0 or b < 0 or (name := graph.tensor_names[b]) not in found:
                continue
            same = graph.tensor_index.get(original.tensor_names[a], b)
            if same == b or graph.op_types[int(graph.tensor_producer[same])] in _STORES:
                found[name] += _and_after(original, a, matching.partner)
    for op in graph.order.tolist():  # what only changes how a tensor is stored has its values
        if graph.op_types[op] in _STORES:
            read, made = graph.op_inputs[op].tolist()[0], graph.op_outputs[op].tolist()[0]
            names = [graph.tensor_names[t] if t >= 0 else "" for t in (read, made)]
            scaled = graph.op_types[op] != "Cast" or "float" in graph.tensor_types[read]
            if scaled and names[0] in found and names[1] in found:
                found[names[1]] += found[names[0]]
    known = {
        name: tuple(dict.fromkeys(each for each in candidates if each in theirs))
        for name, candidates in found.items()
    }
    return {name: candidates for name, candidates in known.items() if candidates}


def _and_after(graph: Graph, tensor: int, partner: npt.NDArray[np.int64]) -> list[str]:
    """A tensor, and those that only ops without partners make of it, one after the other."""
    ends, names = set(graph.outputs.tolist()), [graph.tensor_names[tensor]]
    while tensor not in ends and len(readers := graph.readers[tensor].tolist()) == 1:
        op = readers[0]
        made = [t for t in graph.op_outputs[op].tolist() if t >= 0]
        if partner[op] >= 0 or len(made) != 1:
            break
        tensor = made[0]
        names.append(graph.tensor_names[tensor])
    return names


def measure_accuracy(
    placement: Placement,
    inputs: Mapping[str, Value],
    reference: Reference,
    every_tensor: bool = False,
    tolerance: float | None = None,
    threads: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    limit: int = MAX_BYTES,
) -> Accuracy:
    """Runs a plan and compares its tensors with a reference.

    Args:
        placement: the plan.
        inputs: values by name.
        reference: what its tensors are compared with.
        every_tensor: all tensors, not those at the ends of subgraphs only; subgraphs are compiled for that.
        tolerance: of the relative error; None: by the element type and the precision of the devices.
        threads: per subgraph; 0 leaves the choice to the runtime.
        progress: called with (done, total, text).
        limit: bytes of the tensors that are compared in one pass.

    Raises:
        ExecutionError: the plan or the reference does not run, or has other shapes.
    """
    graph, notes = placement.graph, list(reference.notes)
    names = _compared(placement, reference, every_tensor, notes)
    scales = _result_scales(graph, names)
    groups = [*in_groups(graph, names, limit)]
    values, found = PlanValues(placement, inputs, threads), {}
    skipped = 0
    for number, group in enumerate(groups):
        if progress:
            progress(number, len(groups), f"comparing {pluralize(len(names), 'tensor')}")
        actual = values.of(group)
        asked = dict.fromkeys(each for name in group for each in reference.names[name])
        expected = reference.take([*asked])
        for name in (name for name in group if name in actual):
            scale = scales.get(name)
            gaps = []
            for its in (each for each in reference.names[name] if each in expected):
                pair = _comparable(expected[its], actual[name], scale)
                if pair is not None and (
                    pair[0].shape == pair[1].shape or not reference.other_model
                ):
                    precision = reference.precision if scale is None else "int8"
                    gaps.append(_gap(placement, name, its, *pair, precision, tolerance))
            if gaps:
                found[name] = min(gaps, key=lambda gap: gap.noise)
            skipped += not gaps
    if skipped:
        notes.append(
            f"{pluralize(skipped, 'tensor')} cannot be compared: of another shape, or whole numbers without a scale"
        )
    if not found:
        raise ExecutionError(
            f"no tensor of {graph.path} can be compared with {reference.text}"
            f"{'' if every_tensor else '; --every-tensor compares those within subgraphs, too'}"
        )
    stands = [d.name for d in placement.used_devices if d.planned]
    if stands:
        notes.append(
            f"{', '.join(stands)}: planned, so that its ops ran on {stand_in(graph.format).description}, whose errors are "
            "not those of the device"
        )
    return Accuracy(
        reference.text,
        every_tensor,
        tuple(_results(graph, found)),
        tuple(name for name in dict.fromkeys(graph.output_names) if name in found),
        tuple(notes),
        placement.fingerprint,
    )


def _computed(graph: Graph) -> frozenset[str]:
    """Tensors that ops which are not constant make, and that have numbers."""
    return frozenset(
        name
        for name, kind, op in zip(
            graph.tensor_names, graph.tensor_types, graph.tensor_producer.tolist(), strict=True
        )
        if op >= 0 and not graph.op_is_constant[op] and "(" not in kind and kind != "string"
    )


def _compared(
    placement: Placement, reference: Reference, every_tensor: bool, notes: list[str]
) -> list[str]:
    """Tensors to compare, in the order of the run."""
    graph, drawn = placement.graph, drawn_tensors(placement.graph)
    given = reference.every_name
    names: list[str] = []
    for subgraph in placement.subgraphs:
        ends = set(subgraph.outputs)
        for key in subgraph.ops:
            op = graph.key_index[key]
            if int(placement.division.subgraph_of_op[op]) != subgraph.id:
                continue
            made = [graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0]
            names += [
                name
                for name in made
                if name in reference.names and (every_tensor or given or name in ends)
            ]
    random = [name for name in names if graph.tensor_index[name] in drawn]
    if random:
        notes.append(
            f"{pluralize(len(random), 'tensor')} not compared: they depend on random numbers"
        )
    if every_tensor:
        notes.append(
            "every tensor was an output of its subgraph, and runtimes do not fuse ops across an output: values may differ "
            "a little from those of a plain run"
        )
    elif len(placement.subgraphs) == 1 and not given:
        notes.append("the plan is one subgraph, so only outputs are compared")
    left = set(random)
    return [name for name in dict.fromkeys(names) if name not in left]


@dataclass(frozen=True)
class _Scale:
    """What makes floats of the whole numbers of a tensor."""

    scale: Floats
    zero_point: Floats

    def floats(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        floats: npt.NDArray[Any] = (value - self.zero_point) * self.scale
        return floats.astype(np.float32)


_SCALES = {
    "QuantizeLinear": 1,
    "QLinearConv": 6,
    "QLinearMatMul": 6,
    "QGemm": 7,
    "QLinearConcat": 0,
}
"""Type of an op whose result is quantised -> the input with the scale; the zero point is the next one."""
_BINARY = ("QLinearAdd", "QLinearMul")
_KEEPS = frozenset(
    {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Relu", "Identity"}
)
"""Types of ops whose whole numbers have the scale of those that they read."""


def _scale_inputs(graph: Graph, tensor: int) -> tuple[int, int] | None:
    """The tensors with scale and zero point (or -1) of a quantised one; None where it is none, or these are not constant."""
    op = int(graph.tensor_producer[tensor])
    while op >= 0 and graph.op_types[op] in _KEEPS:
        op = int(graph.tensor_producer[graph.op_inputs[op][0]])
    kind = graph.op_types[op] if op >= 0 else ""
    place = _SCALES.get(kind, 6 if kind in _BINARY else 3 if kind.startswith("QLinear") else -1)
    row = graph.op_inputs[op].tolist() if place >= 0 else []
    if not row[place : place + 1] or row[place] < 0 or not graph.tensor_is_constant[row[place]]:
        return None
    return row[place], row[place + 1] if len(row) > place + 1 else -1


def _result_scales(graph: Graph, names: Sequence[str]) -> dict[str, _Scale]:
    """Of the tensors of whole numbers that stand for floats."""
    asked = {}
    for name in names:
        tensor = graph.tensor_index[name]
        whole = graph.tensor_types[tensor].removeprefix("u").startswith("int")
        if whole and (inputs := _scale_inputs(graph, tensor)) is not None:
            asked[name] = inputs
    known = arrays(graph, sorted({t for pair in asked.values() for t in pair if t >= 0}))
    found = {}
    for name, (scale, zero) in asked.items():
        if scale in known and known[scale].size == 1 and (zero < 0 or zero in known):
            shift = known[zero].reshape(-1)[:1].astype(np.float64) if zero >= 0 else np.zeros(1)
            found[name] = _Scale(known[scale].reshape(-1).astype(np.float64), shift)
    return found


def _comparable(
    expected: Any, actual: Any, scale: _Scale | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Both as arrays of one type; None where they cannot be compared."""
    try:
        one, other = np.asarray(to_numpy(expected)), np.asarray(to_numpy(actual))
    except (TypeError, ValueError):
        return None
    if scale is not None:
        one, other = (
            scale.floats(each) if each.dtype.kind in "iu" else each for each in (one, other)
        )
    floats = ["float" in each.dtype.name for each in (one, other)]
    if one.dtype != other.dtype:
        if not all(floats):
            return None
        other = other.astype(one.dtype)
    return (one, other) if all(floats) or one.dtype.kind in "iubc" else None


def _gap(
    placement: Placement,
    name: str,
    reference: str,
    expected: npt.NDArray[Any],
    actual: npt.NDArray[Any],
    precision: str,
    tolerance: float | None,
) -> TensorError:
    """How far a tensor is from its reference; where its noise began is told later."""
    graph = placement.graph
    (held,) = compare("", {name: expected}, {name: actual}, precision, graph).outputs
    most = held.tolerance if tolerance is None or not held.tolerance else tolerance
    noise, cosine = _noise(expected, actual)
    ok = held.ok if most == held.tolerance else held.max_relative <= most
    op = int(graph.tensor_producer[graph.tensor_index[name]])
    subgraph = int(placement.division.subgraph_of_op[op])
    return TensorError(
        tensor=name,
        key=graph.op_keys[op],
        name=graph.display_name(op),
        type=graph.type_label(op),
        subgraph=subgraph,
        device=placement.subgraphs[subgraph].device,
        reference=reference,
        relative=held.max_relative,
        noise=noise,
        cosine=cosine,
        tolerance=most,
        ok=ok,
        origin="none",
        inherited=0.0,
    )


def _noise(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> tuple[float, float]:
    """Root mean square of the difference, relative to that of the first; and the cosine between both."""
    if expected.shape != actual.shape:
        return float("inf"), 0.0
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    e, a = expected.reshape(-1), actual.reshape(-1)
    apart = own = its = product = 0.0
    for start in range(0, e.size, _CHUNK):
        x, y = (each[start : start + _CHUNK].astype(wide) for each in (e, a))
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore", over="ignore"):
            apart += float(np.square(np.abs(np.where(same, 0.0, x - y))).sum())
            finite = np.isfinite(x) & np.isfinite(y)
            x, y = x[finite], y[finite]
            own += float(np.square(np.abs(x)).sum())
            its += float(np.square(np.abs(y)).sum())
            product += float(np.real(np.conj(x) * y).sum())
    if np.isnan(apart):
        apart = float("inf")
    if not apart:
        return 0.0, 1.0
    noise = float(np.sqrt(apart / own)) if own else float("inf")
    cosine = product / float(np.sqrt(own) * np.sqrt(its)) if own and its else float(own == its)
    return noise, min(cosine, 1.0)


def _results(graph: Graph, found: Mapping[str, TensorError]) -> Iterator[TensorError]:
    """Yields the errors with where their noise began."""
    before = _noise_before(graph, found)
    for one in found.values():
        inherited = before[graph.key_index[one.key]]
        known, grown = replace(one, inherited=inherited), one.noise > _GROWS * inherited
        yield replace(known, origin="grown" if grown else "inherited") if one.noise else known


def _noise_before(graph: Graph, found: Mapping[str, TensorError]) -> list[float]:
    """[op] the largest noise of the compared tensors that are next before it."""
    noise = [0.0] * len(graph.tensor_names)
    before = [0.0] * len(graph)
    for op in graph.order.tolist():
        before[op] = max((noise[t] for t in graph.op_reads[op].tolist()), default=0.0)
        for t in graph.op_outputs[op].tolist():
            if t >= 0:
                gap = found.get(graph.tensor_names[t])
                noise[t] = before[op] if gap is None else gap.noise
    return before
