"""The page against Netron and Model Explorer, and its own frames, strokes and memory, in headless Chromium.

    python benchmarks/ui.py [--ops 3000 10000 50000] [--peers /path/to/python] [--repeat 3]

``--peers`` is the Python of an environment with ``netron``, and with ``ai-edge-model-explorer`` and
``model-explorer-onnx`` where it is to be compared too. Beside ours stands a bare page of Dash and dash-cytoscape with as
many nodes. "Open" is from the navigation to the graph on the screen, of a model that was never opened before: "at once"
when the server only just answers, "server idle" five seconds after its start (ours reads the file meanwhile); "from the
command" adds to "at once" what the server took to answer. Ours has two moments: "seen", when the picture that comes with
the first answer is painted, and "live", when the graph that can be painted on has taken its place. All tools take turns on
the same files in one browser; the figures are medians. Chromium renders in software here, so compare them among themselves.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import psutil
from onnx import TensorProto, helper
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import ROOT, record

OPEN_LIMIT = 90
"""Seconds after which a tool counts as not opening a file."""
_LAYER = [
    ("norm/Mul", ["{x}", "{x}"]),
    ("norm/Add", ["norm/Mul", "{x}"]),
    *(
        (f"attn/{p}/{op}", [source])
        for p in ("q", "k", "v")
        for op, source in (
            ("Tanh", "norm/Add"),
            ("Neg", f"attn/{p}/Tanh"),
            ("Abs", f"attn/{p}/Neg"),
        )
    ),
    ("attn/Mul", ["attn/q/Abs", "attn/k/Abs"]),
    ("attn/Softmax", ["attn/Mul"]),
    ("attn/Mul_1", ["attn/Softmax", "attn/v/Abs"]),
    ("attn/o/Tanh", ["attn/Mul_1"]),
    ("Add", ["attn/o/Tanh", "{x}"]),
    ("mlp/gate/Sigmoid", ["Add"]),
    ("mlp/up/Tanh", ["Add"]),
    ("mlp/Mul", ["mlp/gate/Sigmoid", "mlp/up/Tanh"]),
    ("mlp/down/Neg", ["mlp/Mul"]),
    ("Add_1", ["mlp/down/Neg", "Add"]),
]


def transformer(path: Path, ops: int) -> Path:
    """Decoder layers of 21 ops with slash names, as exporters write them."""
    nodes, before = [], "x"
    for layer in range(max(ops // len(_LAYER), 1)):
        scope = f"/model/layers.{layer}/"
        for name, reads in _LAYER:
            inputs = [before if r == "{x}" else scope + r for r in reads]
            nodes.append(
                helper.make_node(
                    name.rsplit("/", 1)[-1].split("_")[0], inputs, [scope + name], scope + name
                )
            )
        before = scope + "Add_1"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [1, 16])],
        [value(before, TensorProto.FLOAT, [1, 16])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


started: list[float] = []
"""Seconds from the command to the first answer, of every server so far."""


@contextmanager
def serving(command: list[str], port: int, **environment: str) -> Iterator[int]:
    """A server until the end of the block; its process id. ``started`` tells how long it took to answer."""
    begin = time.time()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read(1)
                break
            except OSError:
                time.sleep(0.02)
        started.append(time.time() - begin)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


@contextmanager
def ours(model: Path) -> Iterator[tuple[str, int]]:
    """Our server with an empty workspace."""
    port, folder = free_port(), tempfile.mkdtemp()
    sizes = (
        ["--define", "batch=1"] if model.parent.name == "models" else []
    )  # the bundled one asks for it
    command = [
        sys.executable,
        "app.py",
        str(model),
        "--devices",
        "HETERO:GPU,CPU",
        *sizes,
        "--no-browser",
        "--no-token",
        "--port",
        str(port),
        "--workspace",
        folder,
    ]
    with serving(command, port) as pid:
        yield f"http://127.0.0.1:{port}/", pid
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def bare(model: Path) -> Iterator[tuple[str, int]]:
    """A page of Dash and dash-cytoscape alone."""
    port = free_port()
    with serving(
        [sys.executable, str(ROOT / "benchmarks" / "bare_page.py"), str(model), str(port)], port
    ) as pid:
        yield f"http://127.0.0.1:{port}/", pid


@contextmanager
def netron(python: str, model: Path) -> Iterator[tuple[str, int]]:
    """Netron's server."""
    port = free_port()
    start = f"netron.start({str(model)!r}, address=('127.0.0.1', {port}), browse=False)"
    with serving([python, "-c", f"import netron, time; {start}; time.sleep(1e6)"], port) as pid:
        yield f"http://127.0.0.1:{port}/", pid


