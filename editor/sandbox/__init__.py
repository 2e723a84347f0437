"""The one way to run code that may hang, crash or eat memory: in a worker process that is watched and killed.

onnx, ONNX Runtime and OpenVINO loop over sizes that a file states, hold the interpreter's lock for as long, and cannot be
interrupted. So another process looks at time and memory (``watch``), and kills the one that works:

- A worker (``worker``) is a fresh interpreter that is kept for the next call. It reads and probes models for Python, tries
  runtimes, and runs the jobs of the page and of commands (``jobs``).
- On the command line the process forks before anything large is imported (``watch.fork``): the child works, the parent
  watches. That takes a few ms; an interpreter of its own would take half a second.

Plain models (``graph.plain_models``), whose cost their size bounds, need none of this.
"""
