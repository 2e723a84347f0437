"""Expressions are parsed by many threads of the server."""

from __future__ import annotations

import gc
import sys
import threading

from editor.devices.expressions import Expression
from editor.graph.attributes import attribute_value


class _Garbage:
    """Python code that runs when it is collected: other threads then get their turn in the middle of a parse."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(100):
            pass


def test_expressions_can_be_parsed_by_several_threads() -> None:
    failed: list[BaseException] = []

    def parse(thread: int) -> None:
        for number in range(40):
            try:
                _Garbage()
                Expression(
                    " and ".join(
                        f"(op == a{thread}_{number}_{part} or not ((flops + 1) < 3))"
                        for part in range(30)
                    )
                )
                values = ", ".join(f"({thread}, {number}, {part})" for part in range(30))
                assert len(attribute_value(f"[{values}]")) == 30
            except BaseException as error:  # noqa: BLE001  # it belongs to this test
                failed.append(error)

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=parse, args=(number,)) for number in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)
    assert not failed
