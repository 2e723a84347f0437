"""Models that are small or plain to look at and ask a reader for hours or for all memory.

``python tests/bombs.py FOLDER`` writes them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import (
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

Bomb = Callable[[], ModelProto]
info, node = helper.make_tensor_value_info, helper.make_node


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    constants: dict[str, object] | None = None,
    functions: Sequence[FunctionProto] = (),
    opset: int = 17,
) -> ModelProto:
    """A model of these nodes; ``constants`` become int64 initializers."""
    initializers = [
        numpy_helper.from_array(np.asarray(value, np.int64), name)
        for name, value in (constants or {}).items()
    ]
    graph = helper.make_graph(list(nodes), "bomb", list(inputs), list(outputs), initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))


def floats(name: str, shape: Sequence[int | str | None] | None = (4,)) -> ValueInfoProto:
    """A float32 value."""
    return info(name, TensorProto.FLOAT, None if shape is None else list(shape))


def repeat() -> ModelProto:
    """Data propagation of shape inference doubles a list of sizes 45 times."""
    nodes = [node("Shape", ["x"], ["d0"])]
    nodes += [node("Concat", [f"d{i}"] * 2, [f"d{i + 1}"], axis=0) for i in range(45)]
    return model_of(
        [*nodes, node("Expand", ["x", "d45"], ["y"])], [floats("x")], [floats("y", None)]
    )


def long_range() -> ModelProto:
    """A Range of 2 ** 40 steps, all of it constant."""
    nodes = [
        node("Range", ["zero", "limit", "one"], ["r"]),
        node("Cast", ["r"], ["f"], to=1),
        node("Add", ["x", "f"], ["y"]),
    ]
    return model_of(
        nodes, [floats("x", [1])], [floats("y", None)], {"zero": 0, "limit": 1 << 40, "one": 1}
    )


def range_in_branch() -> ModelProto:
    """The same in the branches of an If, which a runtime folds when it is asked about the If."""

    def branch(name: str) -> onnx.GraphProto:
        nodes = [
            node("Range", ["zero", "limit", "one"], [f"{name}_r"]),
            node("Cast", [f"{name}_r"], [f"{name}_f"], to=1),
            node("ReduceSum", [f"{name}_f"], [f"{name}_y"], keepdims=0),
        ]
        constants = {"zero": 0, "limit": 1 << 33, "one": 1}
        return helper.make_graph(
            nodes,
            name,
            [],
            [floats(f"{name}_y", [])],
            [numpy_helper.from_array(np.asarray(v, np.int64), k) for k, v in constants.items()],
        )

    chosen = node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else"))
    return model_of([chosen], [info("c", TensorProto.BOOL, [])], [floats("y", [])])


def repeat_in_branch() -> ModelProto:
    """The doubling of ``repeat`` in the branches of an If, where shape inference does not stop early."""

    def branch(name: str) -> onnx.GraphProto:
        nodes = [node("Shape", ["x"], [f"{name}0"])]
        nodes += [node("Concat", [f"{name}{i}"] * 2, [f"{name}{i + 1}"], axis=0) for i in range(45)]
        nodes.append(node("Expand", ["x", f"{name}45"], [f"{name}_y"]))
        return helper.make_graph(nodes, name, [], [floats(f"{name}_y", None)])

    chosen = node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else"))
    return model_of([chosen], [info("c", TensorProto.BOOL, []), floats("x")], [floats("y", None)])


def nested_ifs(depth: int = 25) -> ModelProto:
    """An If in a branch of an If in a branch of an If, 25 deep."""

    def leaf(name: str) -> onnx.GraphProto:
        return helper.make_graph([node("Neg", ["x"], [name])], name, [], [floats(name)])

    inner = leaf("leaf")
    for level in range(depth):
        name = f"y{level}"
        chosen = node("If", ["c"], [name], then_branch=inner, else_branch=leaf(f"else{level}"))
        inner = helper.make_graph([chosen], f"g{level}", [], [floats(name)])
    return model_of(
        inner.node, [info("c", TensorProto.BOOL, []), floats("x")], [floats(f"y{depth - 1}")]
    )


def wide_concat() -> ModelProto:
    """A Concat of 50,000 inputs."""
    names = [f"t{i}" for i in range(50_000)]
    nodes = [*(node("Neg", ["x"], [name]) for name in names), node("Concat", names, ["y"], axis=0)]
    return model_of(nodes, [floats("x")], [floats("y", [200_000])])


def far_opset() -> ModelProto:
    """An opset version of 2 ** 40."""
    return model_of([node("Neg", ["x"], ["y"])], [floats("x")], [floats("y")], opset=1 << 40)


def nested_functions(levels: int = 8, calls: int = 10) -> ModelProto:
    """Functions of eight levels with ten calls each: 10 ** 8 ops when all are expanded."""
    functions, opsets = [], [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for level in range(levels):
        kind, domain = (f"F{level - 1}", "local") if level else ("Neg", "")
        names = ["x", *(f"y{i}" for i in range(calls - 1)), "y"]
        nodes = [node(kind, [a], [b], domain=domain) for a, b in pairwise(names)]
        functions.append(helper.make_function("local", f"F{level}", ["x"], ["y"], nodes, opsets))
    return model_of(
        [node(f"F{levels - 1}", ["x"], ["y"], domain="local")],
        [floats("x")],
        [floats("y")],
        functions=functions,
    )


def functions_below_the_count() -> ModelProto:
    """Functions of five levels: 100,000 ops when all are expanded."""
    return nested_functions(levels=5)


def dense(count: int = 1199) -> ModelProto:
    """Each op reads the outputs of all ops before it."""
    nodes = [node("Sum", ["x", *(f"t{j}" for j in range(i))], [f"t{i}"]) for i in range(count)]
    return model_of(nodes, [floats("x")], [floats(f"t{count - 1}")])


def long_chain(count: int = 200_000) -> ModelProto:
    """A chain of 200,000 ops behind a constant: nothing is wrong with it."""
    nodes = [node("ConstantOfShape", ["shape"], ["t0"])]
    nodes += [node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(count - 2)]
    nodes.append(node("Add", ["x", f"t{count - 2}"], ["y"]))
    return model_of(nodes, [floats("x")], [floats("y")], {"shape": [4]})


def large_split() -> ModelProto:
    """Data propagation over slices and concatenations of many sizes."""
    nodes = [
        node(
            "ConstantOfShape",
            ["size"],
            ["d0"],
            value=helper.make_tensor("v", TensorProto.INT64, [1], [1]),
        )
    ]
    nodes += [node("Concat", ["d0"] * 2, ["d1"], axis=0), node("Reshape", ["x", "d1"], ["y"])]
    return model_of(nodes, [floats("x")], [floats("y", None)], {"size": [1 << 40]})


def many_dims() -> ModelProto:
    """A tensor of a million dimensions, and ops that keep it."""
    shape = [1] * 1_000_000
    nodes = [
        node("Neg", ["x"], ["t0"]),
        *(node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(400)),
    ]
    return model_of(nodes, [floats("x", shape)], [floats("t400", None)])


BOMBS: dict[str, Bomb] = {
    "repeat": repeat,
    "repeat_in_branch": repeat_in_branch,
    "long_range": long_range,
    "range_in_branch": range_in_branch,
    "nested_ifs": nested_ifs,
    "wide_concat": wide_concat,
    "far_opset": far_opset,
    "nested_functions": nested_functions,
    "functions_below_the_count": functions_below_the_count,
    "dense": dense,
    "long_chain": long_chain,
    "large_split": large_split,
    "many_dims": many_dims,
}
"""Name -> what makes the model."""


def write_bomb(name: str, folder: Path) -> Path:
    """Writes a bomb; returns its path."""
    path = folder / f"{name}.onnx"
    onnx.save(BOMBS[name](), path)
    return path


if __name__ == "__main__":
    for each in BOMBS:
        print(write_bomb(each, Path(sys.argv[1])))
