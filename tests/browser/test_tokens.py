"""The page measures tokens of models with a cache, and offers that for these only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from decoders import fused_decoder, plain_decoder
from pages import Server, act, fold_out, ready, says, until, wait_for_figure
from playwright.sync_api import Page, expect

import editor
from editor.devices.table import load_devices
from editor.graph.proposed_sizes import proposed_sizes
from editor.graph.states import prompt_of_step
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.placement import Settings
from editor.web.app_state import AppState
from editor.web.drawing.elements import elements, split
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def fill_lengths(page: Page, prompt: int, new: int) -> None:
    """Writes the lengths of an answer in the tab Phases."""
    page.fill("#phases-prompt-length", str(prompt))
    page.fill("#phases-new-length", str(new))


def test_the_benchmark_has_a_mode_for_tokens(page: Page, server: Server, tmp_path: Path) -> None:
    path = plain_decoder(tmp_path / "decoder.onnx")
    entries = [dict(d.entry) for d in load_devices("HETERO:CPU,OpenVINO.CPU")]
    sizes = proposed_sizes(editor.load_model(path))
    graph = editor.load_model(path, sizes)
    record = Store(str(server.workspace)).create(
        path.name,
        str(path),
        graph.sha256,
        graph.define,
        first_decisions(Settings(pins={"logits": "OpenVINO.CPU"}), entries),
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    page.set_viewport_size({"width": 1101, "height": 720})
    header = page.locator(".model-what")
    for text in (re.compile(r"^\d+ ops$"), re.compile("of constants$")):
        shown = header.get_by_text(text)
        assert shown.evaluate("(e) => e.scrollWidth <= e.getBoundingClientRect().width")
    assert page.locator("#sizes-open").evaluate("(e) => e.scrollWidth > e.clientWidth"), "cut"
    assert all(name in str(page.locator("#sizes-open").get_attribute("title")) for name in sizes)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.click("role=tab[name=Benchmark]")
    expect(page.locator("#bench-prompt")).to_be_visible()
    expect(page.locator("#bench-mode")).to_have_value("tokens")
    memory = page.get_by_label("Measure memory")  # a run of tokens does not
    expect(memory).to_be_hidden()
    page.select_option("#bench-mode", "latency")
    expect(memory).to_be_visible()
    for length in ("#bench-prompt", "#bench-new"):
        expect(page.locator(length)).to_be_hidden()
    page.select_option("#bench-mode", "tokens")
    expect(memory).to_be_hidden()
    expect(page.locator("#bench-prompt")).to_be_visible()
    expect(page.locator("#bench-progress")).to_be_hidden()
    five_digits = (
        "(e) => { const pen = document.createElement('canvas').getContext('2d'); pen.font = getComputedStyle(e).font; "
        "return pen.measureText('00000').width; }"
    )
    prompt = page.locator("#bench-prompt")  # beside the margins of the field and its arrows
    assert prompt.evaluate("(e) => e.clientWidth") >= prompt.evaluate(five_digits) + 16 + 18
    page.fill("#bench-prompt", "12")
    page.fill("#bench-new", "9")
    page.click("#bench-start")
    result = page.locator("#bench-result")
    expect(result.get_by_text("Prompt of 12 tokens, 9 new")).to_be_visible(timeout=60_000)
    expect(result.get_by_role("cell", name="The plan")).to_be_visible()
    expect(result.get_by_role("cell", name="Unsplit on OpenVINO.CPU", exact=True)).to_be_visible()
    expect(result.get_by_text("within tolerance")).to_be_visible()
    says(page.locator("#bench-text"), "tokens/s")
    for _ in range(2):  # the measurement of this plan is its headline, also after a reload
        headline = page.locator("#verdict .headline")
        expect(headline.get_by_text(re.compile(r"[\d.]+ [µm]?s a token"))).to_be_visible()
        expect(headline.get_by_text("measurement", exact=True)).to_be_visible()
        expect(headline.get_by_text("after 12 to 19 tokens", exact=True)).to_be_visible()
        expect(headline.get_by_text(re.compile("estimated .* after 127 tokens"))).to_be_visible()
        expect(page.locator("#verdict .sentence")).to_contain_text(re.compile(r"\d tokens/s; "))
        page.reload()
        ready(page)
    page.click("role=tab[name=Benchmark]")
    expect(page.locator("#bench-mode")).to_have_value("tokens")
    row = page.locator("#runs-table tbody tr").first
    expect(row.get_by_text("this plan")).to_be_visible()
    expect(row.get_by_text("tokens/s")).to_be_visible()
    page.click("role=tab[name=Phases]")  # is asked for the lengths that were measured last
    expect(page.locator("#phases-prompt-length")).to_have_value("12")
    expect(page.locator("#phases-new-length")).to_have_value("9")


def test_other_models_have_no_such_mode(opened: Page) -> None:
    page = opened
    page.click("role=tab[name=Benchmark]")
    expect(page.locator("#bench-mode")).to_be_visible()
    expect(page.locator("#bench-prompt")).to_be_hidden()
    assert "Tokens" not in page.locator("#bench-mode").inner_text()
    page.keyboard.press("Control+k")
    page.locator(".palette-field").fill("prefill")
    expect(page.locator("#palette-list").get_by_text("prefill")).to_be_visible()  # its search
    expect(page.locator("#palette-list").get_by_text("Place both phases")).to_have_count(0)
    expect(page.get_by_role("tab", name="Phases")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export").click()
    fold_out(page, "Other formats")
    expect(page.get_by_role("menuitem", name="onnxruntime-genai")).to_be_disabled()
    expect(page.get_by_role("menuitem", name="ONNX Runtime").first).to_be_enabled()


def planned_decoder(
    server: Server,
    tmp_path: Path,
    memory: str,
    policy: str = "priority",
    card: Mapping[str, object] | None = None,
    host: Mapping[str, object] | None = None,
) -> str:
    """The id of a document: a small decoder on a card of so much memory and the CPU, with more keys of their entries."""
    path = plain_decoder(tmp_path / "decoder.onnx")
    entries: list[dict[str, object]] = [
        {"name": "Card", "backendName": "CUDA", "peakCompute": 1e13, "memory": memory}
        | dict(card or {}),
        {"name": "CPU", "backendName": "CPU"} | dict(host or {}),
    ]
    graph = editor.load_model(path, proposed_sizes(editor.load_model(path)))
    decisions = first_decisions(Settings(policy=policy), entries)
    store = Store(str(server.workspace))
    return store.create(path.name, str(path), graph.sha256, graph.define, decisions).id


def test_prompt_and_tokens_are_placed_and_opened(
    page: Page, server: Server, tmp_path: Path
) -> None:
    document = planned_decoder(server, tmp_path, "8MB")
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    states = page.evaluate("() => heteroCy.nodes('.state').map((n) => n.style('border-style'))")
    assert states == ["dashed"] * 8
    expect(page.locator("#lines").get_by_text("kept for the next step")).to_be_visible()
    at = page.evaluate(
        "() => { const n = heteroCy.nodes('.state')[0]; heteroCy.center(n); const p = n.renderedPosition(), "
        "b = document.querySelector('#graph').getBoundingClientRect(); return [b.x + p.x, b.y + p.y]; }"
    )
    page.mouse.click(*at)
    expect(page.locator("#inspector").get_by_text("made it as present.0.")).to_be_visible()
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 64, 8)
    page.keyboard.press("Control+k")
    page.locator(".palette-field").fill("prefill")
    says(page.locator("#palette-list li span").first, "Place both phases")
    page.keyboard.press("Enter")
    table = page.locator("#phases-table")
    expect(table).to_be_visible(timeout=30_000)
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.locator("thead td")).to_have_count(0)  # the line below the heads had a gap
    same = table.get_by_text("the same: ")  # for the others
    expect(same).to_be_visible()
    assert same.evaluate("(e) => e.getBoundingClientRect().width") <= 300, "beside all figures"
    answer = table.get_by_role("columnheader", name="Answer of 8 tokens")
    expect(answer).to_be_visible()
    expect(answer).to_have_attribute("title", re.compile("^The first token and 7 times a token"))
    expect(table.get_by_text("of a prompt of 64")).to_be_visible()
    expect(table.get_by_text("at 64 to 70 tokens of context")).to_be_visible()
    expect(page.get_by_role("cell", name="Prompt of 64, each token")).to_be_visible()
    expect(table.get_by_role("columnheader", name="Peak memory")).to_be_visible()
    expect(table.get_by_text(re.compile(r"^[\d.]+\s[kM]B\son\sCard$"))).to_be_visible()
    fill_lengths(page, 4096, 8)
    page.click("#phases-start")
    within = page.locator("#phases-result").get_by_text("Placed within memory, as by Priority it")
    expect(within).to_be_visible(timeout=30_000)
    page.fill("#phases-new-length", "")
    page.click("#phases-start")
    said = "write whole numbers from 1 to"
    expect(page.locator("#phases-result").get_by_text(said)).to_be_visible()
    fill_lengths(page, 64, 8)
    page.click("#phases-prompt")
    page.wait_for_url(lambda url: document not in url)
    ready(page)
    says(page.locator("#sizes-open"), "64 tokens at once")
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 64, 8)
    page.click("#phases-token")
    says(page.locator("#sizes-open"), "1 token after 70", timeout=30_000)
    page.click("role=tab[name=Memory]")
    card = page.locator(".memory-device", has_text="Card")
    expect(card.get_by_text("As the context grows")).to_be_visible()
    expect(card.get_by_text("full at about")).to_be_visible()
    growth = card.locator(".memory-chart.growth")
    expect(growth).to_be_visible()
    bars = growth.locator("[data-reading]")
    limit = growth.locator(".memory-limit").bounding_box()
    assert limit
    tops = bars.evaluate_all(
        "(all) => all.map((e) => [e.className === 'over', e.firstElementChild.getBoundingClientRect().top])"
    )
    for (
        is_over,
        top,
    ) in tops:  # it is full where the bars with what its runtime adds cross the limit
        assert is_over == (top < limit["y"]) or abs(top - limit["y"]) < 3
    assert any(is_over for is_over, _ in tops)
    said = "(e) => getComputedStyle(e, '::after').content"
    for column, words in ((1, "of 8 MB: fits"), (-2, "MB too much")):
        at = growth.locator("[data-reading]").nth(column)
        assert at.evaluate(said) == "none"
        at.hover(position={"x": 2, "y": 2}, force=True)  # above the bar, and below what is said
        assert re.search(
            rf"[\d,]+ tokens of context: Card needs [\d.]+ [kM]B .* {words}", at.evaluate(said)
        )
    page.click("role=tab[name=Transfers]")
    expect(page.get_by_text("This plan has none.").first).to_be_visible()


def test_a_way_to_place_both_phases_is_made_the_plan(
    page: Page, server: Server, tmp_path: Path
) -> None:
    card = {"peakDramBw": 1e9, "link": {"bandwidth": 1e9, "latency": 1e-6}}
    host = {"peakCompute": 1e9, "peakDramBw": 1e11}  # each is good at another phase
    document = planned_decoder(server, tmp_path, "8GB", "optimal", card, host)
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 2048, 64)
    page.click("#phases-start")
    table = page.locator("#phases-table")
    row = table.locator("tbody tr", has_text="one placement, best for the prompt")
    use = row.get_by_role("button", name="Use")
    expect(use).to_be_visible(timeout=30_000)
    result = page.locator("#phases-result")
    expect(result.get_by_text("The present plan is that of the tokens.")).to_be_visible()
    command = result.locator("code")
    says(
        command,
        f"partition {tmp_path / 'decoder.onnx'} --like plan.json --phases prompt=2048,new=64",
    )
    expect(result.get_by_role("button", name="Copy")).to_have_attribute(
        "data-copy", command.inner_text()
    )
    with page.expect_download() as saved:
        result.get_by_role("button", name="Save plan.json of both").click()
    kept = editor.load_plan(saved.value.path())
    assert kept.prompt is not None
    assert prompt_of_step(kept.prompt.graph) == 2048
    outdated = result.get_by_text("The plan has changed since")
    expect(outdated).to_be_hidden()
    own = table.locator("tbody tr", has_text="a placement for each phase")
    own.get_by_role("button", name="Use").click()
    expect(own.get_by_text("in use")).to_be_visible()
    expect(result.get_by_text("“Open the prompt” opens the other one")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
        page.get_by_role("menuitem", name="Plan, JSON").click()
    assert editor.load_plan(saved.value.path()).prompt is not None
    says(page.locator("#notice"), "It has both placements that Phases found")
    use.click()
    present = result.get_by_text("The present plan is “one placement, best for the prompt”.")
    expect(present).to_be_visible()
    expect(outdated).to_be_hidden()
    says(page.locator("#history"), "one placement, best for the prompt: the tokens")
    page.click("#undo")
    expect(result.get_by_text("The present plan is that of the tokens.")).to_be_visible()
    page.get_by_role("button", name="Redo").click()
    expect(present).to_be_visible()
    expect(outdated).to_be_hidden()
    page.click("#phases-start")
    same = result.get_by_text("One placement for both phases is best. It is the present plan.")
    expect(same).to_be_visible(timeout=30_000)  # by the pins
    expect(outdated).to_be_hidden()


def test_phases_have_a_tab_that_shows_form_and_result_and_profiles_their_sizes(
    page: Page, server: Server, tmp_path: Path
) -> None:
    # Weights of its own: profiles are kept by model, and other tests are of estimates.
    path = plain_decoder(tmp_path / "decoder.onnx", seed=9)
    sizes = proposed_sizes(editor.load_model(path))
    graph = editor.load_model(path, sizes)
    cpu: dict[str, object] = {"name": "CPU", "backendName": "CPU"}
    decisions = first_decisions(Settings(), [cpu])
    seconds = dict.fromkeys(graph.op_keys, 1e-5)
    figures = DeviceProfile("CPU", 1e-3, seconds, {}, (), 0, 0, 0, 0, 0, 1)
    save_profile(graph, load_devices([cpu])[0], figures)
    record = Store(str(server.workspace)).create(
        path.name, str(path), graph.sha256, graph.define, decisions
    )
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    strip = [page.get_by_role("tab").nth(n).inner_text() for n in (3, 4, 5)]
    assert strip == ["Memory", "Phases", "Benchmark"]
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 6, 2)
    page.click("#phases-start")
    result = page.locator("#phases-result")
    expect(result.get_by_text("no profile of a prompt of 6 or a token after 6")).to_be_visible(
        timeout=30_000
    )
    tops = [page.locator(f"#phases-{name}").bounding_box() for name in ("start", "token")]
    assert tops[0] and tops[1] and tops[0]["y"] == tops[1]["y"], "in one line"
    expect(page.locator("#phases-start")).to_be_in_viewport(ratio=1)
    expect(page.locator("#phases-table tbody tr").first).to_be_in_viewport(ratio=1)
    result.get_by_role("button", name="Profile these sizes").click()
    expect(page.locator("#phases-table").get_by_text("prediction")).to_be_visible(timeout=120_000)
    expect(result.get_by_text("no profile of")).to_have_count(0)


@pytest.mark.parametrize("width", [800, 920, 1024])
def test_the_tabs_of_a_language_model_fit_beside_the_panels_to_show(
    page: Page, server: Server, tmp_path: Path, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 720})
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '8MB')}")
    ready(page)
    last = page.get_by_role("tab", name="Compare")
    expect(last).to_be_in_viewport(ratio=1)
    last.click()  # nothing covers it
    expect(page.get_by_role("tabpanel", name="Compare")).to_be_visible()


def test_a_placement_that_does_not_fit_names_the_memory(
    page: Page, server: Server, tmp_path: Path
) -> None:
    document = planned_decoder(server, tmp_path, "5MB", "memory")
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 2048, 64)
    page.click("#phases-start")
    table = page.locator("#phases-table")
    says(table, "Does not fit: Card has 5 MB and needs", timeout=60_000)
    expect(table.get_by_text("held by pins")).to_have_count(0)


def test_dashed_edges_lead_to_the_next_step(page: Page, server: Server, tmp_path: Path) -> None:
    path = plain_decoder(tmp_path / "decoder.onnx")
    graph = editor.load_model(path, proposed_sizes(editor.load_model(path)))
    table = [dict(d.entry) for d in load_devices("HETERO:CPU")]
    record = Store(str(server.workspace)).create(
        path.name, str(path), graph.sha256, graph.define, first_decisions(Settings(), table)
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    looks = page.evaluate(
        "() => heteroCy.edges('.state').map((e) => [e.style('line-style'), e.style('visibility')])"
    )
    assert looks == [["dashed", "visible"]] * 4
    drawn = page.evaluate("() => heteroCy.nodes().map((n) => [n.id(), n.position()])")
    nodes = split(elements(graph))[0]
    assert {name: (at["x"], at["y"]) for name, at in drawn} == {
        node["data"]["id"]: (node["position"]["x"], node["position"]["y"]) for node in nodes
    }
    where = (
        "() => { const e = heteroCy.edges('.state').last(); heteroCy.zoom(1); heteroCy.center(e); "
        "const p = e.renderedMidpoint(), b = document.querySelector('#graph').getBoundingClientRect(); "
        "return [b.x + p.x, b.y + p.y]; }"
    )
    page.mouse.move(*page.evaluate(where))
    hover = page.locator("#hover")
    says(hover, "The next step reads it as past_key_values.1.value")
    expect(hover.get_by_text("present.1.value")).to_be_visible()
    page.select_option("#detail-mode", "blocks")
    until(
        page, "() => heteroCy.edges('.state').length > 0 && heteroCy.nodes('.several').length === 2"
    )
    assert page.evaluate(
        "() => heteroCy.edges('.state').every((e) => e.isLoop() && e.visible() && e.controlPoints().length)"
    )


def test_a_plan_that_fits_says_the_context_at_which_it_no_longer_does(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '1MB')}")
    ready(page)
    verdict = page.locator("#verdict")
    remark = verdict.get_by_role("button", name="fits up to about 331 tokens", exact=True)
    expect(remark).to_be_visible()
    expect(remark).to_have_attribute(
        "title", re.compile("Card keeps 4 states: .* full at about 331 tokens")
    )
    remark.click()
    expect(page.get_by_label("past_sequence_length")).to_be_visible()
    page.keyboard.press("Escape")

    page.select_option("#policy", "memory")
    expect(remark).to_have_count(0)
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '5MB')}")
    ready(page)
    says(verdict, "a token")
    expect(verdict.get_by_text("of context")).to_have_count(0)


def test_a_model_that_does_not_fit_is_split_with_one_click_and_its_phases_are_near(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '400kB')}")
    ready(page)
    verdict = page.locator("#verdict")
    says(verdict, "Does not fit: Card needs")
    verdict.get_by_role("button", name="Split within memory").click()
    expect(verdict.get_by_text("Does not fit")).to_have_count(0, timeout=30_000)
    expect(page.locator("#policy")).to_have_value("memory")
    page.click("#sizes-open")
    page.get_by_role("button", name="A placement each for prompt and tokens").click()
    expect(page.locator(".popover-panel").filter(visible=True)).to_have_count(0)
    expect(page.locator("#phases-table")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("tab", name="Phases")).to_have_attribute("aria-selected", "true")


def test_a_prompt_that_does_not_fit_offers_one_that_does(
    page: Page, server: Server, tmp_path: Path
) -> None:
    """The refusal named its length, which had to be written by hand; and Memory knew nothing of prompts."""
    document = planned_decoder(server, tmp_path, "900kB", policy="memory", host={"memory": "1MB"})
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.click("role=tab[name=Memory]")
    page.get_by_role("button", name="how long may it be?").click()
    expect(
        page.locator("#memory").get_by_text(re.compile(r"^up to about \d+ tokens? fit"))
    ).to_be_visible(timeout=60_000)
    page.click("role=tab[name=Phases]")
    fill_lengths(page, 3000, 8)
    page.click("#phases-start")
    offer = page.get_by_role("button", name=re.compile(r"^Place a prompt of \d+$"))
    expect(offer).to_be_visible(timeout=60_000)
    tokens = offer.inner_text().rpartition(" ")[2]
    offer.click()
    expect(page.locator("#phases-table").get_by_text(f"of a prompt of {tokens}")).to_be_visible(
        timeout=60_000
    )
    page.click("#phases-prompt")
    expect(page.locator("#notice").get_by_text("Placed as in Phases: ")).to_be_visible(
        timeout=60_000
    )
    expect(page.get_by_role("link", name="Back to 1 token after 127")).to_be_visible()
    expect(page.locator("#phases-prompt-length")).to_have_value(tokens)


def test_sizes_that_were_refused_can_be_chosen_anew(
    page: Page, server: Server, tmp_path: Path
) -> None:
    """The form was closed and opened, and its button did nothing then."""
    document = planned_decoder(server, tmp_path, "400kB", policy="memory", host={"memory": "1MB"})
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.locator("#verdict").get_by_role("button", name="fits up to").click()
    past = page.get_by_role("spinbutton", name="past_sequence_length")
    expect(past).to_be_focused()
    past.fill("1000000000000000000")
    page.click("#sizes-apply")
    says(page.locator("#sizes-refused"), "must be a whole number", timeout=60_000)
    page.wait_for_timeout(300)
    expect(page.locator("#notice .note")).to_have_count(0)  # it is told once
    page.keyboard.press("Escape")
    expect(past).to_be_hidden()
    page.click("#sizes-open")
    expect(past).to_have_value("1000000000000000000")
    past.fill("5")
    page.click("#sizes-apply")
    says(page.locator("#sizes-open"), "1 token after 5", timeout=60_000)


def test_sizes_that_are_refused_while_their_form_is_closed_are_told_over_the_graph(
    page: Page, server: Server, tmp_path: Path
) -> None:
    document = planned_decoder(server, tmp_path, "400kB", policy="memory", host={"memory": "1MB"})
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.click("#sizes-open")
    past = page.get_by_role("spinbutton", name="past_sequence_length")
    past.fill("1000000000000000000")
    past.press("Escape")
    expect(past).to_be_hidden()
    act(page, "hetero.set('sizes-apply', { n_clicks: 1 })")
    says(page.locator("#notice .note.bad"), "must be a whole number", timeout=60_000)


def test_a_slider_chooses_the_context_that_is_planned_for(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '8MB')}")
    ready(page)
    page.click("role=tab[name=Memory]")
    page.set_viewport_size({"width": 1280, "height": 720})
    expect(page.locator(".memory-device").nth(1).get_by_label("Memory of CPU")).to_be_in_viewport()
    slider = page.get_by_role("slider", name="Tokens of context")
    plan = page.get_by_role("button", name="Plan for it")
    expect(slider).to_be_visible()
    expect(plan).to_be_disabled()
    says(page.locator(".context-plan"), "127 tokens fit")
    slider.focus()
    page.keyboard.press("End")
    said = page.locator(".context-plan").get_by_role("status")
    exactly = page.get_by_role("spinbutton", name="Tokens of context, exactly")
    expect(exactly).to_have_value("131072")
    exactly.fill("300")
    says(said, "300 tokens fit")  # the slider has no such step
    chosen = page.locator(".memory-device .memory-at").first
    at = float(chosen.evaluate("(e) => e.style.left.replace('%', '')"))
    end = int(page.locator("[data-end]").first.get_attribute("data-end") or 0)
    assert abs(at - 100 * 300 / end) < 0.1
    for wrong in ("-1", ""):
        exactly.fill(wrong)
        expect(plan).to_be_disabled()
    assert chosen.evaluate("(e) => e.style.left") == f"{at}%", "where it was"
    scale = page.locator(".context-plan .scale")
    expect(scale).to_be_visible()
    expect(scale).to_have_text(re.compile(r"^127fits to [\d,]+131,072$"))
    slider.focus()
    page.keyboard.press("End")
    expect(said).to_have_text(
        re.compile(r"131,072 tokens do not fit: Card needs [\d.]+ MB of 8 MB \(estimate\). ")
    )
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    says(said, "128 tokens")
    plan.click()
    says(page.locator("#sizes-open"), "1 token after 128", timeout=60_000)
    expect(page.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    slider.focus()
    page.keyboard.press("ArrowRight")
    says(said, "160 tokens")
    page.get_by_role("button", name="place both phases").click()
    expect(page.locator("#phases-table").get_by_text("of a prompt of 160")).to_be_visible(
        timeout=30_000
    )


def test_the_longest_context_is_found_by_a_button(
    page: Page, server: Server, tmp_path: Path
) -> None:
    document = planned_decoder(server, tmp_path, "3MB", host={"memory": "3MB"})
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.click("role=tab[name=Memory]")
    page.get_by_role("button", name="Longest", exact=True).click()
    told = page.locator("#notice").get_by_text("The longest context found: ")
    expect(told).to_be_visible(timeout=60_000)
    assert not page.url.endswith(document)
    expect(page.get_by_role("combobox", name="Policy")).to_have_value("memory")
    expect(page.locator("#verdict").get_by_text("fits up to about ")).to_be_visible()
    expect(
        page.locator("#verdict").get_by_text(re.compile("a prompt of .* at once"))
    ).to_be_visible()
    back = "Back to 1 token after 127"
    expect(page.locator("#notice").get_by_role("link", name=back)).to_be_visible()
    longest = page.url
    expect(page.locator("#undo")).to_have_attribute("title", f"{back} (Ctrl+Z)")
    page.evaluate("hetero.paint([hetero.page.view.ops.at(-1)], 0)")
    wait_for_figure(page, "pins", 1)
    expect(page.locator("#undo")).to_have_attribute("title", "Undo (Ctrl+Z)")
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 0)
    assert page.url == longest, "what was done here is undone first"
    page.keyboard.press("Control+z")
    page.wait_for_url(f"**/d/{document}")
    says(page.locator("#sizes-open"), "1 token after 127")
    expect(page.locator("#undo")).to_be_disabled()  # here it came from nowhere
    ready(page)
    page.keyboard.press("Control+y")
    page.wait_for_url(longest)
    expect(page.locator("#undo")).to_have_attribute("title", f"{back} (Ctrl+Z)")


def test_sizes_that_fit_nowhere_open_in_red(page: Page, server: Server, tmp_path: Path) -> None:
    document = planned_decoder(server, tmp_path, "400kB", policy="memory", host={"memory": "1MB"})
    page.goto(f"{server.url}/d/{document}")
    ready(page)
    page.locator("#verdict").get_by_role("button", name="fits up to").click()
    page.get_by_role("spinbutton", name="past_sequence_length").fill("90000")
    page.click("#sizes-apply")
    says(page.locator("#sizes-open"), "1 token after 90,000", timeout=60_000)
    expect(page.locator("#notice").get_by_text("No plan fits within memory")).to_be_visible()
    expect(page.locator("#verdict").get_by_text("Does not fit: ")).to_be_visible()
    expect(page.locator("#history").get_by_text("no plan fits within memory")).to_be_visible()


def test_other_sizes_open_with_the_tab_and_lengths_that_reach_as_far(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.goto(f"{server.url}/d/{planned_decoder(server, tmp_path, '8MB')}")
    ready(page)
    page.click("role=tab[name=Memory]")
    page.click("#sizes-open")
    expect(page.get_by_text("Total tokens are past and new ones together.")).to_have_count(0)
    page.get_by_role("spinbutton", name="past_sequence_length").fill("700")
    page.click("#sizes-apply")
    says(page.locator("#sizes-open"), "1 token after 700", timeout=30_000)
    expect(page.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    page.click("role=tab[name=Phases]")
    expect(page.locator("#phases-prompt-length")).to_have_value("700")


def test_a_run_of_another_context_beyond_the_memory_says_both_in_the_headline(
    page: Page, server: Server, server_state: AppState, tmp_path: Path
) -> None:
    path = plain_decoder(tmp_path / "decoder.onnx")
    limited = [{"name": "A", "backendName": "CPU", "memory": "1MB"}]
    limited.append({"name": "B", "backendName": "CPU", "memory": "400kB"})
    sizes = proposed_sizes(editor.load_model(path))
    document = server_state.create(server_state.load(path, sizes), limited, Settings())
    ops = document.placement.placed_ops
    document.pin(ops[-2:].tolist(), "B")
    figures = {"mode": "tokens", "median": 0.016, "interval": [0.0155, 0.0165], "p99": 0.02}
    figures |= {"throughput": 62.5, "requests": 1, "first_token": 0.3, "prompt": 2000, "new": 32}
    figures |= {"estimated": False, "baselines": {"B": 0.0161}}
    figures["unsplit"] = {"device": "B", "figure": 0.0161, "words": "no significant difference"}
    document.keep_run(figures, "", document.placement)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{server.url}/d/{document.id}")
    ready(page)
    for tab in ("", "Benchmark"):  # the tables leave the headline less room
        if tab:
            page.click(f"role=tab[name={tab}]")
        headline = page.locator("#verdict .headline")
        for words in ("after 2,000 to 2,030 tokens", "beyond the memory of A"):
            expect(headline.get_by_text(words, exact=True)).to_be_visible()
        expect(headline.get_by_text(re.compile("^estimated .* after 127 tokens$"))).to_be_visible()
        sentence = page.locator("#verdict .sentence").first
        expect(sentence).to_contain_text("all of it on B takes 16.1 ms, but does not fit")
        assert sentence.evaluate("(e) => e.scrollHeight <= e.clientHeight"), "not cut"
    expect(page.locator("#ribbon-text")).to_contain_text("in ops after 127 tokens")
    row = page.locator("#runs-table tbody tr").first
    expect(row.get_by_text("B 16.1 ms (does not fit)")).to_be_visible()
    expect(row.get_by_text("a token after 2,000 to 2,030 tokens")).to_be_visible()


def test_what_moved_with_a_stroke_can_be_put_back(
    page: Page, server: Server, tmp_path: Path
) -> None:
    """Two devices that are alike changed sides around one painted layer, and only an undo brought the others back."""
    path = fused_decoder(tmp_path, layers=8, hidden=128)
    graph = editor.load_model(path, proposed_sizes(editor.load_model(path)))
    table = [{"name": name, "backendName": "CPU"} for name in "AB"]
    whole = editor.partition(graph, table).placement
    entries = [{**each, "memory": str(int(0.8 * whole.run_memory.peaks["A"]))} for each in table]
    decisions = first_decisions(Settings("memory"), entries)
    record = Store(str(server.workspace)).create(
        path.name, str(path), graph.sha256, graph.define, decisions
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    first = "hetero.page.view.ops.filter((_, i) => hetero.page.view.device[i] === 0)"
    act(page, f"hetero.edit({{ do: 'paint', ops: {first}.slice(0, 20), device: 1, force: false }})")
    wait_for_figure(page, "pins", 20)
    keep = page.locator("#notice").get_by_role("button", name="Keep them where they were")
    expect(keep).to_be_visible()
    keep.click()
    until(page, "hetero.page.view.device.filter((d) => d === 0).length > 20")
    expect(page.get_by_text("other ops kept").first).to_be_visible()  # a step of the history
    expect(keep).to_be_hidden()
