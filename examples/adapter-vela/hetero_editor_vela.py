"""Arm's compiler Vela for Ethos-U: what it places on the NPU, why not the rest, and the cycles that it estimates.

The NPU is not here: its subgraphs run on the stand-in of every planned device. Vela compiles whole int8 files of TensorFlow
Lite, of which the editor shows OpenVINO's layers. So layers are matched to operators of the file: by names where OpenVINO
keeps them, and by the ranges of `FakeQuantize` layers, each of which is the quantisation of one tensor.
"""

from __future__ import annotations

import csv
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import editor
from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target
from editor.errors import ExecutionError
from editor.execution.weight_values import arrays
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.runtimes.base import Capability, CompileOptions, SubModel, summarize_error
from editor.runtimes.loaded_model import RuntimeDefaults
from editor.runtimes.protocols import Executable

_PACKAGE = "ethos-u-vela"
_DEFAULTS = {
    "ethos-u55": "ethos-u55-256",
    "ethos-u65": "ethos-u65-512",
    "ethos-u85": "ethos-u85-256",
}
"""Device -> its configuration where the table names none as `provider`."""
_SECONDS = 600
_REFUSAL = re.compile(
    r"^Warning \(supported operators\) operator: (\w+), ofm: '(.*)'\n(?:Reason: )?((?:.+\n?)+)",
    re.M,
)
_UNMATCHED = "no operator of the TensorFlow Lite file could be matched to this layer"
_MAIN = {
    "ADD": "Add",
    "AVERAGE_POOL_2D": "AveragePool",
    "CONCATENATION": "Concat",
    "CONV_2D": "Conv",
    "DEPTHWISE_CONV_2D": "Conv",
    "FULLY_CONNECTED": "MatMul",
    "LOGISTIC": "Sigmoid",
    "MAX_POOL_2D": "MaxPool",
    "MUL": "Mul",
    "SOFTMAX": "Softmax",
    "TANH": "Tanh",
    "TRANSPOSE_CONV": "ConvTranspose",
}
"""Operator -> the layer that must be among those matched to it."""


def version() -> str:
    """Such as "Vela 5.2.0"."""
    return f"Vela {importlib.metadata.version(_PACKAGE)}"


@dataclass(frozen=True)
class Operator:
    """An operator of a TensorFlow Lite file."""

    kind: str
    output: str


@dataclass(frozen=True)
class Net:
    """The first subgraph of a TensorFlow Lite file."""

    operators: tuple[Operator, ...]
    ranges: tuple[tuple[int, tuple[float, float]], ...]
    """(operator, or -1 for an input; least and largest value) of each quantised tensor, in the order of the file"""


@dataclass(frozen=True)
class Answer:
    """What Vela says of a file."""

    refused: Mapping[str, str]
    """Output of an operator that is not on the NPU -> the reason"""
    seconds: Mapping[str, float]
    """Output of an operator on the NPU, the last of those that were fused -> estimated seconds"""


