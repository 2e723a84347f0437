"""Which ops are constants that follow their consumers.

An op is constant when everything it reads is constant and it is cheap to repeat in each subgraph
that needs it. Without this, a model whose weights are made by ops falls apart: a ResNet-50 then
splits into 208 subgraphs instead of 2.
"""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Bools, Ints, Rows

# Too dear to repeat, or not a function of their inputs.
_NEVER_CONSTANT = frozenset({
    "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "MatMul", "MatMulInteger", "Gemm",
    "QLinearConv", "QLinearMatMul", "Einsum", "Attention", "RNN", "LSTM", "GRU", "Det", "DFT", "STFT",
    "If", "Loop", "Scan", "SequenceMap",
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
    "Dropout", "BatchNormalization",
})


def constant_ops(op_types: tuple[str, ...], op_domains: tuple[str, ...], reads: Rows, results: Rows, order: Ints,
                 tensor_producer: Ints, constant_tensor: Bools, outputs: Ints) -> Bools:
    """Marks the ops that follow their consumers; ``constant_tensor`` marks the initializers.

    An op that makes a graph output has no consumer to follow and keeps a place of its own.
    """
    constant_tensor = constant_tensor.copy()
    is_output = np.zeros(len(constant_tensor), bool)
    is_output[outputs] = True
    constant = np.zeros(len(op_types), bool)
    for op in order:
        if op_types[op] in _NEVER_CONSTANT or op_domains[op] not in ("", "ai.onnx"):
            continue
        made = results[op]
        made = made[made >= 0]
        if constant_tensor[reads[op]].all() and len(made) and not is_output[made].any():
            constant[op] = True
            constant_tensor[made] = True
    return constant
