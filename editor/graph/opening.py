"""Opens what a model file closes: local functions, and Ifs whose condition is known.

Everything above the graph sees the opened model. It is made anew from the file where its weights are needed; the graph knows
what was done.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto

from editor.arguments import KEEP_FUNCTIONS
from editor.errors import ModelError
from editor.graph.branches import choices, fix_choices, take_branches
from editor.graph.functions import open_functions
from editor.graph.graph import Graph


def split_define(
    model: ModelProto, define: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The sizes of ``define``, and what it chooses: values of inputs, and whether functions stay closed."""
    names = {KEEP_FUNCTIONS, *choices(model)}
    sizes = {name: size for name, size in define.items() if name not in names}
    return sizes, {name: value for name, value in define.items() if name in names}


def open_closed(model: ModelProto, chosen: Mapping[str, int]) -> None:
    """Opens local functions and makes constants of chosen inputs, in place.

    Raises:
        ModelError: an input cannot have the value that was chosen.
    """
    if chosen.get(KEEP_FUNCTIONS, 0) not in (0, 1):
        raise ModelError(
            f"--define {KEEP_FUNCTIONS}={chosen[KEEP_FUNCTIONS]}: the value must be 0 or 1"
        )
    if not chosen.get(KEEP_FUNCTIONS):
        open_functions(model)
    fix_choices(model, chosen)


def open_again(model: ModelProto, graph: Graph) -> None:
    """Does to the file of a graph, read once more, what was done to it when the graph was made."""
    open_closed(model, graph.chosen)
    take_branches(model, graph.branches)
