"""The command ``adapter-test``: does a runtime of another package keep what the protocol promises?"""

from __future__ import annotations

import argparse
import sys

from editor.execution.adapter_kit import check_runtime


def adapter_test(options: argparse.Namespace) -> int:
    """Checks a runtime; 1 where a check fails."""
    def report(text: str) -> None:
        if sys.stderr.isatty():
            print(f"{text} ...", file=sys.stderr)
    failed = 0
    for finding in check_runtime(options.name, options.cases, report):
        failed += not finding.ok
        print(f"{'ok    ' if finding.ok else 'FAILED'}  {finding.device}  {finding.check}: {finding.text}", flush=True)
    print(f"{failed} checks failed" if failed else "every check passed")
    return 1 if failed else 0