@contextmanager
def explorer(python: str, model: Path) -> Iterator[tuple[str, int]]:
    """Model Explorer's server with its ONNX adapter."""
    port = free_port()
    command = [
        str(Path(python).parent / "model-explorer"),
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no_open_in_browser",
        "--extensions",
        "model_explorer_onnx",
        "--skip_health_check",
    ]
    with serving(command, port) as pid:
        data = json.dumps({"models": [{"url": str(model)}], "extensions": ["model_explorer_onnx"]})
        yield f"http://127.0.0.1:{port}/?data={urllib.parse.quote(data)}", pid


# What "on the screen" means in each tool: selectors, since Netron forbids eval, which waiting for a condition needs.
_WATCH = """new MutationObserver(() => {
    if (window.seenAt || !document.querySelector("#preview svg g[transform]")) return;
    window.seenAt = -1;
    requestAnimationFrame(() => requestAnimationFrame(() => { window.seenAt = performance.timeOrigin + performance.now(); }));
}).observe(document, { childList: true, subtree: true, attributes: true });"""
OURS_SHOWN = "window.heteroCy && window.heteroCy.nodes('[fill]').length > 0"
SHOWN = {"Netron": "body.default .graph-node", "Model Explorer": "webgl-renderer canvas"}


def open_seconds(browser: Browser, url: str, tool: str) -> tuple[float, float] | None:
    """Seconds from the navigation until the graph is seen, and until it is live; None when it does not come."""
    page = browser.new_context(bypass_csp=True, viewport={"width": 1600, "height": 900}).new_page()
    page.context.add_cookies(
        [{"name": "consent", "value": "1", "url": url}]
    )  # Netron asks for it before it reads anything
    try:
        if tool == "ours":
            page.add_init_script(_WATCH)
        start = time.time()
        page.goto(url, timeout=OPEN_LIMIT * 1000, wait_until="commit")
        if tool == "bare page":
            page.wait_for_selector("#graph canvas", timeout=OPEN_LIMIT * 1000, state="attached")
            page.evaluate(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            return time.time() - start, time.time() - start
        if tool != "ours":
            page.wait_for_selector(SHOWN[tool], timeout=OPEN_LIMIT * 1000, state="attached")
            return time.time() - start, time.time() - start
        page.wait_for_function(OURS_SHOWN, timeout=OPEN_LIMIT * 1000, polling=20)
        page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        live = time.time() - start
        seen = page.evaluate("window.seenAt > 0 ? window.seenAt / 1000 : null")
        return (live if seen is None else min(seen - start, live)), live
    except BrowserError:
        return None
    finally:
        page.context.close()


def compare_opening(
    browser: Browser, name: str, model: Path, peers: str, repeat: int, settle: float
) -> dict[str, str]:
    """Prints our seconds, and the peers' with their ratios to ours; returns figures by name.

    Args:
        settle: seconds between the start of a server and the navigation.
    """
    tools: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(model),
        "bare page": lambda: bare(model),
    }
    if peers:
        tools["Netron"] = lambda: netron(peers, model)
    if peers and (Path(peers).parent / "model-explorer").exists():
        tools["Model Explorer"] = lambda: explorer(peers, model)
    found: dict[str, list[tuple[float, float, float]]] = {tool: [] for tool in tools}
    for _ in range(repeat):
        for tool, start in list(tools.items()):
            with start() as (url, _):
                time.sleep(settle)
                seconds = open_seconds(browser, url, tool)
            if seconds is None:
                del tools[tool]
            else:
                found[tool].append((*seconds, started[-1] + seconds[0]))
    mine = found.pop("ours")
    seen, live, whole = (statistics.median(each[i] for each in mine) for i in (0, 1, 2))
    said = [
        f"ours seen {seen:5.2f} s, live {live:5.2f} s"
        + ("" if settle else f", from the command {whole:5.2f} s")
    ]
    row = {
        "model": name,
        "server": "idle" if settle else "just started",
        "seen": f"{seen:.2f} s",
        "live": f"{live:.2f} s",
        **dict.fromkeys(found, f"not within {OPEN_LIMIT} s"),
    }
    for tool, each in found.items():
        if not each:
            said.append(f"{tool} not within {OPEN_LIMIT} s")
            continue
        value, command = (statistics.median(one[i] for one in each) for i in (0, 2))
        row[tool] = f"{value:.2f} s ({value / live:.2f} of live)"
        said.append(
            f"{tool} {value:5.2f} s ({value / seen:5.2f} x seen, {value / live:5.2f} x live)"
            + ("" if settle else f", from the command {command:5.2f} s ({command / whole:5.2f} x)")
        )
    when = "at once" if not settle else "server idle"
    print(f"open {name:<26} {when:<12} {'   '.join(said)}", flush=True)
    return row


