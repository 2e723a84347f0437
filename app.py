"""Starts the editor in a browser: ``python app.py [MODEL|PLAN] [--devices SPEC]``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from editor.web.launch import main

if __name__ == "__main__":
    sys.exit(main())
