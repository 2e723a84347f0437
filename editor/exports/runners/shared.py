"""Functions of several scripts of this folder; ``script_of`` writes each in the place where a script imports it."""

import sys

import numpy


def register(options, libraries):
    """Registers libraries of custom ops."""
    for library in libraries:
        path = library
        if library == "onnxruntime-extensions":
            import onnxruntime_extensions

            path = onnxruntime_extensions.get_library_path()
        options.register_custom_ops_library(path)


def run_from_command_line(make, usage):
    """Makes a split, and runs it from a file into another one, or on random floats and integers that the model takes."""
    if sys.argv[1:] == ["--random"]:
        split, random, inputs = make(), numpy.random.default_rng(0), {}
        for name, form in split.manifest["examples"].items():
            values = form["values"] if "values" in form else random.standard_normal(form["shape"])
            inputs[name] = numpy.broadcast_to(values, form["shape"]).astype(form["dtype"])
        for name, value in split.run(inputs).items():
            print(name, getattr(value, "dtype", type(value).__name__), getattr(value, "shape", ""))
    elif len(sys.argv) != 3:
        sys.exit(usage)
    else:
        with numpy.load(sys.argv[1]) as file:
            arrays = {name: file[name] for name in file.files}
        numpy.savez(sys.argv[2], **make().run(arrays))
