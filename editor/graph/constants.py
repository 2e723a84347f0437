"""Finds the constant ops, which follow their consumers.

An op is constant when everything it reads is constant and it is cheap to repeat in each subgraph
that reads its output. Otherwise a model whose weights are computed by ops has too many subgraphs:
208 instead of 2 for a ResNet-50.
"""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Bools, Ints, Rows

# Too expensive to repeat, or not deterministic.
_NEVER_CONSTANT = frozenset({
    "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "MatMul", "MatMulInteger", "Gemm",
    "QLinearConv", "QLinearMatMul", "Einsum", "Attention", "RNN", "LSTM", "GRU", "Det", "DFT", "STFT",
    "If", "Loop", "Scan", "SequenceMap",
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
    "Dropout", "BatchNormalization",
})


def constant_ops(op_types: tuple[str, ...], op_domains: tuple[str, ...], reads: Rows, results: Rows, order: Ints,
                 tensor_producer: Ints, constant_tensor: Bools, outputs: Ints) -> Bools:
    """[op] whether it is constant; ``constant_tensor`` marks the initializers.

    An op that produces a graph output is not constant: it has no consumer to follow.
    """
    constant_tensor = constant_tensor.copy()
    is_output = np.zeros(len(constant_tensor), bool)
    is_output[outputs] = True
    constant = np.zeros(len(op_types), bool)
    for op in order:
        if op_types[op] in _NEVER_CONSTANT or op_domains[op] not in ("", "ai.onnx"):
            continue
        outputs_of_op = results[op]
        outputs_of_op = outputs_of_op[outputs_of_op >= 0]
        if constant_tensor[reads[op]].all() and len(outputs_of_op) and not is_output[outputs_of_op].any():
            constant[op] = True
            constant_tensor[outputs_of_op] = True
    return constant


def read_by(readers: Bools, constant: Bools, reads: Rows, order: Ints, tensor_producer: Ints) -> Bools:
    """[op] whether it is constant and one of the readers needs its result, directly or through constant ops."""
    needed = np.zeros(len(constant), bool)
    for op in order[::-1]:
        if readers[op] or needed[op]:
            before = tensor_producer[reads[op]]
            before = before[before >= 0]
            needed[before[constant[before]]] = True
    return needed
