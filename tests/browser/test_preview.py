"""The picture that comes before the page's scripts, and the shelf that these come from."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import onnx
import pytest
from conftest import write_dag
from onnx import TensorProto, helper
from pages import EXAMPLES, Serve, Server, Show, hold, ready, says, until
from playwright.sync_api import BrowserContext, Page, expect

_PICTURE = """() => [...document.querySelectorAll('#preview rect')].map((r) => {
    const box = r.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2, getComputedStyle(r).fill];
})"""
_LIVE = """() => heteroCy.nodes().map((n) => {
    const p = n.renderedPosition(), box = heteroCy.container().getBoundingClientRect();
    return [p.x + box.left, p.y + box.top, n.style('background-color').replace(/,/g, ', ').replace(/ +/g, ' ')];
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_what_the_live_graph_shows(
    browser: BrowserContext, server: Server, scheme: str
) -> None:
    """Same nodes, places and colours, seen while the scripts have not even arrived."""
    first, page = browser.new_page(), browser.new_page()
    for each in (first, page):
        each.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    first.goto(server.url)
    ready(first)
    let_go = hold(page, "**/*dash_renderer*")
    page.goto(first.url, wait_until="commit")
    page.wait_for_selector("#preview g[transform] rect")
    picture = page.evaluate(_PICTURE)
    words = page.locator("#preview text").all_text_contents()
    assert (
        len(picture) > 100
        and "Conv" in words
        and "mobilenetv2.onnx" in page.locator("#preview header").inner_text()
    )
    let_go()
    until(page, "!document.getElementById('preview')", timeout=30_000)
    live = page.evaluate(_LIVE)
    assert len(live) == len(picture)
    same = 0
    for (x, y, fill), (x2, y2, fill2) in zip(picture, live, strict=True):
        assert abs(x - x2) < 4 and abs(y - y2) < 4
        same += fill.replace(" ", "") == fill2.replace(" ", "")
    assert same >= len(live) - 2, "all but the model's input and output, which are grey"
    drawn = page.evaluate("heteroCy.nodes('.op').map((n) => n.data('label'))")
    assert {line for label in drawn for line in label.split("\n")} <= set(words)


def test_a_model_that_is_still_being_read_is_pictured_when_it_is_there(
    browser: BrowserContext, tmp_path: Path, serve: Serve
) -> None:
    model = write_dag(tmp_path / "long.onnx", [[i - 1] if i else [] for i in range(300)])
    made = serve(str(model), "--devices", "HETERO:GPU,CPU")
    page = browser.new_page()
    let_go = hold(page, "**/*dash_renderer*")
    page.goto(made.url, wait_until="commit")
    page.wait_for_selector("#preview g[transform] rect", timeout=30_000)
    let_go()
    ready(page)
    expect(page.locator("#preview")).to_have_count(0)


def test_names_are_text_in_the_picture(browser: BrowserContext, tmp_path: Path, show: Show) -> None:
    evil = "<img src=x onerror=alert(1)><img src=x>"  # names of tensors are cut at their beginning
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", [evil], ["y"], evil)],
        evil,
        [value(evil, TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
    )
    path = tmp_path / "evil&amp;.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    address = show(str(path), "HETERO:CPU")
    page = browser.new_page()
    alerts: list[str] = []
    page.on("dialog", lambda d: alerts.append(d.message))
    page.goto(address)
    ready(page)
    html = urllib.request.urlopen(page.url).read().decode()
    assert "&lt;img src=x&gt;" in html and "<img" not in html and "evil&amp;amp;.onnx" in html
    assert not alerts


def test_the_start_page_has_no_picture(page: Page, server: Server) -> None:
    page.goto(server.url + "/open")
    page.get_by_role("heading", name="Examples").wait_for()
    assert page.locator("#preview").count() == 0


def test_bends_lead_edges_around_nodes(page: Page, show: Show) -> None:
    """A long edge beside a chain runs clear of the chain's nodes."""
    address = show(str(EXAMPLES / "models" / "resnet50.onnx"), "HETERO:GPU,CPU", batch=1)
    page.goto(address)
    ready(page)
    page.select_option("#detail-mode", label="Every op")
    until(page, "heteroCy.nodes('.group').length === 0 && heteroCy.nodes('.op').length > 100")
    under = page.evaluate("""() => {
        const boxes = heteroCy.nodes().map((n) => n.boundingBox({ includeLabels: false }));
        return heteroCy.edges('.bent').map((e) => e.segmentPoints() || []).flat().filter((p) =>
            boxes.some((b) => p.x > b.x1 && p.x < b.x2 && p.y > b.y1 && p.y < b.y2)).length;
    }""")
    assert page.evaluate("heteroCy.edges('.bent').length") > 0
    assert under == 0


def test_static_files_are_compressed_once_and_stay_the_same(page: Page, server: Server) -> None:
    page.goto(server.url)
    ready(page)
    html = urllib.request.urlopen(server.url).read().decode()
    script = next(s for s in re.findall(r'src="([^"]+)"', html) if "dash_ag_grid" in s)

    def get(**headers: str) -> tuple[bytes, str | None]:
        answer = urllib.request.urlopen(
            urllib.request.Request(server.url + script, headers=headers)
        )
        return answer.read(), answer.headers.get("content-encoding")

    packed = {get(**{"Accept-Encoding": "gzip"}) for _ in range(3)}
    plain = {get() for _ in range(2)}
    assert len(packed) == len(plain) == 1
    ((small, encoding),), ((large, none),) = packed, plain
    assert encoding == "gzip" and none is None and len(small) * 3 < len(large)


def test_the_page_is_asked_for_once_while_its_scripts_are_read(page: Page, server: Server) -> None:
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url.removeprefix(server.url)))
    page.goto(server.url)
    ready(page)
    pages, scripts = (
        [i for i, a in enumerate(asked) if re.match(name, a)]
        for name in (r"/_page\?", r"/_bundle/\w+\.js")
    )
    assert [asked[i] for i in pages] == ["/_page?path=%2F"] and pages < scripts


def test_a_page_that_cannot_be_made_is_said(browser: BrowserContext, server: Server) -> None:
    page = browser.new_page()
    page.route(re.compile(r"/_page\?"), lambda route: route.fulfill(status=500))
    page.goto(server.url)
    says(page.locator("#page .empty"), "The server could not make this page (500)")
    page.unroute(re.compile(r"/_page\?"))
    page.route(re.compile(r"/_page\?"), lambda route: route.abort())
    page.goto(server.url)
    says(page.locator("#page .empty"), "The server does not answer")
