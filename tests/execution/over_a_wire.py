"""Run in the namespace of the edge: runs models whose first ops are on the edge and whose others are on the server.

    python over_a_wire.py tcp://HOST:PORT

Each line on the standard input is ``MODEL COUNT``, a file and the number of its ops on the edge. The answers are lines too:
``running`` when it is compiled, then ``same`` with the outputs compared, or the instant and the message of the error.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import editor
from editor.execution.invented_inputs import random_inputs
from editor.runtimes.machines.connection import Connection, use


def main() -> None:
    """Answers until the standard input ends."""
    use(Connection(sys.argv[1], insecure="1"))
    compiled = {}
    for line in sys.stdin:
        model, count = line.split()
        graph = editor.load_model(model)
        values = random_inputs(graph)
        try:
            if line not in compiled:
                pins = {
                    key: "edge/CPU" if op < int(count) else "server/CPU"
                    for op, key in enumerate(graph.op_keys)
                }
                compiled[line] = editor.partition(
                    graph, "HETERO:edge/CPU,server/CPU", pins=pins
                ).compile()
            print("running", flush=True)
            found = compiled[line].run(values)
        except editor.EditorError as error:
            print(time.monotonic(), " ".join(str(error).split()), flush=True)
            continue
        expected = editor.partition(graph, "HETERO:CPU").run(values)
        print(
            "same"
            if all(np.allclose(found[name], value, 1e-4, 1e-6) for name, value in expected.items())
            else "different",
            flush=True,
        )


if __name__ == "__main__":
    main()
