"""Tensors of a plan share memory where they never meet, and nowhere else."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import editor
from editor.execution.compile.step import Step
from editor.execution.executor import CompiledPlan, compile_placement, compile_whole
from editor.execution.ort_optimized.buffers import allocate_before_run, pack
from editor.execution.ort_optimized.in_place_kernels import ALIASES, OVERWRITES, in_place_operands, may_alias
from editor.execution.ort_optimized.lifetimes import Lifetimes
from editor.graph.graph import Graph
from editor.runtimes.base import SubModel

TWINS = [{"name": name, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for name in "AB"]
BLOCKED = platform.machine() in ("x86_64", "AMD64")
"""ONNX Runtime has blocked convolutions, whose kernels are known to write elsewhere, for these processors only."""


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=20), st.randoms(use_true_random=False), st.floats(0, 1))
def test_tensors_that_interfere_never_overlap(sizes: list[int], random: object, share: float) -> None:
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    meet = rng.random((len(sizes), len(sizes))) < share
    meet |= meet.T | np.eye(len(sizes), dtype=bool)
    offsets, total = pack(sizes, meet)
    for i, size in enumerate(sizes):
        assert offsets[i] % 64 == 0 and offsets[i] + size <= total
        for j in range(i):
            if meet[i, j]:
                assert offsets[i] + size <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
    assert total <= sum(-(-size // 64) * 64 for size in sizes)


def _step(number: int, kernels: list[tuple[list[str], str]], inputs: list[str], optimized: bool) -> Step:
    graph = helper.make_graph([helper.make_node("Sum", reads, [made]) for reads, made in kernels], "part", [], [])
    part = SubModel(ModelProto(graph=graph), tuple(inputs), tuple(made for _, made in kernels), Path(), "", optimized)
    device = editor.load_devices("HETERO:CPU")[0]
    return Step(number, part, device, device, executable=None)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 14), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_tensors_that_share_memory_do_not_interfere_in_any_order_of_kernels(seed: int, count: int, steps: int,
                                                                            optimized: float) -> None:
    """Runs every step in random orders that its kernels allow, and looks at what is alive at every moment."""
    rng = np.random.default_rng(seed)
    home = np.sort(rng.integers(0, steps, count))
    reads = [[f"t{j}" for j in rng.choice(i, min(i, int(rng.integers(0, 3))), replace=False)] for i in range(count)]
    taken = [bool(rng.random() < optimized) for _ in range(steps)]
    plan = []
    for s in range(steps):
        mine = [i for i in range(count) if home[i] == s]
        inputs = {name for i in mine for name in reads[i] if home[int(name[1:])] != s}
        plan.append(_step(s, [(reads[i], f"t{i}") for i in mine], sorted(inputs), taken[s]))
    meet = Lifetimes(plan).interference([[f"t{i}"] for i in range(count)])
    assert (meet == meet.T).all() and meet.diagonal().all()
    for _ in range(5):
        order: list[int] = []
        for s in range(steps):
            left = [i for i in range(count) if home[i] == s]
            while left:
                ready = [i for i in left if not any(f"t{j}" in reads[i] for j in left)]
                order.append(int(rng.choice(ready)))
                left.remove(order[-1])
        at = {op: time for time, op in enumerate(order)}
        last = [max([at[i], *(at[j] for j in range(count) if f"t{i}" in reads[j])]) for i in range(count)]
        for i in range(count):
            for j in range(count):
                if at[i] <= last[j] and at[j] <= last[i]:
                    assert meet[i, j], (i, j, order, reads)


def test_a_chain_needs_two_buffers() -> None:
    kernels = [([f"t{i - 1}"] if i else ["x"], f"t{i}") for i in range(7)]
    for optimized, needed in ((True, 2), (False, 7)):
        meet = Lifetimes([_step(0, kernels, ["x"], optimized)]).interference([[f"t{i}"] for i in range(7)])
        assert pack([64] * 7, meet)[1] == needed * 64


def branching_net(path: Path, seed: int, found_late: bool = False, side: int = 40) -> Graph:
    """Fire modules, residual sums, attention and long ways around, at random; tensors of 40 * 40 are worth a place."""
    rng = np.random.default_rng(seed)
    nodes, weights = [], []

    def op(kind: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"t{len(nodes)}"], f"t{len(nodes)}", **attributes))
        return str(nodes[-1].output[0])

    def conv(x: str, into: int, out: int, side: int) -> str:
        kernel = rng.standard_normal((out, into, side, side)).astype(np.float32) / (side * into ** 0.5)
        weights.append(numpy_helper.from_array(kernel, f"w{len(weights)}"))
        return op("Conv", x, weights[-1].name, pads=[side // 2] * 4)

    def shape(*dims: int) -> str:
        weights.append(numpy_helper.from_array(np.array(dims, np.int64), f"s{len(weights)}"))
        return str(weights[-1].name)

    def floats(*values: float) -> str:
        weights.append(numpy_helper.from_array(np.array(values, np.float32), f"f{len(weights)}"))
        return str(weights[-1].name)

    x = op("Relu", conv("x", 3, 16, 3))
    seen = [x]
    for _ in range(6):
        kind = rng.integers(0, 10)
        if kind == 0:
            squeezed = op("Relu", conv(x, 16, 16, 1))
            x = op("Concat", op("Relu", conv(squeezed, 16, 8, 1)), op("Relu", conv(squeezed, 16, 8, 3)), axis=1)
        elif kind == 1:
            x = op("Relu", op("Add", conv(op("Relu", conv(x, 16, 16, 3)), 16, 16, 1), x))
        elif kind == 2:
            x = op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == 3:
            x = op("Sub", op("Sigmoid", x), seen[int(rng.integers(0, len(seen)))])
        elif kind == 4:
            rows = op("Reshape", x, shape(1, 16, side * side))
            scores = op("Softmax", op("MatMul", rows, op("Transpose", rows, perm=[0, 2, 1])))
            x = op("Reshape", op("Add", op("MatMul", scores, rows), rows), shape(1, 16, side, side))
        elif kind == 5:
            x = op("Squeeze", op("Unsqueeze", op("Neg", op("Exp", op("Neg", op("Abs", x)))), shape(0)), shape(0))
        elif kind == 6:
            turned = op("LayerNormalization", op("Transpose", x, perm=[0, 1, 3, 2]), floats(*[1] * side))
            x = op("Transpose", turned, perm=[0, 1, 3, 2])
        elif kind == 7:
            x = op("Sqrt", op("Add", op("Erf", op("Slice", op("Pad", x, shape(0, 0, 1, 1, 0, 0, 1, 1)), shape(1, 1),
                                                  shape(side + 1, side + 1), shape(2, 3))), floats(2)))
        elif kind == 8:  # written over, while a view of it is still needed; and a kernel of which nothing is known
            rows = op("Reshape", x, shape(1, 16, side * side))
            y = op("Relu", op("Add", x, op("Reshape", op("Sin", rows), shape(1, 16, side, side))))
            x = op("Reshape", op("Sub", op("Reshape", y, shape(1, 16, side * side)), rows), shape(1, 16, side, side))
        else:
            x = op("Mul", x, op("Tanh", op("Add", x, seen[int(rng.integers(0, len(seen)))])))
        seen.append(x)
    y = op("ReduceMean", x, axes=[2, 3], keepdims=0)
    if found_late:
        y = op("ReduceSum", op("Cast", op("NonZero", op("Relu", seen[0])), to=TensorProto.FLOAT), keepdims=0)
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side]),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (x, y))]
    graph = helper.make_graph(nodes, "branching", info[:1], info[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return editor.load_model(path)


def _cut_at_random(graph: Graph, seed: int) -> CompiledPlan:
    rng = np.random.default_rng(seed)
    home = np.cumsum(rng.random(len(graph)) < (0.1, 0.3, 0.6)[seed % 3]) % 2
    pins = {graph.op_keys[op]: "AB"[home[i]] for i, op in enumerate(graph.order.tolist())}
    return compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1)


def _is_right(graph: Graph, compiled: CompiledPlan) -> None:
    whole = compile_whole(graph, editor.load_devices(TWINS)[0], 1)
    rng = np.random.default_rng(1)
    for _ in range(3):  # the first run, and those that find everything in its place
        inputs = {"x": rng.standard_normal(graph.tensor_shapes[graph.inputs[0]]).astype(np.float32)}
        wanted, found = whole.run(inputs), compiled.run(inputs)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("side", [40, 12])
@pytest.mark.parametrize("seed", range(20))
def test_results_are_correct_when_tensors_share_memory(seed: int, side: int, tmp_path: Path) -> None:
    graph = branching_net(tmp_path / "branching.onnx", seed, side=side)
    for cut in range(4):
        compiled = _cut_at_random(graph, 4 * seed + cut)
        _is_right(graph, compiled)
        for _ in range(2):
            _is_right(graph, compiled.clone())


@pytest.mark.skipif(not BLOCKED, reason="no blocked convolutions here")
def test_internal_tensors_share_one_block_with_boundary_tensors(tmp_path: Path) -> None:
    graph = branching_net(tmp_path / "branching.onnx", 3)
    compiled = _cut_at_random(graph, 0)
    _is_right(graph, compiled)
    inner = {name for step in compiled.steps for name in step.submodel.internal}
    assert inner
    results = {graph.tensor_names[t] for t in graph.outputs}
    values = [value for step in compiled.steps
              for name, value in zip(step.submodel.outputs, step.executable.fixed_outputs(), strict=True)
              if name not in results]
    begins = [value.data_ptr() for value in values]
    ends = [value.data_ptr() + value.numpy().nbytes for value in values]
    assert max(ends) - min(begins) < sum(end - begin for begin, end in zip(begins, ends, strict=True)) / 2


@pytest.mark.parametrize("seed", range(4))
def test_buffers_are_allocated_after_the_first_run_where_shapes_depend_on_data(seed: int, tmp_path: Path) -> None:
    graph = branching_net(tmp_path / "branching.onnx", seed, found_late=True)
    pins = {key: "AB"[i % 2] for i, key in enumerate(graph.op_keys)}
    compiled = compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1)
    assert not allocate_before_run(compiled.steps, [graph.tensor_names[t] for t in graph.outputs])
    _is_right(graph, compiled)


def test_a_wrong_inferred_shape_is_detected_in_the_run(tmp_path: Path) -> None:
    """What a part puts out lies in memory that was made for its shape before the first run."""
    graph = branching_net(tmp_path / "branching.onnx", 3)
    compiled = _cut_at_random(graph, 0)
    step = next(step for step in compiled.steps if step.submodel.optimized)
    info = step.submodel.model.graph.output[0]
    info.type.tensor_type.shape.dim[1].dim_value *= 2
    _is_right(graph, compiled)


@pytest.mark.parametrize(("kind", "position"), sorted(
    (kind, position) for kind in {*OVERWRITES, *ALIASES} if "Conv" not in kind for position in in_place_operands(kind)))
def test_kernels_listed_as_overwriting_work_in_place(kind: str, position: int) -> None:
    """The session reads and writes the very same memory; views with int64 as well."""
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    for dtype, number in list(kinds.items())[:2 if kind in ALIASES else 1]:
        shape = [64, 1, 257]
        names = ["a", "b"] if kind in ("Add", "Sub", "Mul", "Div") else ["a"]
        extra = {"Reshape": shape, "Squeeze": [1], "Unsqueeze": [0]}.get(kind)
        weights = [numpy_helper.from_array(np.array(extra, np.int64), "extra")] if extra else []
        node = helper.make_node(kind, [*names, *(w.name for w in weights)], ["y"])
        graph = helper.make_graph([node], "one", [helper.make_tensor_value_info(n, number, shape) for n in names],
                                  [helper.make_tensor_value_info("y", number, None)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(0)
        feeds = {name: (rng.random(shape) * 9 + 0.5).astype(dtype) for name in names}
        (wanted,) = session.run(None, feeds)
        memory = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
        binding = session.io_binding()
        for name, value in memory.items():
            binding.bind_ortvalue_input(name, value)
        over = onnxruntime.OrtValue.ortvalue_from_numpy(feeds[names[position]].reshape(wanted.shape))
        assert over.data_ptr() == memory[names[position]].data_ptr()
        binding.bind_ortvalue_output("y", over)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(feeds[names[position]].reshape(wanted.shape), wanted)


APART: dict[str, tuple[list[object], dict[str, object]]] = {
    # What else a kernel is given so that, of all kernels of its kind, it has the least to do.
    "Abs": ([], {}), "Add": ([np.zeros(1, np.float32)], {}), "AveragePool": ([], {"kernel_shape": [1, 1]}),
    "Cast": ([], {"to": TensorProto.FLOAT}), "Clip": ([], {}), "Concat": ([], {"axis": 0}),
    "Conv": ([np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1)], {}), "Div": ([np.ones(1, np.float32)], {}), "Elu": ([], {}),
    "ConvTranspose": ([np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1)], {}), "Erf": ([], {}), "Exp": ([], {}),
    "Expand": ([np.array([1, 4, 8, 8])], {}), "Gather": ([np.arange(1)], {}), "GlobalAveragePool": ([], {}),
    "GlobalMaxPool": ([], {}), "HardSigmoid": ([], {}), "LayerNormalization": ([np.ones(8, np.float32)], {}),
    "LeakyRelu": ([], {}), "Log": ([], {}), "MatMul": ([np.eye(8, dtype=np.float32)], {}),
    "MaxPool": ([], {"kernel_shape": [1, 1]}), "Mul": ([np.ones(1, np.float32)], {}), "Neg": ([], {}),
    "Pad": ([np.zeros(8, np.int64)], {}), "Pow": ([np.ones(1, np.float32)], {}), "Reciprocal": ([], {}),
    "ReduceMax": ([], {"axes": [0], "keepdims": 1}), "ReduceMean": ([], {"axes": [0], "keepdims": 1}),
    "ReduceSum": ([np.array([0])], {"keepdims": 1}), "Relu": ([], {}),
    "Resize": ([np.zeros(0, np.float32), np.ones(4, np.float32)], {}), "Sigmoid": ([], {}),
    "Slice": ([np.zeros(1, np.int64), np.array([9])], {}), "Softmax": ([], {}), "Softplus": ([], {}),
    "Split": ([], {"axis": 0}), "Sqrt": ([], {}), "Sub": ([np.zeros(1, np.float32)], {}), "Tanh": ([], {}),
    "Transpose": ([], {"perm": [1, 0, 2, 3]}),
}


def _outlives_its_input(kind: str) -> bool:
    """Whether what a kernel made stays right when its input's memory is used again after it."""
    more, attributes = APART.get(kind, ([], {}))
    weights = [numpy_helper.from_array(np.asarray(value), f"w{i}") for i, value in enumerate(more)]
    nodes = [helper.make_node(kind, ["a", *(w.name for w in weights)], ["t"], **attributes),
             helper.make_node("Cos", ["t"], ["s"]), helper.make_node("Sin", ["s"], ["again"]),  # runs after t was made
             helper.make_node("Sub", ["t", "again"], ["y"])]
    graph = helper.make_graph(nodes, "apart", [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4, 8, 8])],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("again", "y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    a = np.random.default_rng(0).random((1, 4, 8, 8), np.float32) + 0.5
    again, wanted = session.run(None, {"a": a})
    memory = a.reshape(-1)[:again.size].reshape(again.shape)
    binding = session.io_binding()
    binding.bind_ortvalue_input("a", onnxruntime.OrtValue.ortvalue_from_numpy(a))
    binding.bind_ortvalue_output("again", onnxruntime.OrtValue.ortvalue_from_numpy(memory))
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert (memory == again).all()
    return bool((binding.get_outputs()[1].numpy() == wanted).all())


@pytest.mark.parametrize("kind", APART)
def test_kernels_listed_as_never_in_place_do_not_return_operand_memory(kind: str) -> None:
    assert not may_alias(kind)
    assert _outlives_its_input(kind)


@pytest.mark.parametrize("kind", ["Identity", "Flatten"])
def test_kernels_listed_as_aliases_return_operand_memory(kind: str) -> None:
    assert may_alias(kind)
    assert not _outlives_its_input(kind), "the test above would notice"
