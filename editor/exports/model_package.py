"""A model package of ONNX Runtime: a variant of the model for each plan, of which a session takes the one of its provider.

The form is that of `model_package/README.md` and `onnxruntime/core/session/model_package/README.md` of ONNX Runtime 1.32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.exports.model_copy import write_model
from editor.exports.onnxruntime import annotated, providers_of
from editor.files import json_text, safe_stem, write_atomic
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import (
    CPU,
    SELECTS_BY_UNIT,
    index_of,
    provider_of,
    short_name,
)

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