_FRAMES = """async ([seconds, move]) => {
    const cy = window.heteroCy, map = window.heteroMap;
    const moves = {
        pan: (i) => cy.panBy({ x: 6 * Math.sin(i / 9), y: i % 120 < 60 ? -9 : 9 }),
        zoom: (i) => cy.zoom({ level: cy.zoom() * (i % 60 < 30 ? 1.02 : 1 / 1.02), renderedPosition: { x: 400, y: 250 } }),
        mapPan: (i) => { map.top += (i % 120 < 60 ? 9 : -9) / map.zoom; map.draw(); },
        mapZoom: (i) => { map.zoom *= i % 80 < 40 ? 1.05 : 1 / 1.05; map.draw(); },
    };
    let frames = 0; const start = performance.now();
    await new Promise((done) => { const step = () => {
        moves[move](frames); frames += 1;
        if (performance.now() - start > seconds * 1000) done(); else requestAnimationFrame(step); };
        requestAnimationFrame(step); });
    return frames / ((performance.now() - start) / 1000);
}"""
_STROKE = """async (which) => {
    const cy = window.heteroCy, node = cy.nodes('node.op')[which];
    const pins = () => document.querySelector('[data-figure=pins]').dataset.value;
    const before = pins(), start = performance.now();
    node.emit('tap');
    await new Promise((done) => cy.one('render', done));
    const coloured = performance.now() - start;
    await new Promise((done) => { const look = () => (pins() !== before ? done() : setTimeout(look, 4)); look(); });
    return [coloured, performance.now() - start];
}"""
_EXPAND = """async () => {
    const cy = window.heteroCy, node = cy.nodes('node.group')[Math.floor(cy.nodes('node.group').length / 2)];
    if (!node) return null;
    const start = performance.now(), count = cy.nodes('node.op').length;
    node.emit('dbltap');
    const opened = () => cy.nodes('node.op').length > count && cy.nodes('node.op').length === cy.nodes('node.op[fill]').length;
    await new Promise((done) => { const look = () => (opened() ? done() : setTimeout(look, 4)); look(); });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - start;
}"""


