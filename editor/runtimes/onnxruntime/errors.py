"""What ONNX Runtime's errors say to a person."""

from __future__ import annotations

import re

from editor.runtimes.base import summarize_error

_NOISE = (
    re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "),
    re.compile(r"^/onnxruntime_src/.* (?=Error creating execution provider)"),
    re.compile(r"/onnxruntime_src/.* was (?:true|false)\. "),  # the condition that did not hold
    re.compile(r"^Fatal error: "),
    re.compile(r"/onnxruntime_src/\S+ .*?\) "),  # the C++ function that complained
    re.compile(r" with name 'op\d+'"),  # names of the probe's own nodes
    re.compile(r"Node \(op\d+\) "),
)


def reason_of(error: BaseException) -> str:
    """First useful line of an error, shortened for display."""
    return f"ONNX Runtime: {summarize_error(error, _NOISE)}"