class Vela(RuntimeDefaults):
    """Capability of Ethos-U55, U65 and U85, which are not here."""

    name = "vela"
    title = "Vela"
    formats = ("openvino", "onnx")
    answers_for_planned = True

    def devices(self) -> Sequence[AvailableDevice]:
        """None: a compiler is no device. Tables name them: ``Ethos-U55``, ``Ethos-U65``, ``Ethos-U85``."""
        importlib.metadata.version(_PACKAGE)  # PackageNotFoundError is a ModuleNotFoundError
        return []

    def resolve(self, name: str, provider: str) -> Target | None:
        """A planned device; ``provider`` is a configuration of Vela, such as ``ethos-u65-256``."""
        default = _DEFAULTS.get(name.lower())
        if default is None:
            return None
        chosen = provider.lower() or default
        return Target(self.name, chosen, False, "NPU", f"{version()} for {chosen}")

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Vela's own placement of the whole file, with its reasons."""
        if graph.source != "tflite":
            why = f"{self.title} reads int8 models of TensorFlow Lite, and this is another format"
            return Capability.of_reasons([why] * len(graph))
        net, answer = read_net(graph.path), ask(graph.path, device.provider)
        reasons = []
        for op, number in enumerate(operators_of_layers(graph, net)):
            if graph.op_is_constant[op]:
                reasons.append("")
            elif number < 0:
                reasons.append(f"{version()}: {_UNMATCHED}")
            else:
                operator = net.operators[number]
                why = answer.refused.get(operator.output, "")
                reasons.append(f"{version()}: {operator.kind}: {why}" if why else "")
        return Capability.of_reasons(reasons)

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Raises ``ExecutionError``: planned devices have stand-ins."""
        raise ExecutionError(f"{submodel.label} on {device.name}: Vela compiles, and runs nothing")


def ask(path: Path, configuration: str) -> Answer:
    """Compiles a file with Vela.

    Raises:
        ExecutionError: Vela does not know the configuration, or cannot compile the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            "import sys; from ethosu.vela.vela import main; sys.exit(main())",
        ]
        command += [str(path), "--accelerator-config", configuration]
        command += ["--verbose-performance", "--output-dir", folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ExecutionError(f"{path}: {version()} took over {_SECONDS} s") from error
        layers, summaries = (
            [*Path(folder).glob(f"*_{what}*.csv")] for what in ("per-layer", "summary")
        )
        if done.returncode or not layers or not summaries:
            said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise ExecutionError(
                f"{path}: {version()}: {summarize_error(RuntimeError(said[-1] if said else 'no answer'))}"
            )
        rows, summary = _rows(layers[0]), _rows(summaries[0])[0]
    refused = {
        found[2]: "; ".join(line.strip() for line in found[3].splitlines() if line.strip())
        for found in _REFUSAL.finditer(done.stdout + "\n" + done.stderr)
    }
    seconds: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        if row["Target"] == "NPU":
            seconds[row["Name"]] += float(row["Op Cycles"]) / float(summary["core_clock"])
        else:
            refused.setdefault(row["Name"], "it is on the CPU")
    return Answer(refused, dict(seconds))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_net(path: Path) -> Net:
    """The operators of a file and the ranges of its tensors."""
    from ethosu.vela.tflite.BuiltinOperator import BuiltinOperator
    from ethosu.vela.tflite.Model import Model
    from ethosu.vela.tflite.TensorType import TensorType

    names = {code: name for name, code in vars(BuiltinOperator).items() if name.isupper()}
    limits = {TensorType.INT8: (-128, 127), TensorType.UINT8: (0, 255)}
    model = Model.GetRootAsModel(path.read_bytes(), 0)
    graph = model.Subgraphs(0)

    def name_of(tensor: int) -> str:
        return str(graph.Tensors(tensor).Name().decode())

    def range_of(tensor: int) -> tuple[float, float] | None:
        found, ends = graph.Tensors(tensor), limits.get(graph.Tensors(tensor).Type())
        how = found.Quantization()
        if ends is None or how is None or how.ScaleLength() != 1:
            return None
        scale, zero = how.Scale(0), how.ZeroPoint(0) if how.ZeroPointLength() else 0
        return scale * (ends[0] - zero), scale * (ends[1] - zero)

    operators, made = [], [(-1, graph.Inputs(i)) for i in range(graph.InputsLength())]
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        code = model.OperatorCodes(operator.OpcodeIndex())
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        outputs = [operator.Outputs(i) for i in range(operator.OutputsLength())]
        operators.append(Operator(names.get(kind, str(kind)), name_of(outputs[0])))
        made += [(number, output) for output in outputs]
    ranges = [(number, found) for number, tensor in made if (found := range_of(tensor))]
    return Net(tuple(operators), tuple(ranges))


def operators_of_layers(graph: Graph, net: Net) -> list[int]:
    """[layer] number of the operator that it is a part of; -1 where that is not known.

    A `FakeQuantize` layer is the tensor of the same range. Where several tensors have one, as many layers must have it too, and
    they are matched in order. The layers before it, up to others, compute it.
    """
    order = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    tensors, layers = defaultdict[Any, list[int]](list), defaultdict[Any, list[int]](list)
    for number, ends in net.ranges:
        tensors[_key(ends)].append(number)
    for op in order:
        if graph.op_types[op] == "FakeQuantize":
            layers[_key(_range(graph, op))].append(op)
    quantised = {op: -2 for found in layers.values() for op in found}
    """-1: an input of the model, -2: not known"""
    for key, found in layers.items():
        if len(found) == len(tensors[key]):
            quantised.update(zip(found, tensors[key], strict=True))
    owner = dict.fromkeys(order, -2)
    for last, number in quantised.items():
        part = _before(graph, last, quantised, owner)
        main = _MAIN.get(net.operators[number].kind) if number >= 0 else None
        if main is None or any(graph.op_types[op] == main for op in part):
            owner.update(dict.fromkeys(part, number))
    outputs = {operator.output: i for i, operator in enumerate(net.operators)}
    for op in order:
        if graph.op_names[op] in outputs:
            owner[op] = outputs[graph.op_names[op]]
        elif owner[op] == -2 and op not in quantised:  # after the last of them
            made = [owner[one] for one in _producers(graph, op) if one in owner]
            owner[op] = made[0] if made else -2
    for op in reversed(order):  # what comes before the first operator belongs to it
        if owner[op] == -1:
            read = [owner[one] for one in order if op in _producers(graph, one)]
            owner[op] = next((number for number in read if number >= 0), -1)
    return [max(owner.get(op, -1), -1) for op in range(len(graph))]


def _producers(graph: Graph, op: int) -> list[int]:
    made = [int(graph.tensor_producer[t]) for t in graph.op_inputs[op] if t >= 0]
    return [one for one in made if one >= 0]


def _before(
    graph: Graph, last: int, quantised: Mapping[int, int], owner: Mapping[int, int]
) -> list[int]:
    """A layer and all before it, up to those of other tensors."""
    part, left = [last], [last]
    while left:
        for op in _producers(graph, left.pop()):
            if op in owner and op not in quantised and owner[op] == -2 and op not in part:
                part.append(op)
                left.append(op)
    return part


def _range(graph: Graph, op: int) -> tuple[float, float]:
    """Least and largest value of a `FakeQuantize`; one side of it may count in whole numbers, which the other scales."""
    given = [int(t) for t in graph.op_inputs[op]][1:5]
    found = arrays(graph, given)
    ends = [float(np.ravel(found[t])[0]) if t in found else np.nan for t in given]
    whole = (ends[0], ends[1]) in ((-128, 127), (0, 255))
    return (ends[2], ends[3]) if whole else (ends[0], ends[1])


def _key(ends: tuple[float, float]) -> tuple[str, str]:
    return f"{ends[0]:.5g}", f"{ends[1]:.5g}"


def store_times(plan: editor.Plan, device: Device) -> DeviceProfile:
    """Stores Vela's cycles as the profile of a device of a plan, which says where they come from.

    Raises:
        ExecutionError: Vela cannot compile the model, or none of its figures is of a layer.
    """
    graph = plan.graph
    if graph.source != "tflite":
        raise ExecutionError(f"{graph.path}: Vela reads int8 models of TensorFlow Lite")
    net, answer = read_net(graph.path), ask(graph.path, device.provider)
    numbers = operators_of_layers(graph, net)
    work, waiting = op_flops(graph) + 1.0, list[int]()
    seconds: dict[str, float] = {}
    unable = [
        graph.op_keys[op]
        for op, number in enumerate(numbers)
        if not graph.op_is_constant[op]
        and (number < 0 or net.operators[number].output in answer.refused)
    ]
    for number, operator in enumerate(net.operators):
        if operator.output in answer.refused:
            waiting = []
            continue
        waiting += [
            op
            for op, owner in enumerate(numbers)
            if owner == number and not graph.op_is_constant[op]
        ]
        if operator.output in answer.seconds and waiting:  # the last of those that were fused
            share = work[waiting] / work[waiting].sum()
            for op, part in zip(waiting, share.tolist(), strict=True):
                seconds[graph.op_keys[op]] = part * answer.seconds[operator.output]
            waiting = []
    if not seconds:
        raise ExecutionError(f"{graph.path}: no layer has a figure of {version()}")
    profile = DeviceProfile(
        device.description,
        sum(seconds.values()),
        seconds,
        {},
        (),
        *(0.0,) * 5,
        1,
        origin=f"{version()} for {device.provider}, estimate of the compiler",
        estimated=True,
        has_launch=False,
        has_links=False,
        unable=tuple(unable),
    )
    save_profile(graph, device, profile)
    return profile


def main() -> int:
    """`python -m hetero_editor_vela PLAN` stores the times of each Ethos-U of a plan."""
    try:
        plan = editor.load_plan(sys.argv[1])
        for device in plan.devices:
            if device.runtime == Vela.name:
                profile = store_times(plan, device)
                print(
                    f"{device.name}: {len(profile.seconds)} layers, {profile.total * 1e3:.4g} ms ({profile.origin})"
                )
    except (editor.EditorError, IndexError) as error:
        print(f"python -m hetero_editor_vela PLAN: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