def tree_bytes(pid: int) -> int:
    """Memory of a process and its children (proportional set size)."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            todo += [
                int(c)
                for t in Path(f"/proc/{one}/task").iterdir()
                for c in (t / "children").read_text().split()
            ]
            total += (
                int(
                    next(
                        line
                        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
                        if line.startswith("Pss:")
                    ).split()[1]
                )
                * 1024
            )
        except (OSError, StopIteration):
            continue
    return total


def chromium_seconds() -> float:
    """Processor time that the browser has taken so far, all of its processes together."""
    family = (p for p in psutil.Process().children(recursive=True) if "chrom" in p.name())
    return sum(sum(p.cpu_times()[:2]) for p in family)


def processor_times(page: Page, strokes: int = 12) -> tuple[float, float]:
    """Processor time of the browser for a stroke with all that follows, in seconds; and its share while nobody acts."""
    page.wait_for_timeout(5000)
    start = chromium_seconds()
    page.wait_for_timeout(5000)
    rest = (chromium_seconds() - start) / 5
    start = chromium_seconds()
    for i in range(strokes):
        page.evaluate(
            "(i) => { const { ops } = hetero.page.view; hetero.paint([ops[i % ops.length]], 1, true); }",
            3 * i,
        )
        page.wait_for_timeout(600)
    stroke = (chromium_seconds() - start) / strokes
    page.evaluate("() => { hetero.commandOf('reset').run(); }")
    page.wait_for_function("document.querySelector('[data-figure=pins]').dataset.value === '0'")
    return stroke, rest


def measure_page(browser: Browser, name: str, model: Path) -> dict[str, str]:
    """Frames, strokes, blocks, memory and processor time of our own page, by name."""
    with ours(model) as (url, pid):
        page = browser.new_context(
            bypass_csp=True, viewport={"width": 1600, "height": 900}
        ).new_page()
        page.goto(url)
        page.wait_for_function(OURS_SHOWN, timeout=OPEN_LIMIT * 1000)
        stroke, rest = processor_times(page)
        expand = [e for e in (page.evaluate(_EXPAND) for _ in range(3)) if e is not None]
        page.keyboard.press("2")
        strokes = [page.evaluate(_STROKE, 3 + i) for i in range(5)]
        page.keyboard.press("Escape")
        frames = {move: page.evaluate(_FRAMES, [2, move]) for move in ("pan", "zoom")}
        frames |= _map_frames(page)
        coloured, figures = (statistics.median(s[i] for s in strokes) for i in (0, 1))
        memory = tree_bytes(pid)
        opened = f"{statistics.median(expand):.0f} ms" if expand else "no blocks"
        print(
            f"page {name:<26} colour {coloured:4.0f} ms   figures {figures:4.0f} ms   expand {opened}   frames/s: "
            f"pan {frames['pan']:.0f} zoom {frames['zoom']:.0f} map pan {frames['mapPan']:.0f} "
            f"map zoom {frames['mapZoom']:.0f}   server {memory / 1e6:.0f} MB   "
            f"processor: a stroke {stroke:.2f} s, at rest {rest:.0%}",
            flush=True,
        )
        page.context.close()
        return {
            "model": name,
            "stroke to colour": f"{coloured:.0f} ms",
            "to all figures": f"{figures:.0f} ms",
            "open a block": opened,
            "frames/s: pan, zoom": f"{frames['pan']:.0f}, {frames['zoom']:.0f}",
            "map: pan, zoom": f"{frames['mapPan']:.0f}, {frames['mapZoom']:.0f}",
            "server memory": f"{memory / 1e6:.0f} MB",
            "processor: a stroke, at rest": f"{stroke:.2f} s, {rest:.0%}",
        }


def _map_frames(page: Page) -> dict[str, float]:
    page.keyboard.press("m")
    page.wait_for_function("window.heteroMap.ready", timeout=60_000)
    page.wait_for_timeout(300)
    found = {"mapPan": 0.0, "mapZoom": 0.0}
    page.evaluate("window.heteroMap.zoom *= 4; window.heteroMap.draw()")
    for move in found:
        found[move] = page.evaluate(_FRAMES, [2, move])
    return found


def asset_sizes(browser: Browser, model: Path) -> None:
    """Bytes of everything that the page loads, gzipped."""
    with ours(model) as (url, _):
        page = browser.new_context(bypass_csp=True).new_page()
        sizes: dict[str, int] = {}
        page.on(
            "response",
            lambda r: (
                sizes.update({r.url: len(gzip.compress(r.body(), 6))})
                if r.ok and ("/_bundle/" in r.url or "_dash-component-suites" in r.url)
                else None
            ),
        )
        page.goto(url)
        page.wait_for_function(OURS_SHOWN, timeout=OPEN_LIMIT * 1000)
        page.wait_for_timeout(1000)
        print(f"assets: {len(sizes)} files, {sum(sizes.values()) / 1e6:.2f} MB gzipped")
        page.context.close()


def main() -> None:
    """Prints one line per model and kind of figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, nargs="*", default=[3_000, 10_000, 50_000])
    parser.add_argument("--peers", default="", help="a Python with netron and model explorer")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    compileall.compile_dir(
        ROOT / "editor", quiet=1
    )  # as after a first start; the others are installed with theirs
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    chromium = next(p for n in names if (p := shutil.which(n)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        models = {"ResNet-50": ROOT / "examples" / "models" / "resnet50.onnx"}
        models |= {
            f"transformer, {n:,} ops": transformer(Path(folder) / f"transformer{n}.onnx", n)
            for n in options.ops
        }
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        rows = [
            compare_opening(browser, name, model, options.peers, options.repeat, settle)
            for name, model in models.items()
            for settle in (0.0, 5.0)
        ]
        record("ui_opening", rows)
        record("ui_edits", [measure_page(browser, name, model) for name, model in models.items()])
        asset_sizes(browser, models["ResNet-50"])
        browser.close()


if __name__ == "__main__":
    main()
