"""Types in which boundary tensors may travel between machines in place of their own, where a device table allows it."""

from __future__ import annotations

_REPLACES = {"float16": ("float32",), "int8": ("float32", "float16")}
WIRE_TYPES = tuple(_REPLACES)


def travels_as(element_type: str, wire_type: str) -> str:
    """The type in which a tensor travels: ``wire_type`` where that is allowed and shorter, else its own.

    Args:
        element_type: of the tensor, such as ``float32``.
        wire_type: one of ``WIRE_TYPES``; "" leaves all tensors as they are.
    """
    return wire_type if wire_type and element_type in _REPLACES[wire_type] else element_type
