"""Starts the editor from the command line, in a browser or in a window of its own."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import threading
import warnings
import webbrowser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from editor import limits, terminal
from editor.arguments import KEEP_FUNCTIONS
from editor.devices.discovery import set_available_devices
from editor.devices.table import load_devices
from editor.errors import EditorError
from editor.execution.jobs import job_service
from editor.execution.jobs.preload import ModelPreloader
from editor.files import resource_dir
from editor.runtimes.machines.connection import connection_of, use
from editor.sandbox.jobs import JobService
from editor.sandbox.worker import note_ending
from editor.startup import protect_children, python_command
from editor.text import is_utf8
from editor.web.open_request import OpenRequest
from editor.web.security import LOOPBACK
from editor.workspace.folders import folder_of

log = logging.getLogger(__name__)
_LAST_PORT = 65_535
_WINDOW_SECONDS = 4.0
"""A window that is still there then is there to stay."""
_OF_EXAMPLE = (
    "These are example devices. Their table keeps some ops off OpenVINO, as a small accelerator would; the tab Devices changes "
    "it, and --devices names others."
)
_BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "microsoft-edge",
    "brave-browser",
)
"""Browsers with a mode that shows one page without tabs and address bar."""


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            f"{text[:20]!r} is not a port; ports are 0 (any that is free) to {_LAST_PORT}"
        )
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and serves; returns the exit status."""
    protect_children()
    if arguments is None:
        terminal.protect()
    if not _folder_is_there():
        print(
            "error: the current folder is not there any more; start in another one", file=sys.stderr
        )
        return 1
    parser = argparse.ArgumentParser(
        prog="python -m editor open", description="Split a model over devices, in a browser."
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL|PLAN|SET",
        help="a model (ONNX, OpenVINO IR, TFLite, TensorFlow, PaddlePaddle), a plan .json, or several models: set.json or a "
        "folder",
    )
    parser.add_argument(
        "--devices",
        metavar="SPEC",
        help="a device table (YAML) or HETERO:A,B; default: the "
        "devices of this machine (of the bundled models: "
        "examples/devices/runtimes.yaml)",
    )
    parser.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="N=V",
        help="size of a dimension, or value of an input of one number that chooses a branch of an If",
    )
    parser.add_argument(
        "--keep-functions",
        action="append_const",
        dest="define",
        const=f"{KEEP_FUNCTIONS}=1",
        help="leave calls of local functions closed: each is one op",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8050)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--token",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the page opens only with the token of the printed address; default: if others use this "
        "machine, or with another --host",
    )
    parser.add_argument(
        "--window", action="store_true", help="a window of its own instead of a browser tab"
    )
    parser.add_argument(
        "--workspace", metavar="URL", help="folder or database URL for documents and history"
    )
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder that pages may open files from; may be repeated. Default: everything on loopback, else "
        "the model's folder, the examples and uploads",
    )
    limits.add_scheduler_options(parser)
    limits.add_options(parser)
    options = parser.parse_args(arguments)
    try:
        limits.from_options(vars(options))
        if options.scheduler:
            use(connection_of(options))
        folder_of(options.workspace)  # fails here where it cannot be used
    except EditorError as error:
        parser.error(str(error))

    if options.token is False and options.host not in LOOPBACK:
        parser.error(f"--no-token is for this machine only, not for --host {options.host}")
    define = {}
    for text in options.define:
        name, equals, value = text.rpartition("=")
        if not equals or not (value.isascii() and value.isdigit() and len(value) < 20):
            parser.error(f"--define {text!r} is not NAME=NUMBER")
        define[name] = int(value)
    devices = options.devices or default_devices(options.model)
    named = (str(Path(options.model or ".").absolute()), devices, *define)
    unusable = next((text for text in named if not is_utf8(text)), None)
    if unusable is not None:
        parser.error(
            f"{unusable!r} is not UTF-8: the page cannot show it; rename the file or folder, or start elsewhere"
        )
    start = (
        OpenRequest(
            str(Path(options.model).absolute()),
            devices,
            define,
            assume_sizes=True,
            greeting="" if options.devices or devices == "HETERO" else _OF_EXAMPLE,
        )
        if options.model
        else None
    )
    warnings.filterwarnings(
        "ignore", category=UserWarning, module="editor.workspace"
    )  # notes of exports stand in the page
    return _serve(options, start, job_service(options.scheduler))


