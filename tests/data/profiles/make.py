"""Makes the model and the profiles of this folder with the real tools: ``python tests/data/profiles/make.py``.

``kit.json`` is what ``run.py --runtime openvino --seconds 1 --machine board`` of a kit of the model wrote.
TensorRT cannot be installed everywhere: ``tensorrt.json`` was written by hand after NVIDIA/TensorRT,
samples/common/sampleReporting.cpp (``Profiler::exportJSONProfile``), with names of layers as in issues 3768 and 3842 there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
RUNS = 5


def model() -> onnx.ModelProto:
    """Two convolutions with batch normalisation and activation, a residual, pooling and a classifier; names of scopes."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((16, 3, 3, 3)),
        "w2": rng.standard_normal((16, 16, 3, 3)),
        "fc": rng.standard_normal((10, 16)),
        "fcb": np.zeros(10),
        "scale": np.ones(16),
        "shift": np.zeros(16),
        "mean": np.zeros(16),
        "var": np.ones(16),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], "/features/0/conv/Conv", pads=[1, 1, 1, 1]),
        node(
            "BatchNormalization",
            ["c1", "scale", "shift", "mean", "var"],
            ["b1"],
            "/features/0/norm/BatchNormalization",
        ),
        node("Relu", ["b1"], ["r1"], "/features/0/act/Relu"),
        node("Conv", ["r1", "w2"], ["c2"], "/features/1/conv/Conv", pads=[1, 1, 1, 1]),
        node("Sigmoid", ["c2"], ["s2"], "/features/1/act/Sigmoid"),
        node("Mul", ["c2", "s2"], ["m2"], "/features/1/act/Mul"),
        node("Add", ["m2", "r1"], ["a2"], "/features/1/Add"),
        node("GlobalAveragePool", ["a2"], ["p"], "/pool/GlobalAveragePool"),
        node("Flatten", ["p"], ["f"], "/Flatten"),
        node("Gemm", ["f", "fc", "fcb"], ["logits"], "/classifier/Gemm", transB=1),
        node("Softmax", ["logits"], ["y"], "/Softmax"),
    ]
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, [1, 3, 16, 16])], [value("y", TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(
        nodes,
        "small",
        *ends,
        [
            numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def onnxruntime_trace(level: str) -> None:
    """The profile of a session at an optimization level."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/trace"
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
        session = ort.InferenceSession(
            str(HERE / "small.onnx"), options, providers=["CPUExecutionProvider"]
        )
        for _ in range(RUNS):
            session.run(None, {"x": np.ones((1, 3, 16, 16), np.float32)})
        shutil.copyfile(session.end_profiling(), HERE / f"onnxruntime_{level.lower()}.json")


def benchmark_app(name: str, *arguments: str) -> None:
    """A report of OpenVINO's benchmark_app, or with ``-pc`` what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(sys.executable).with_name("benchmark_app")
        done = subprocess.run(
            [
                tool,
                "-m",
                HERE / "small.onnx",
                "-d",
                "CPU",
                "-niter",
                "4",
                "-nireq",
                "2",
                "-hint",
                "none",
                "-report_folder",
                folder,
                *arguments,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        if "-pc" in arguments:
            (HERE / name).write_text(done.stdout)
        else:
            (report,) = Path(folder).glob("*counters_report.*")
            shutil.copyfile(report, HERE / name)


if __name__ == "__main__":
    onnx.save(model(), HERE / "small.onnx")
    for one in ("DISABLE_ALL", "ENABLE_ALL"):
        onnxruntime_trace(one)
    benchmark_app("average.csv", "-report_type", "average_counters")
    benchmark_app("detailed.csv", "-report_type", "detailed_counters")
    benchmark_app("detailed.json", "-report_type", "detailed_counters", "-json_stats")
    benchmark_app("average.json", "-report_type", "average_counters", "-json_stats")
    benchmark_app("pc.txt", "-pc")
