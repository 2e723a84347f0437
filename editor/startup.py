"""Prepares a process before it imports a runtime: no telemetry, and no code from the current folder.

``editor`` calls ``prepare`` when it is imported, so only the standard library's built-in parts are used here. Exported
scripts switch telemetry off by themselves.
"""

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def prepare() -> None:
    """Switches telemetry off, in this process and those that it starts; `python -m editor` stops importing from its folder."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when onnxruntime's library is loaded
    if "openvino_telemetry" not in sys.modules:  # then `import openvino` uses its stub
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    # While Python looks for the module of `-m`, sys.argv is "-m" and the arguments; the module is in orig_argv.
    if (
        sys.argv[:1] == ["-m"]
        and not sys.flags.safe_path
        and sys.orig_argv[-len(sys.argv)] in ("editor", "-meditor")
    ):
        folder = sys.path.pop(0)  # the current one, which may be a stranger's
        if folder == os.path.dirname(_PACKAGE):
            sys.path.append(folder)


def protect_children() -> None:
    """Keeps the Python processes that this one starts from importing code of the current folder; for programs of our own."""
    os.environ["PYTHONSAFEPATH"] = "1"


def python_command(code: str) -> list[str]:
    """The command line of a Python process that runs some code, without the current folder among its modules."""
    return [sys.executable, "-P", "-c", code]


def installed_folders() -> tuple[str, ...]:
    """The folders of ``sys.path`` where packages are installed: all but the current one and that of the running script.

    Those of ``PYTHONPATH`` count, as the user chose them.
    """
    import site

    chosen = {os.path.abspath(f) for f in os.environ.get("PYTHONPATH", "").split(os.pathsep) if f}
    chosen.update((*site.getsitepackages(), site.getusersitepackages()))
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    open_to_all = {os.path.abspath(f) for f in (".", os.path.dirname(main) if main else ".")}
    return tuple(
        f
        for f in sys.path
        if f and (os.path.abspath(f) in chosen or os.path.abspath(f) not in open_to_all)
    )