def _serve(options: argparse.Namespace, start: OpenRequest | None, jobs: JobService) -> int:
    """Serves until a signal ends it; returns the exit status."""
    early, local = None, JobService() if options.scheduler else jobs
    starting = threading.Thread(target=_start, args=(jobs,), daemon=True)
    note_ending()
    try:
        if start is not None and _is_one_model(Path(start.path)):
            early = ModelPreloader(
                local, start.path, start.define, start.devices, assume_sizes=True
            )
        if early is None:
            starting.start()
        from editor.web.server import (
            serve,
        )  # takes a second: the model is read, or the worker starts, meanwhile

        if options.devices:
            _check_devices(options.devices, early, is_proposal=start is None)
        desktop = bool(
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        ) or sys.platform in ("darwin", "win32")
        show = (
            open_window
            if options.window
            else open_tab
            if desktop and not options.no_browser
            else None
        )
        serve(
            start,
            options.host,
            options.port,
            show,
            options.workspace,
            jobs,
            early,
            options.root,
            options.token,
            options.devices,
        )
    except EditorError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if early is not None:
            early.cancel()
        if starting.ident is not None:
            starting.join()  # a thread that starts processes while the program ends would print a traceback
        local.close()
        jobs.close()
    return 0


def _check_devices(spec: str, early: ModelPreloader | None, is_proposal: bool) -> None:
    """Raises ``EditorError`` where devices cannot be used; the start page, to which they are proposed, has bundled tables."""
    from editor.web.app_state import START_SECONDS
    from editor.web.pages.start import resolve_spec

    if early is not None:
        machine = early.machine(limits.current().seconds + START_SECONDS)
        if machine[0]:
            set_available_devices(*machine)
    load_devices(resolve_spec(spec, resource_dir("examples")) if is_proposal else spec)


def _is_one_model(path: Path) -> bool:
    """Whether a path may be a model: not a plan, or a folder of several."""
    return path.suffix != ".json" and (not path.is_dir() or (path / "saved_model.pb").is_file())


def _folder_is_there() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def default_devices(model: str | None) -> str:
    """Bundled models open with a table that shows what the editor is for; others with what is here, and nothing excluded."""
    examples = resource_dir("examples")
    bundled = model is not None and Path(model).resolve().is_relative_to(examples.resolve())
    return str(examples / "devices" / "runtimes.yaml") if bundled else "HETERO"


def _start(jobs: JobService) -> None:
    try:
        jobs.start()
    except EditorError:
        pass  # said when the first job needs it


def open_tab(address: str) -> None:
    """Shows an address in the browser."""
    try:
        webbrowser.open(address)
    except webbrowser.Error:
        print("no browser could be opened; open the address above by hand", file=sys.stderr)


def open_window(address: str) -> None:
    """Shows an address in a window of its own: pywebview where it is installed, else a browser's app mode.

    What ends at once with an error (pywebview without a toolkit, Chromium for root) makes room for the next; at last a tab.
    """
    commands = [
        [path, f"--app={address}", "--window-size=1440,900"]
        for name in _BROWSERS
        if (path := shutil.which(name))
    ]
    if find_spec("webview") is not None:
        # A window must be run by the main thread of its process, and the server has ours.
        code = f"import webview; webview.create_window('Hetero Editor', {address!r}, width=1440, height=900); webview.start()"
        commands.insert(0, python_command(code))
    for command in commands:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = process.wait(_WINDOW_SECONDS)
        except subprocess.TimeoutExpired:
            return
        if not status:
            return  # a browser that runs already has opened it
        log.warning("%s showed no window: it ended with status %d", Path(command[0]).name, status)
    why = "none of these shows one here" if commands else "none is here"
    print(
        f"--window needs pywebview (pip install pywebview) or Chromium, Chrome, Edge or Brave, and {why}; "
        "opening a tab instead",
        file=sys.stderr,
    )
    open_tab(address)
