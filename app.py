"""Starts the editor in a browser: ``python app.py [MODEL|PLAN] [--devices SPEC]``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

for _name in (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
):  # until the server has handlers of its own: Python would print a traceback
    if hasattr(signal, _name) and __name__ == "__main__":
        signal.signal(getattr(signal, _name), lambda number, _frame: os._exit(128 + number))

sys.path.insert(0, str(Path(__file__).resolve().parent))

from editor.web.launch import main  # noqa: E402  # the handlers come first

if __name__ == "__main__":
    sys.exit(main())
