"""Exports for ONNX Runtime: the model, the session settings, and a script that verifies them.

``session.layer_assignment_settings`` matches the metadata entry ``layer_ann`` of nodes; its value is limited
to 8,192 characters, so there is one annotation per device, not one per op. ``session.name_based_layer_assignment``
matches substrings of names instead, the longest first, so the nodes stay unchanged.
``session.resource_cuda_partitioning_settings`` is ``<KiB>,<statistics file>``, either of which may be empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto, helper

from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.model_copy import ONNX_RUNTIME_IR, open_copy, write_model
from editor.exports.name_patterns import name_patterns
from editor.exports.notes import export_notes
from editor.exports.stamp import script_of
from editor.files import json_text, safe_stem, write_atomic
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.evaluate import VERSION, check_setting
from editor.runtimes.onnxruntime.providers import CPU, CUDA, provider_of

ANNOTATION = "layer_ann"
ANNOTATIONS = "session.layer_assignment_settings"
NAMES = "session.name_based_layer_assignment"
BUDGET = "session.resource_cuda_partitioning_settings"
MAX_SETTING_BYTES = 8192
"""Most bytes of one setting."""


def onnxruntime_target(device: Device) -> str:
    """Name of a device in the assignment settings."""
    provider = provider_of(device)
    if provider not in ("", CPU, CUDA):
        return provider
    if device.device == "GPU":
        return f"gpu:{device.unit}" if device.unit not in ("", "0") else "gpu"
    return "npu" if device.device == "NPU" else "cpu"


def providers_of(placement: Placement) -> list[str]:
    """Execution providers that the session needs, in order of priority, the CPU last."""
    providers = [provider_of(d) for d in placement.devices]
    return [*(provider for provider in dict.fromkeys(providers) if provider not in ("", CPU)), CPU]


def write_onnxruntime(placement: Placement, out_dir: Path, stamp: str = "", assignment: str = "annotations",
                      budget: str = "yes") -> list[Path]:
    """Writes a model, ``<model>_session.json`` and ``<model>_onnxruntime.py``.

    Args:
        placement: the placement to write.
        out_dir: the folder.
        stamp: origin of the export.
        assignment: ``annotations`` marks every op of a copy, ``<model>_annotated.onnx``. ``names`` leaves the ops of
            the copy, ``<model>_named.onnx``, unchanged and matches substrings of their names; ops in bodies of ``If``
            and ``Loop`` are matched by their own names.
        budget: ``no`` omits the memory budget of the CUDA provider, which is otherwise set when exactly one of its
            devices has a memory limit.

    Raises:
        ExportError: an option is unknown, the names do not allow ``names``, or the installed ONNX Runtime refuses
            the settings.
    """
    if assignment not in ("annotations", "names"):
        raise ExportError(f"unknown assignment {assignment!r}; choose one of: annotations, names")
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    model = open_copy(graph)
    model.ir_version = min(model.ir_version, ONNX_RUNTIME_IR)
    affinity = placement.affinity
    used = [d for d in placement.devices if d.name in set(affinity.values())]
    mark = {d.name: f"device{i}" for i, d in enumerate(placement.devices)}
    document: dict[str, Any] = {"format": "hetero-editor/onnxruntime", "version": 1, "made_by": stamp}
    if assignment == "names":
        document["model"], document["session"] = f"{stem}_named.onnx", {NAMES: _by_name(placement)}
        document["nodes"] = {name: mark[device] for name, device in _named(placement).items()}
    else:
        _annotate(model, [mark[affinity[key]] for key in graph.op_keys])
        rules: dict[str, list[str]] = {}
        for device in used:
            rules.setdefault(onnxruntime_target(device), []).append(f"={mark[device.name]}")
        document["model"], document["session"] = f"{stem}_annotated.onnx", {ANNOTATIONS: _settings(rules)}
    limited = [d for d in used if d.memory is not None]
    cuda = [d for d in limited if provider_of(d) == CUDA or onnxruntime_target(d).startswith("gpu")]
    if budget != "no" and len(cuda) == 1:
        document["session"][BUDGET] = budget_setting(cuda[0].memory or 0)
    for key, value in document["session"].items():
        _check_accepted(key, value)
    document |= {"providers": providers_of(placement), "sizes": dict(sorted(graph.define.items())),
                 "devices": {mark[d.name]: {"name": d.name, "target": onnxruntime_target(d)} for d in used},
                 "not_here": [mark[d.name] for d in used if d.runtime and not provider_of(d)],
                 "notes": export_notes(placement, "onnxruntime"),
                 "memory_budget_bytes": {d.name: d.memory for d in limited}}
    return [*write_model(model, graph, out_dir / document["model"], stamp),
            write_atomic(out_dir / f"{stem}_session.json", json_text(document)),
            write_atomic(out_dir / f"{stem}_onnxruntime.py", script_of("onnxruntime_runner", stamp, stem))]


def budget_setting(limit: int) -> str:
    """Value of the setting for the CUDA provider's memory budget: KiB, a comma, and no statistics file.

    Args:
        limit: bytes.
    """
    return f"{max(limit // 1024, 1)},"


def _annotate(model: ModelProto, marks: Sequence[str]) -> None:
    for op, (node, mark) in enumerate(zip(model.graph.node, marks, strict=True)):
        node.name = f"{node.name or node.op_type}#{op}"  # unique: sessions refuse duplicates
        for entry in [e for e in node.metadata_props if e.key == ANNOTATION]:
            node.metadata_props.remove(entry)
        node.metadata_props.add(key=ANNOTATION, value=mark)


def _settings(rules: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{target}({', '.join(patterns)})" for target, patterns in rules.items())


def _named(placement: Placement) -> dict[str, str]:
    """Op name -> device, without constants.

    Raises:
        ExportError: an op has no name, or its name is not unique.
    """
    graph, affinity, result = placement.graph, placement.affinity, dict[str, str]()
    shared = Counter(graph.op_names)
    for op in graph.order.tolist():
        if placement.division.subgraph_of_op[op] >= 0:
            name, key = graph.op_names[op], graph.op_keys[op]
            if not name or shared[name] > 1:
                why = f"shares the name {name!r} with another" if name else "has no name"
                raise ExportError(f"assignment by names needs a unique name for every op; op {key!r} "
                                  f"({graph.type_label(op)}) {why}. Use assignment=annotations")
            result[name] = affinity[key]
    return result


def _by_name(placement: Placement) -> str:
    target = {d.name: onnxruntime_target(d) for d in placement.devices}
    wanted = {name: target[device] for name, device in _named(placement).items()}
    patterns = name_patterns(wanted, MAX_SETTING_BYTES - sum(len(t) + 4 for t in set(wanted.values())))
    if patterns is None:
        raise ExportError(f"the names of the ops do not allow this placement within the {MAX_SETTING_BYTES:,} characters of "
                          "ONNX Runtime's settings (or hold one of `,;()` there). Use assignment=annotations")
    rules: dict[str, list[str]] = {}
    for pattern, name in patterns.items():
        rules.setdefault(name, []).append(pattern)
    return _settings(rules)


def _check_accepted(key: str, value: str) -> None:
    """Checks a setting with the installed ONNX Runtime and a model of one op.

    Raises:
        ExportError: ONNX Runtime refuses the setting; the message contains its reason.
    """
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    tiny = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "tiny", ends[:1], ends[1:]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        check_setting(tiny, key, value)
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        raise ExportError(f"ONNX Runtime {VERSION} refuses {key}: {error}") from error
