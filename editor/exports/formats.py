"""Names of the export formats and their writers."""

from __future__ import annotations

WRITERS = {
    "dot": "dot:write_dot",
    "log": "glow:write_partition_log",
    "openvino": "openvino:write_openvino",
    "onnxruntime": "onnxruntime:write_onnxruntime",
    "onnx": "onnxruntime:write_multidevice",
    "glow": "glow:write_glow",
    "tvm": "tvm:write_tvm",
    "split": "split:write_split",
    "csv": "report:write_csv",
    "json": "report:write_json",
    "html": "report:write_html",
    "md": "report:write_markdown",
}
"""Format -> "module:function" in this package; modules are imported on demand."""
FORMATS = tuple(WRITERS)
WITH_WEIGHTS = ("openvino", "onnxruntime", "onnx", "tvm")
"""Formats that copy the model with the files of its weights, whole."""
KIT_RUNTIMES = ("onnxruntime", "openvino")
"""Runtimes that a kit can measure with."""
