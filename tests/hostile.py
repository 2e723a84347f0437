"""Models whose external data points where it should not, and what changed on the disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

SIZE = 64
PLACES = (
    "initializer",
    "attribute",
    "attribute list",
    "sparse values",
    "sparse indices",
    "sparse attribute",
    "body",
    "function",
    "function default",
    "training",
    "wrong attribute type",
)


def refer(tensor: TensorProto, *entries: tuple[str, str]) -> TensorProto:
    """Moves the data of a tensor to a file, by these entries."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    return tensor


def weight() -> TensorProto:
    return numpy_helper.from_array(np.arange(SIZE, dtype=np.float32), "w")


def model_with(place: str, *entries: tuple[str, str]) -> ModelProto:
    """y = x + w, with a tensor of external data at some place of the model."""
    tensor = refer(weight(), *entries)
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [SIZE])],
        [info("y", TensorProto.FLOAT, [SIZE])],
        [tensor if place == "initializer" else weight()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
        ir_version=8,
    )
    sparse = onnx.SparseTensorProto(
        dims=[SIZE], values=weight(), indices=helper.make_tensor("i", TensorProto.INT64, [0], [])
    )
    if place.startswith("sparse"):
        (sparse.indices if place == "sparse indices" else sparse.values).CopyFrom(tensor)
    body = helper.make_graph(
        [helper.make_node("Identity", ["b"], ["z"])],
        "body",
        [],
        [info("z", TensorProto.FLOAT, [SIZE])],
    )
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    if place == "attribute":
        model.graph.node.insert(0, constant)
    elif place == "attribute list":
        model.graph.node[0].attribute.append(
            AttributeProto(name="l", type=AttributeProto.TENSORS, tensors=[tensor])
        )
    elif place == "sparse attribute":
        model.graph.node[0].attribute.append(
            AttributeProto(name="s", type=AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse)
        )
    elif place.startswith("sparse"):
        model.graph.sparse_initializer.append(sparse)
    elif place == "body":
        body.initializer.append(tensor)
        body.initializer[0].name = "b"
        model.graph.node[0].attribute.append(helper.make_attribute("g", body))
    elif place == "function":
        model.functions.append(
            helper.make_function("f", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)])
        )
    elif place == "function default":
        function = helper.make_function("f", "F", ["a"], ["a"], [], [helper.make_opsetid("", 17)])
        function.attribute_proto.append(
            AttributeProto(name="d", type=AttributeProto.TENSOR, t=tensor)
        )
        model.functions.append(function)
    elif place == "training":
        model.training_info.add().algorithm.initializer.append(tensor)
    elif place == "wrong attribute type":
        model.graph.node[0].attribute.append(
            AttributeProto(name="t", type=AttributeProto.FLOAT, f=1.0, t=tensor)
        )
    return model


def tree(root: Path, without: tuple[Path, ...]) -> dict[str, tuple[object, ...]]:
    """Every file below a folder, except in some folders: kind, content, number of names, time of the last change."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if Path(folder, f) not in without]
        for name in (*folders, *files):
            path = Path(folder, name)
            state = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
            times = (
                ()
                if stat.S_ISDIR(state.st_mode) and Path(folder, name) in {w.parent for w in without}
                else (state.st_mtime_ns,)
            )
            found[str(path)] = (
                state.st_mode,
                state.st_ino,
                state.st_nlink if not path.is_dir() else 0,
                content,
                *times,
            )
    return found
