"""What OpenVINO is told about precision, and what is said of it."""

from __future__ import annotations

import openvino

import editor
from editor.graph.graph import Graph
from editor.runtimes.registry import runtime_of


def test_a_precision_that_openvino_would_lower_is_said_where_nobody_chose_one(
    mobilenet: Graph,
) -> None:
    own = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").get_type_name()
    free, chosen = editor.load_devices(
        [
            {"name": "OV", "backendName": "openvino"},
            {
                "name": "LOW",
                "backendName": "openvino",
                "properties": {"INFERENCE_PRECISION_HINT": "bf16"},
            },
        ]
    )
    said = runtime_of("openvino").precision_note(free)
    assert (f"would compute in {own}" in said) if own in ("bf16", "f16") else not said
    assert not runtime_of("openvino").precision_note(chosen), "somebody chose it"
    plan = editor.partition(mobilenet, [free.entry])
    result = plan.benchmark(seconds=0.2)
    assert result.precision_notes == ((said,) if said else ())
    assert (f"Precision: {said}" in result.text()) == bool(said)
