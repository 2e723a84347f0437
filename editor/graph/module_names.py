"""The module of the source model that an op comes from, where the exporter recorded it.

PyTorch's exporter (``torch.onnx.export`` with ``dynamo=True``) writes it on every node: ``pkg.torch.onnx.name_scopes``, a
list of names, or, in older files, only ``namespace``, ``name: class`` separated by slashes. In both the last name is
the operation itself, and the one before it the innermost module with its whole path: ``vit.encoder.layer.0.attention``.
"""

from __future__ import annotations

import re

from onnx import NodeProto

_SCOPES, _NAMESPACE = "pkg.torch.onnx.name_scopes", "namespace"
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_LONGEST = 1 << 14
"""Characters; nobody nests modules so deep, and a hostile file may claim it on every op."""


def module_of(node: NodeProto) -> str:
    """Path of the innermost module, with dots; "" where it is unknown or the whole model."""
    recorded = {entry.key: entry.value for entry in node.metadata_props if entry.key in (_SCOPES, _NAMESPACE)}
    if any(len(value) > _LONGEST for value in recorded.values()):
        return ""
    names = [a or b for a, b in _QUOTED.findall(recorded.get(_SCOPES, ""))]
    if not names and " " in recorded.get(_NAMESPACE, ""):
        names = [part.partition(":")[0] for part in recorded[_NAMESPACE].split("/")]
    module = names[-2] if len(names) > 1 else ""
    return "" if module.startswith("_empty_nn_module_stack") else module
