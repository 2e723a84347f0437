"""The dimensions that the inputs of a model leave open: names, sums and products of names, and the sizes that are defined.

A dimension is called by its name, or ``input[axis]``; ``?`` is what exporters write for want of a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onnx import ModelProto, TensorShapeProto, ValueInfoProto

from editor.errors import ModelError

_LARGEST = 1 << 40
_NO_NAMES = frozenset({"", "?"})
_FACTOR = re.compile(r"[^\s*+()]+")
Dims = tuple[int | str, ...]
"""Sizes of a shape as a file declares them; an open one is the name of the dimension, or what it is the sum of."""


def dims_of(value: ValueInfoProto) -> Dims:
    """The declared shape of a value, () where there is none; open dimensions are named."""
    return tuple(
        _name(value, axis, dim) if _is_open(dim) else dim.dim_value
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
    )


def input_dims(model: ModelProto) -> dict[str, Dims]:
    """Input that a run must give -> its declared shape."""
    initializers = {t.name for t in model.graph.initializer}
    return {v.name: dims_of(v) for v in model.graph.input if v.name not in initializers}


@dataclass(frozen=True)
class Expression:
    """A sum of products of names and numbers, such as ``past + 2*sequence``."""

    terms: tuple[tuple[int, tuple[str, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> Expression | None:
        """None for what is only a name, or of another form."""
        terms = []
        for sign, term in re.findall(r"(\+| - |^)((?:(?! - )[^+])*)", text):
            factors = [factor.strip() for factor in term.split("*")]
            if not all(_FACTOR.fullmatch(factor) for factor in factors):
                return None
            numbers = [int(f) for f in factors if re.fullmatch(r"\d{1,12}", f)]
            names = tuple(f for f in factors if not re.fullmatch(r"\d{1,12}", f))
            terms.append(((-1 if "-" in sign else 1) * prod(numbers), names))
        return None if terms == [(1, (text.strip(),))] else cls(tuple(terms))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it."""
        return tuple(dict.fromkeys(name for _, names in self.terms for name in names))

    def value(self, sizes: Mapping[str, int]) -> int | None:
        """Its value; None where a name has no size."""
        if not all(name in sizes for name in self.names):
            return None
        return sum(number * prod(sizes[name] for name in names) for number, names in self.terms)

    def solved(self, value: int, sizes: Mapping[str, int]) -> tuple[str, int] | None:
        """The one name without a size, and the size that gives this value; -1 where none does."""
        open_names = [name for name in self.names if name not in sizes]
        inside = [term for term in self.terms if not sizes.keys() >= set(term[1])]
        if len(open_names) != 1 or any(names.count(open_names[0]) > 1 for _, names in inside):
            return None
        name = open_names[0]
        factor = sum(
            n * prod(sizes[other] for other in names if other != name) for n, names in inside
        )
        rest = value - (self.value({**sizes, name: 0}) or 0)
        return name, rest // factor if factor and rest % factor == 0 and rest // factor >= 0 else -1


