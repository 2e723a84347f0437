"""Hetero Editor: split an ONNX model over devices, by hand and automatically at once.

    import editor
    graph = editor.load_model("m.onnx", define={"batch_size": 1})
    plan = editor.partition(graph, "HETERO:GPU,CPU")
    print(plan.why("logits"))

``__init__.pyi`` lists the public names; each is imported when it is first used.
"""

from editor import startup

startup.prepare()  # before any other import

import lazy_loader

from editor.version import VERSION as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
