"""Starts the editor in a browser: ``python app.py [MODEL|PLAN] [--devices SPEC]``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))


def main() -> int:
    """Reads the command line and serves; returns the exit status."""
    parser = argparse.ArgumentParser(description="Split an ONNX model over devices, in a browser.")
    parser.add_argument("model", nargs="?", metavar="MODEL|PLAN", help="an .onnx file or a plan .json")
    parser.add_argument("--devices", metavar="SPEC", help="a device table (YAML) or HETERO:A,B; "
                                                          "default: examples/devices/runtimes.yaml")
    parser.add_argument("--define", action="append", default=[], metavar="N=V", help="size of a symbolic dimension")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8050)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--workspace", metavar="URL", help="folder or database URL for documents and history")
    parser.add_argument("--scheduler", metavar="tcp://...", help="a Dask scheduler for jobs; default: an embedded one")
    options = parser.parse_args()

    from editor.errors import EditorError
    from editor.web.desk import OpenRequest
    from editor.web.server import serve

    define = {}
    for text in options.define:
        name, equals, value = text.rpartition("=")
        if not equals or not value.isdigit():
            parser.error(f"--define {text!r} is not NAME=NUMBER")
        define[name] = int(value)
    devices = options.devices or str(ROOT / "examples" / "devices" / "runtimes.yaml")
    start = OpenRequest(str(Path(options.model).resolve()), devices, define) if options.model else None
    desktop = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform in ("darwin", "win32")
    try:
        serve(start, options.host, options.port, desktop and not options.no_browser, options.workspace,
              options.scheduler)
    except EditorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