class Dimensions:
    """The open dimensions of a model's inputs."""

    def __init__(self, inputs: Mapping[str, Dims]) -> None:
        self.axes = {
            f"{name}[{axis}]": dim for name, dims in inputs.items() for axis, dim in enumerate(dims)
        }
        """``input[axis]`` -> its declared size, or the name of the dimension."""
        texts = dict.fromkeys(dim for dim in self.axes.values() if isinstance(dim, str))
        parsed = {text: Expression.parse(text) for text in texts}
        plain = {text for text, expression in parsed.items() if expression is None}
        self.sums = {
            text: e for text, e in parsed.items() if e is not None and plain.issuperset(e.names)
        }
        """Dimensions whose size follows from others."""
        self.names = tuple(text for text in texts if text not in self.sums)
        """Dimensions that have a size of their own, in order."""

    def sizes(self, define: Mapping[str, int]) -> dict[str, int]:
        """Sizes of the names, and of sums that do not determine them yet.

        Raises:
            ModelError: the defined sizes contradict each other, or the model.
        """
        sizes: dict[str, int] = {}
        given: dict[str, str] = {}
        """Dimension -> how it was defined."""
        for key, size in define.items():
            dim = self.axes.get(key, key)
            if isinstance(dim, int) and dim != size:
                raise ModelError(f"--define {key}={size}: the model fixes this size, it is {dim}")
            if isinstance(dim, int):
                continue
            if sizes.get(dim, size) != size:
                raise ModelError(
                    f"--define {key}={size} contradicts --define {given[dim]}: both are the size of {dim!r}"
                )
            sizes[dim] = size
            given.setdefault(dim, f"{key}={size}")
        while self._solve_one(sizes, given):
            pass
        return sizes

    def with_sums(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes, and those of the sums that follow from them."""
        values = {text: expression.value(sizes) for text, expression in self.sums.items()}
        return {**sizes, **{text: value for text, value in values.items() if value is not None}}

    def resized(self, now: Mapping[str, int], chosen: Mapping[str, int]) -> dict[str, int]:
        """The sizes that are chosen, and those of now that do not follow from them.

        Raises:
            ModelError: the chosen sizes contradict each other, or the model.
        """
        sizes = self.sizes(chosen)
        for name, size in now.items():
            if name not in sizes and name not in self.sums:
                sizes = self.sizes({**sizes, name: size})
        return sizes

    def _solve_one(self, sizes: dict[str, int], given: Mapping[str, str]) -> bool:
        """Finds the size of a further name in place; False where no further one follows."""
        for text, expression in self.sums.items():
            value = expression.value(sizes)
            if value is not None:
                if not 0 <= value < _LARGEST or sizes.get(text, value) != value:
                    raise _contradiction(text, value, expression, sizes, given)
                sizes.pop(text, None)
            elif text in sizes and (found := expression.solved(sizes[text], sizes)):
                if found[1] < 0:
                    raise _contradiction(text, None, expression, sizes, given)
                sizes[found[0]] = found[1]
                return True
        return False


def _contradiction(
    text: str,
    value: int | None,
    expression: Expression,
    sizes: Mapping[str, int],
    given: Mapping[str, str],
) -> ModelError:
    names = [name for name in expression.names if name in sizes]
    known = " and ".join(f"{name}={sizes[name]}" for name in names) or "any sizes"
    what = f"--define {given[text]}" if text in given else "the sizes"
    if value is None:
        return ModelError(f"{what} cannot be with {known}: {text} = {sizes[text]} has no solution")
    return ModelError(f"{what} cannot be with {known}: {text} = {value}")


def bind_sizes(
    model: ModelProto, define: Mapping[str, int]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Replaces names of dimensions by sizes in the model, in place.

    Returns:
        The sizes of names that are defined or follow, and the names without a size.

    Raises:
        ModelError: a value is not a size, the model has no such dimension, or the sizes contradict each other.
    """
    dimensions = Dimensions(input_dims(model))
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    known = {dim for v in values for dim in dims_of(v) if isinstance(dim, str)}
    nameless = [key for key, dim in dimensions.axes.items() if key == dim]
    known |= dimensions.axes.keys() | ({"?"} if nameless else set())
    wanted: dict[str, int] = {}
    for name, size in define.items():
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _LARGEST:
            raise ModelError(f"--define {name}={size}: the value must be a whole number, 0 or more")
        if name not in known:
            have = ", ".join(sorted(dimensions.names)) or "none"
            raise ModelError(
                f"--define {name}={size}: the model has no such symbol (its inputs have: {have})"
            )
        if name == "?":
            wanted |= {key: define.get(key, size) for key in nameless}
        else:
            wanted[name] = size
    sizes = dimensions.sizes(wanted)
    for value in values:
        for dim, text in zip(value.type.tensor_type.shape.dim, dims_of(value), strict=True):
            if isinstance(text, int):
                continue
            expression = None if text in sizes else Expression.parse(text)
            bound = expression.value(sizes) if expression else sizes.get(text)
            if bound is not None and 0 <= bound < _LARGEST:
                dim.dim_value = bound
            elif dim.dim_param in _NO_NAMES:
                dim.ClearField("dim_param")
    return sizes, tuple(name for name in dimensions.names if name not in sizes)


def _is_open(dim: TensorShapeProto.Dimension) -> bool:
    return bool(dim.dim_param) or not dim.HasField("dim_value") or dim.dim_value < 0


def _name(value: ValueInfoProto, axis: int, dim: TensorShapeProto.Dimension) -> str:
    return f"{value.name}[{axis}]" if dim.dim_param in _NO_NAMES else dim.dim_param
