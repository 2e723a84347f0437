"""Exports for ONNX Runtime: assignments of nodes, annotations of the ONNX standard, and model packages.

A model package has a variant of the model for each plan, of which a session takes the one of its provider. Its form is that of
`model_package/README.md` and `onnxruntime/core/session/model_package/README.md` of ONNX Runtime 1.32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from editor import custom_ops
from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.kept_off import shortfall
from editor.exports.model_copy import (
    ONNX_RUNTIME_IR,
    open_copy,
    script_of,
    set_metadata,
    write_model,
)
from editor.exports.openvino import GENERIC
from editor.files import json_text, safe_stem, write_atomic
from editor.graph.dimensions import Dimensions
from editor.graph.graph import Graph
from editor.groups import common_length, grouped
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.options import VERSION, check_setting
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    SELECTS_BY_UNIT,
    index_of,
    provider_of,
    short_name,
)
from editor.runtimes.op_models import small_model

_FORBIDDEN = frozenset(",;()")
_SEPARATOR = 2
"""Characters between two patterns."""


@dataclass
class _Branch:
    """A node of the prefix tree: the names with a common prefix."""

    pattern: str
    """The longest usable prefix that no other branch shares; "" where there is none."""
    targets: set[str]
    branches: list[_Branch] = field(default_factory=list)


def usable(pattern: str) -> bool:
    """Whether the settings string can contain a pattern: no separators, and no blanks that ONNX Runtime trims."""
    return (
        bool(pattern)
        and not _FORBIDDEN & set(pattern)
        and pattern == pattern.strip()
        and not pattern.startswith("=")
    )


def name_patterns(targets: Mapping[str, str], most_text: int) -> dict[str, str] | None:
    """Pattern -> target, such that the longest pattern in each name has the target of the name, without ties.

    Args:
        targets: op name -> target.
        most_text: most characters of all patterns and separators together.

    Returns:
        None where no patterns within this length exist.
    """
    names = sorted(targets)
    patterns: dict[str, str] = {}
    for start, stop in _groups_by_character(names, 0, len(names), 0):
        cost, chosen = _choose(_tree(names, targets, start, stop))
        if cost is None:
            return None
        patterns.update(chosen)
    while _text(patterns) <= most_text and (
        wrong := [
            name for name in names if not _is_assigned_correctly(name, targets[name], patterns)
        ]
    ):
        for name in wrong:
            if not usable(name) or patterns.get(name) == targets[name]:
                return None
            patterns[name] = targets[name]
    return patterns if _text(patterns) <= most_text else None


def _text(patterns: Mapping[str, str]) -> int:
    return sum(len(pattern.encode()) + _SEPARATOR for pattern in patterns)


def _is_assigned_correctly(name: str, target: str, patterns: Mapping[str, str]) -> bool:
    contained = [p for p in patterns if p in name]
    longest = max(map(len, contained), default=0)
    return {patterns[p] for p in contained if len(p) == longest} == {target}


def _groups_by_character(
    names: list[str], start: int, stop: int, depth: int
) -> list[tuple[int, int]]:
    """Ranges of sorted names with the same character at a depth."""
    ranges, first = [], start
    for i in range(start + 1, stop + 1):
        if i == stop or names[i][depth : depth + 1] != names[first][depth : depth + 1]:
            ranges.append((first, i))
            first = i
    return ranges


def _tree(names: list[str], targets: Mapping[str, str], start: int, stop: int) -> _Branch:
    """The prefix tree of a range of sorted names; names of one target have no branches."""
    root = _Branch("", set())
    waiting = [(root, start, stop, 0)]
    while waiting:
        branch, start, stop, above = waiting.pop()
        # All between these two have their prefix, for they are sorted.
        prefix = names[start][: common_length(names[start], names[stop - 1])]
        branch.pattern = next(
            (prefix[:n] for n in range(len(prefix), above, -1) if usable(prefix[:n])), ""
        )
        branch.targets = {targets[name] for name in names[start:stop]}
        if len(branch.targets) == 1 and branch.pattern:
            continue
        for first, last in _groups_by_character(names, start, stop, len(prefix)):
            if last - first < stop - start:
                below = _Branch("", set())
                branch.branches.append(below)
                waiting.append((below, first, last, len(prefix)))
    return root


def _choose(root: _Branch) -> tuple[int | None, dict[str, str]]:
    """(length in characters, patterns) of the shortest patterns for a tree; the length is None when impossible."""
    order = [root]
    for branch in order:
        order.extend(branch.branches)
    every = sorted(root.targets)
    # cost[branch][inherited]: characters of the subtree, given the target of a shorter prefix; "" is none.
    costs: dict[int, dict[str, int | None]] = {}
    picks: dict[int, dict[str, str]] = {}
    for branch in reversed(order):
        below: dict[str, int | None] = {}
        for target in ("", *every):
            parts = [costs[id(b)][target] for b in branch.branches]
            alone = not branch.branches and branch.targets != {target}
            below[target] = (
                None if alone or None in parts else sum(p for p in parts if p is not None)
            )
        price = len(branch.pattern) + _SEPARATOR
        costs[id(branch)], picks[id(branch)] = {}, {}
        for inherited in ("", *every):
            best, pick = below[inherited], inherited
            for target in every if branch.pattern else ():
                within = below[target]
                if (
                    target != inherited
                    and within is not None
                    and (best is None or within + price < best)
                ):
                    best, pick = within + price, target
            costs[id(branch)][inherited], picks[id(branch)][inherited] = best, pick
    chosen: dict[str, str] = {}
    waiting = [(root, "")]
    while waiting:
        branch, inherited = waiting.pop()
        pick = picks[id(branch)][inherited]
        if pick != inherited:
            chosen[branch.pattern] = pick
        waiting.extend((b, pick) for b in branch.branches)
    return costs[id(root)][""], chosen


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


def custom_ops_of(placement: Placement, model: ModelProto) -> list[str]:
    """The libraries of custom ops that the sessions register."""
    return custom_ops.for_opsets(
        model.opset_import, chain(*(d.custom_ops for d in placement.devices))
    )


def provider_notes(used: Sequence[Device]) -> list[str]:
    """A note where devices have no provider, so that their ops run on the CPU."""
    other = [d.name for d in used if not provider_of(d)]
    text = f"these files are run by ONNX Runtime: it runs the ops of {' and '.join(other)} on {CPU}"
    return [text] if other else []


def session_notes(used: Sequence[Device]) -> list[str]:
    """What one session does not keep of a plan: devices that ONNX Runtime does not know, or has one of."""
    texts = [
        f"ONNX Runtime knows no device {d.backend} ({d.name}): where these files are used, its ops run on another device"
        for d in used
        if not d.runtime and (d.backend.upper() not in GENERIC or not provider_of(d))
    ]
    texts += provider_notes([d for d in used if d.runtime])
    names = grouped(
        (provider_of(device), device.name)
        for device in used
        if provider_of(device) in SELECTS_BY_UNIT
    )
    return texts + [
        f"a session of ONNX Runtime has {name} for one device: {' and '.join(same)} are one for it, and its script cannot "
        "tell them apart; `split` has a session for each"
        for name, same in names.items()
        if len(same) > 1
    ]


def runs_on(device: Device) -> str:
    """What runs the ops of a device in a session of ONNX Runtime."""
    return f"ONNX Runtime's {short_name(provider_of(device) or CPU)}"


def session_left_out(placement: Placement) -> str:
    """What one session does not keep of a plan, in a line."""

    def runs(device: Device) -> str:
        known = device.runtime or (device.backend.upper() in GENERIC and provider_of(device))
        return runs_on(device) if known else ""

    return shortfall(placement, runs, lambda device: bool(provider_of(device)))


def write_onnxruntime(
    placement: Placement,
    out_dir: Path,
    stamp: str = "",
    assignment: str = "annotations",
    budget: str = "yes",
) -> list[Path]:
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
        ExportError: the names do not allow ``names``, or the installed ONNX Runtime refuses
            the settings.
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    used, mark = _in_use(placement), _marks(placement)
    document: dict[str, Any] = {
        "format": "hetero-editor/onnxruntime",
        "version": 1,
        "made_by": stamp,
    }
    if assignment == "names":
        model = _copy(graph)
        document["model"], document["session"] = f"{stem}_named.onnx", {NAMES: _by_name(placement)}
        document["nodes"] = {name: mark[device] for name, device in _named(placement).items()}
    else:
        model, document["session"] = annotated(placement)
        document["model"] = f"{stem}_annotated.onnx"
    limited = [d for d in used if d.memory is not None]
    cuda = [d for d in limited if provider_of(d) == CUDA or onnxruntime_target(d).startswith("gpu")]
    if budget != "no" and len(cuda) == 1:
        # KiB, a comma, and no statistics file.
        document["session"][BUDGET] = f"{max((cuda[0].memory or 0) // 1024, 1)},"
    for key, value in document["session"].items():
        _check_accepted(key, value)
    document |= {
        "providers": providers_of(placement),
        "custom_ops": custom_ops_of(placement, model),
        "sizes": dict(sorted(Dimensions(graph.input_dims).with_sums(graph.define).items())),
        "devices": {mark[d.name]: {"name": d.name, "target": onnxruntime_target(d)} for d in used},
        "not_here": [mark[d.name] for d in used if d.runtime and not provider_of(d)],
        "notes": session_notes(used),
        "memory_budget_bytes": {d.name: d.memory for d in limited},
    }
    return [
        *write_model(model, graph, out_dir / document["model"], stamp),
        write_atomic(out_dir / f"{stem}_session.json", json_text(document)),
        write_atomic(
            out_dir / f"{stem}_onnxruntime.py", script_of("onnxruntime_runner", stamp, stem)
        ),
    ]


def annotated(placement: Placement) -> tuple[ModelProto, dict[str, str]]:
    """A copy of the model whose ops are marked with their devices, and the setting of a session that tells what these are."""
    model, mark, affinity = _copy(placement.graph), _marks(placement), placement.affinity
    for op, (node, key) in enumerate(zip(model.graph.node, placement.graph.op_keys, strict=True)):
        node.name = f"{node.name or node.op_type}#{op}"  # unique: sessions refuse duplicates
        set_metadata(node, ANNOTATION, mark[affinity[key]])
    rules = grouped(
        (onnxruntime_target(device), f"={mark[device.name]}") for device in _in_use(placement)
    )
    return model, {ANNOTATIONS: _settings(rules)}


def _copy(graph: Graph) -> ModelProto:
    model = open_copy(graph)
    model.ir_version = min(model.ir_version, ONNX_RUNTIME_IR)
    return model


def _marks(placement: Placement) -> dict[str, str]:
    """Name of a device -> what stands for it in a model."""
    return {d.name: f"device{i}" for i, d in enumerate(placement.devices)}


def _in_use(placement: Placement) -> list[Device]:
    """Devices that ops are on, those of constants too."""
    return [d for d in placement.devices if d.name in set(placement.affinity.values())]


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
                raise ExportError(
                    f"assignment by names needs a unique name for every op; op {key!r} "
                    f"({graph.type_label(op)}) {why}. Use assignment=annotations"
                )
            result[name] = affinity[key]
    return result


def _by_name(placement: Placement) -> str:
    target = {d.name: onnxruntime_target(d) for d in placement.devices}
    wanted = {name: target[device] for name, device in _named(placement).items()}
    patterns = name_patterns(
        wanted, MAX_SETTING_BYTES - sum(len(t) + 4 for t in set(wanted.values()))
    )
    if patterns is None:
        raise ExportError(
            f"the names of the ops do not allow this placement within the {MAX_SETTING_BYTES:,} characters of "
            "ONNX Runtime's settings (or hold one of `,;()` there). Use assignment=annotations"
        )
    return _settings(grouped((name, pattern) for pattern, name in patterns.items()))


def _check_accepted(key: str, value: str) -> None:
    """Checks a setting with the installed ONNX Runtime and a model of one op.

    Raises:
        ExportError: ONNX Runtime refuses the setting; the message contains its reason.
    """
    tiny = small_model([helper.make_node("Neg", ["x"], ["y"])], [1])
    try:
        check_setting(tiny, key, value)
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        raise ExportError(f"ONNX Runtime {VERSION} refuses {key}: {error}") from error


CONFIGURATION = "hetero-editor"
_FIRST_IR = 11


def write_multidevice(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_devices.onnx``.

    ``onnx.checker`` is not asked: it refuses models that runtimes take, such as one whose output has no shape.
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    model = open_copy(graph)
    model.ir_version = min(max(model.ir_version, _FIRST_IR), ONNX_RUNTIME_IR)
    for old in [c for c in model.configuration if c.name == CONFIGURATION]:
        model.configuration.remove(old)
    model.configuration.add(
        name=CONFIGURATION,
        num_devices=len(placement.devices),
        device=[d.name for d in placement.devices],
    )
    device, subgraph_of_op = placement.device_of_op, placement.division.subgraph_of_op
    for op, node in enumerate(model.graph.node):
        for former in [
            c for c in node.device_configurations if c.configuration_id == CONFIGURATION
        ]:
            node.device_configurations.remove(former)
        entry = node.device_configurations.add(configuration_id=CONFIGURATION)
        if subgraph_of_op[op] >= 0:
            entry.pipeline_stage = int(subgraph_of_op[op])
        for name in node.output:
            if name:
                entry.sharding_spec.add(tensor_name=name, device=[int(device[op])])
    return write_model(model, graph, out_dir / f"{stem}_devices.onnx", stamp)


_MANIFEST = "manifest.json"
_COMPONENT = "model"
"""The one component, by the name that onnxruntime-genai looks for."""
_HARDWARE = ("gpu", "npu")


def write_model_package(
    placement: Placement,
    out_dir: Path,
    stamp: str = "",
    others: Mapping[str, Placement] | None = None,
) -> list[Path]:
    """Writes ``manifest.json``, and a copy of the model with annotations for each plan; they share files of weights.

    Args:
        placement: the plan.
        out_dir: the folder.
        stamp: origin of the export.
        others: other plans of the model by name, whose providers differ.

    Raises:
        ExportError: a plan is of another model, needs two providers, or has the provider of another plan.
    """
    graph = placement.graph
    plans: dict[str, tuple[Placement, dict[str, Any]]] = {}
    for own, each in {"this plan": placement, **(others or {})}.items():
        if each.graph.sha256 != graph.sha256:
            raise ExportError(f"{own!r} is of another model ({each.graph.path}) than {graph.path}")
        name, variant = _variant(each)
        if name in plans:
            raise ExportError(
                f"{own!r} is the second plan for {variant['ep']}, by which ONNX Runtime chooses a variant; leave it out"
            )
        plans[name] = each, variant
    written = list[Path]()
    for name, (each, variant) in plans.items():
        model, settings = annotated(each)
        file = f"{safe_stem(graph.name)}_{name}.onnx"
        written += write_model(model, each.graph, out_dir / file, stamp)
        session = {"model_file": file, "session_options": settings, **variant.pop("options")}
        variant |= {"variant_directory": ".", "executor_info": {"ort": session}}
    variants = {name: variant for name, (_, variant) in plans.items()}
    manifest = {
        "schema_version": "1.0",
        "package_name": graph.name,
        "components": {_COMPONENT: {"variants": variants}},
        "additional_metadata": {"made_by": stamp},
    }
    return [write_atomic(out_dir / _MANIFEST, json_text(manifest)), *dict.fromkeys(written)]


def _variant(placement: Placement) -> tuple[str, dict[str, Any]]:
    """The name of a plan's variant, and its provider with the options."""
    own = [d for d in placement.used_devices if provider_of(d) not in ("", CPU)]
    providers = [p for p in providers_of(placement) if p in map(provider_of, own)]
    if len(providers) > 1:
        raise ExportError(
            f"the plan needs {' and '.join(providers)}, and a variant of a model package has one provider; write it with "
            "--to onnxruntime or --to split"
        )
    if not own:
        return "cpu", {"ep": CPU, "device": "cpu", "options": {}}
    device, provider = own[0], providers[0]
    options = {key: value for key, value in device.properties.items() if "." not in key}
    if provider in SELECTS_BY_UNIT:
        options.setdefault("device_id", str(index_of(device)))
    name, variant = short_name(provider).lower(), dict[str, Any](ep=provider)
    if (hardware := device.device.lower()) in _HARDWARE:
        name, variant["device"] = f"{name}-{hardware}", hardware
    return name, {**variant, "options": {"provider_options": options} if options else {}}
