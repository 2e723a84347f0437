"""Models at other versions of the operator set."""

from __future__ import annotations

from onnx import ModelProto, version_converter

from editor.graph.attributes import bodies_of


def at_opset(model: ModelProto, version: int) -> ModelProto | None:
    """A copy of a model whose ops are of a version; None where they are, or cannot all be.

    ONNX's converter leaves functions and bodies as they are, so that models with such cannot be.
    """
    now = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), version)
    if now == version or model.functions or any(bodies_of(node) for node in model.graph.node):
        return None
    try:
        return version_converter.convert_version(model, version)
    except RuntimeError:  # there is no way between the versions of an op
        return None
