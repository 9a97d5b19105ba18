"""The patch viewer in headless Chromium: pixels and numbers read back against Python's."""

from __future__ import annotations

import gc
import itertools
import json
import re
import time
import zipfile
from pathlib import Path

import browsing
import pytest
import torch
from PIL import Image
from visits import page_request

from spare_demo import measures
from spare_demo.analysis.why import why
from spare_demo.images.load import file_digest
from spare_demo.render.colours import BLUE, VERMILION
from spare_demo.render.maps import leftover_map, pick_order, relevance_map, weight_map
from spare_demo.render.overlay import difference, kept_overlay, merged_overlay
from spare_demo.ui import studies
from spare_demo.ui.guide import Guide
from spare_demo.ui.payload import payload
from spare_demo.ui.visit import Visit
from spare_demo.ui.wire import to_bytes

apart, expect = browsing.apart, browsing.expect

pytestmark = browsing.MARKS


def drawn(visit: Visit, layer: str, budget: int):
    """Python's picture and sentence of a layer, without its legend."""
    chosen = visit.exploration.selections(budget)
    a, b = chosen["A"], chosen["B"]
    names = [visit.titles[slot] for slot in "AB"]
    if layer == "difference":
        found = difference(visit.canvas, a.kept, b.kept, *names)
    elif layer == "relevance":
        found = relevance_map(visit.canvas, visit.exploration.view.relevance)
    elif layer == "order":
        found = pick_order(visit.canvas, a.order, BLUE, names[0])
    else:
        slot, colour = (a, BLUE) if layer == "A" else (b, VERMILION)
        found = kept_overlay(visit.canvas, slot.kept, colour, names["AB".index(layer)])
    return found.image.crop((0, 0, *visit.canvas.size)), found.sentence


def test_a_share_is_told_apart_from_none_and_all(reader) -> None:
    shares = [3e-4, 0.05, 0.994, 0.9951, 0.99962, 1]
    written = reader.page.evaluate("shares => shares.map(SPARE.percent)", shares)
    assert written == ["less than 0.1 %", "5.0 %", "99 %", "99.5 %", "more than 99.9 %", "100 %"]


def test_the_browser_draws_what_python_draws(reader, opened: Visit) -> None:
    layers = ("difference", "A", "B", "order", "relevance")
    for budget, layer in itertools.product((7, 64, 200), layers):
        reader.page.evaluate("k => SPARE.setBudget(k)", budget)
        reader.page.wait_for_function("k => SPARE.state.k === k", arg=budget)
        reader.layer(layer)
        reference, sentence = drawn(opened, layer, budget)
        assert reader.sentence() == sentence
        assert reader.picture().size == reference.size
        # The numbers on the first 64 picks are in the browser's own font.
        allowed = 0.03 if layer == "order" and budget <= 64 else 0.002
        assert apart(reader.picture(), reference) < allowed, (budget, layer)


def test_a_browser_giving_noise_for_pixels_draws_the_same(newcomer, served, opened: Visit) -> None:
    newcomer.page.add_init_script("""
        CanvasRenderingContext2D.prototype.getImageData = (x, y, width, height) => new ImageData(
            Uint8ClampedArray.from({length: 4 * width * height}, (_, i) => 7919 * i), width);""")
    newcomer.open(served.url)
    for layer in ("A", "relevance"):
        newcomer.layer(layer)
        assert apart(newcomer.picture(), drawn(opened, layer, 64)[0]) < 0.002, layer


def test_a_wide_upload_lies_where_python_puts_it_and_nothing_scrolls_sideways(
    visitor, served, wide_picture: Path
) -> None:
    visitor.upload(wide_picture)
    question = f"Where is the <b>square</b> {'beside-a-word-without-any-place-to-break-it' * 5}?"
    visitor.ask(question)
    expect(visitor.caption).to_contain_text("lie in padding")
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#truth p")).to_have_count(0)
    expect(visitor.find("#message p")).to_have_count(0)
    expect(visitor.find("#answers")).to_contain_text("knows drawn scenes only")
    expect(visitor.find("#answers .noise")).not_to_have_attribute("open", "")
    expect(visitor.find("#stage .badge").first).to_have_text("tokens of the built-in model")
    expect(visitor.find("#question textarea")).to_have_value(question)
    visit = Guide(served.model, served.settings).look(
        page_request(str(wide_picture), question, "spare", "cdpruner")
    )
    for layer in ("difference", "relevance"):
        visitor.layer(layer)
        reference, sentence = drawn(visit, layer, 64)
        assert visitor.sentence() == sentence
        assert apart(visitor.picture(), reference) < 0.002
    for width in (1440, 1024, 390):
        visitor.page.set_viewport_size({"width": width, "height": 844})
        assert visitor.wide() == (width, width)
    box = visitor.find("#stage").bounding_box()
    assert box and box["width"] >= 320


def test_leftover_shares_are_those_of_python(reader, opened: Visit) -> None:
    for slot, k in itertools.product("AB", (1, 16, 64, 180)):
        order = opened.exploration.picks[slot].order
        told = reader.page.evaluate(
            "([slot, k]) => Array.from(SPARE.state.data.residual(slot, k).share(k))", [slot, k]
        )
        exact = measures.leftover_share(opened.exploration.view.tokens.features, order[:k])
        assert (torch.tensor(told, dtype=torch.float64) - exact).abs().max() < 1e-3


def test_weights_and_leftovers_have_their_layers(reader, opened: Visit) -> None:
    for layer, words in (("weight", "Text weight that"), ("leftover", "cannot reconstruct")):
        reader.layer(layer)
        assert words in reader.sentence() and "A SPARE" in reader.sentence()
        seen = reader.picture().tobytes()
        reader.layer(layer, of="B")
        expect(reader.caption).to_contain_text("B CDPruner")
        assert reader.picture().tobytes() != seen
    explored, canvas = opened.exploration, opened.canvas
    left = measures.leftover_share(explored.view.tokens.features, explored.picks["A"].order[:64])
    reader.layer("leftover")
    assert reader.sentence() == leftover_map(canvas, left, "A SPARE", 64).sentence
    reader.layer("weight")
    reference = weight_map(canvas, explored.weights["A"], "A SPARE")
    assert reader.sentence() == reference.sentence
    assert apart(reader.picture(), reference.image.crop((0, 0, *canvas.size))) < 0.002


def test_late_picks_of_another_method_are_not_shown_as_those_of_this_one(reader) -> None:
    reader.choose_method("b", "HoloV")
    expect(reader.caption).to_contain_text("B HoloV")
    gone = reader.page.evaluate("SPARE.state.data.of")
    reader.choose_method("b", "DART, diversity only")
    expect(reader.caption).to_contain_text("B DART, diversity only")
    picks = "[...SPARE.state.data.picks('B', SPARE.state.k).order]"
    before = reader.page.evaluate(picks)
    reader.page.evaluate(
        """of => SPARE.receive(JSON.stringify(
            {kind: 'picks', of, slot: 'B', budget: SPARE.state.k, order: [0], sources: null}))""",
        gone,
    )
    assert reader.page.evaluate(picks) == before


def test_picks_that_no_picture_shows_are_asked_for_as_well(reader) -> None:
    reader.choose_method("b", "HoloV")
    expect(reader.caption).to_contain_text("B HoloV")
    reader.layer("relevance")  # alone: neither method has a picture now
    reader.point(300)
    reader.find("#budget input[type=number]").fill("40")
    expect(reader.find("#reason .reason.b .rank")).to_contain_text("40")
    reader.find("#by-hand").click()
    reader.choose("pane", "0")
    reader.choose("layer", "own")
    kept = reader.find("#edit .count")
    reader.find("#edit [data-start=b]").click()
    expect(kept).to_have_text("40 tokens of 576 kept")
    reader.find("#edit [data-start=none]").click()
    expect(kept).to_have_text("0 tokens of 576 kept")
    reader.find("#examples button").nth(1).click()
    expect(kept).to_have_text("40 tokens of 576 kept")  # A's of the new picture, to begin with


def test_what_was_merged_is_offered_where_tokens_are_and_goes_with_its_comparison(reader) -> None:
    expect(reader.caption).to_contain_text("CDPruner")
    expect(reader.find("#merged")).to_be_hidden()
    reader.choose_method("b", "VisionZip")
    reader.expect_answers(576, 64, 64)
    reader.unfold("merged")
    reader.find("#merged-show").click()
    expect(reader.find("#merged-drawn figcaption")).to_contain_text("VisionZip merged 576 tokens")
    reader.choose_method("b", "PruMerge")
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#merged-drawn figure")).to_have_count(0)
    reader.choose_method("b", "CDPruner")
    expect(reader.find("#merged")).to_be_hidden()


def test_a_merged_token_shows_what_went_into_it(reader, served) -> None:
    reader.choose_method("b", "VisionZip")
    expect(reader.caption).to_contain_text("VisionZip (picks)")
    reader.expect_answers(576, 64, 64)
    visit = served.look("spare", "visionzip")
    chosen = visit.exploration.selections(64)["B"]
    sources, order = chosen.sources, chosen.order.tolist()
    reader.layer("B")
    reference = merged_overlay(visit.canvas, sources, chosen.order, VERMILION, "B VisionZip")
    assert reader.sentence() == reference.sentence
    assert apart(reader.picture(), reference.image.crop((0, 0, *visit.canvas.size))) < 0.002
    counts = (sources != 0).sum(dim=1)
    row = int(counts.argmax())  # the row with the most in it
    own = next(t for t in order if sources[row, t] == 1)
    # The curve comes after the answers, by a call of its own, and Plotly's script after it.
    reader.curve()
    expect(reader.find("#lost .words").first).to_contain_text("B VisionZip")
    calls = []  # but the stream of replies to calls before, which may open late
    reader.page.on("request", lambda r: None if "/queue/data" in r.url else calls.append(r.url))
    reader.point(own)
    expect(reader.find(".reason.b")).to_contain_text(f"with {int(counts[row]) - 1} others mixed in")
    tints = reader.page.evaluate("SPARE.state.tints.map(t => [t.token, t.share])")
    assert {int(token) for token, _ in tints} == set(sources[row].nonzero()[:, 0].tolist()) - {own}
    for token, share in tints:
        assert share == pytest.approx(float(sources[row, int(token)]))
    alone = next(t for t in order if counts[(sources[:, t] == 1).nonzero()[0, 0]] == 1)
    reader.point(alone)
    expect(reader.find(".reason.b")).to_contain_text("Kept as it is")
    assert reader.page.evaluate("SPARE.state.tints.length") == 0
    lost = int(tints[0][0])
    reader.point(lost)
    expect(reader.find(".reason.b")).to_contain_text("Mixed into the tokens of")
    assert own in reader.page.evaluate("SPARE.state.lines.map(line => line.to)")
    assert calls == []  # the browser knew all of it
    reader.layer("leftover", of="B")
    expect(reader.caption).to_contain_text("its rows are not patches")


def test_pointer_and_arrows_move_one_cursor(reader) -> None:
    reader.point(100)
    expect(reader.find(".reasons")).to_contain_text("row 5, column 5")
    board = reader.find("#stage .board").first
    board.focus()
    for key, token in (("ArrowRight", 101), ("ArrowDown", 125), ("Shift+ArrowLeft", 120)):
        board.press(key)
        assert reader.page.evaluate("SPARE.state.cursor") == token
    board.press("Home")
    board.press("PageUp")
    board.press("ArrowUp")  # the edge holds
    assert reader.page.evaluate("SPARE.state.cursor") == 0
    expect(reader.find(".reasons")).to_contain_text("row 1, column 1")


def test_the_reasons_are_those_of_python(reader, opened: Visit) -> None:
    explored = opened.exploration
    kept = int(explored.picks["A"].order[5])
    lost = next(i for i in range(576) if i not in set(explored.picks["A"].order[:64].tolist()))
    for token in (kept, lost):
        reader.point(token)
        expect(reader.find(".reasons")).to_contain_text(f"index {token}")
        for slot in "AB":
            reason = why(explored, slot, token, 64)
            column = reader.find(f".reason.{slot.lower()}")
            text = column.inner_text()
            assert (f"pick {reason.rank} of" in text) == (reason.rank is not None)
            assert ("Not kept:" in text) == (reason.rank is None)
            assert "not among" not in text  # which would say the same once more
            numbers = column.locator(".factors td:last-child").all_inner_texts()
            exact = [reason.factors.novelty, reason.factors.magnitude, reason.factors.text,
                     reason.factors.value]  # fmt: skip
            assert [float(number) for number in numbers] == pytest.approx(exact, rel=0.02, abs=2e-3)
            if reason.stand_ins:
                first = reason.stand_ins
                row, col = divmod(first.tokens[0], 24)
                place = re.search(rf"row {row + 1}, column {col + 1} \(([-+.\d]+)", text)
                # The browser works from rounded coordinates; `compact` says how far off they are.
                assert place and float(place[1]) == pytest.approx(first.coefficients[0], abs=5e-3)
    assert len(reader.page.evaluate("SPARE.state.lines")) > 0


def test_play_walks_through_the_picks_in_few_steps_where_motion_is_reduced(reader) -> None:
    reader.page.evaluate("SPARE.setBudget(570)")
    reader.find(".play").click()
    reader.page.wait_for_function("SPARE.state.k === 576")
    expect(reader.find(".play")).to_have_text("▶ Play")
    expect(reader.caption).to_contain_text("keep 576 of their 576")
    reader.page.emulate_media(reduced_motion="reduce")
    steps = reader.page.evaluate(
        """() => new Promise(done => {
            const seen = [];
            SPARE.on('budget', k => { seen.push(k); if (k === 576) done(seen); });
            SPARE.setBudget(300);
            document.querySelector('.play').click();
        })"""
    )
    assert len(steps) <= 4


def test_words_change_ten_times_a_second_and_end_with_the_last_budget(reader) -> None:
    reader.layer("all")
    said = reader.page.evaluate("""async () => {
        const words = document.querySelector('#stage .caption'), said = [];
        const observer = new MutationObserver(() => said.push(words.textContent));
        observer.observe(words, {childList: true, characterData: true, subtree: true});
        const frame = () => new Promise(requestAnimationFrame), begin = performance.now();
        for (let k = 1; k <= 60; k++) { SPARE.emit('budget', k); await frame(); }
        const seconds = (performance.now() - begin) / 1000;
        await new Promise(done => setTimeout(done, 250));
        observer.disconnect();
        return {said, seconds};
    }""")
    assert "of their 60 tokens" in said["said"][-1]
    assert 1 < len(said["said"]) <= 10 * said["seconds"] + 3


def test_asking_for_a_methods_picture_leaves_the_own_set(reader) -> None:
    reader.layer("own")
    expect(reader.find("#edit [data-start=a]")).to_be_visible()
    reader.choose("pane", "1")
    assert reader.page.evaluate("[SPARE.state.layer, SPARE.state.pane]") == ["kept", 1]
    expect(reader.find("#edit [data-start=a]")).to_be_hidden()
    reader.choose("layer", "own")
    assert reader.page.evaluate("[SPARE.state.layer, SPARE.state.pane]") == ["own", None]


def test_an_own_set_is_drawn_asked_undone_and_taken_back(visitor, opened: Visit) -> None:
    count = visitor.find(".edit .count")
    visitor.layer("own")
    visitor.find("[data-start=a]").click()
    expect(count).to_have_text("64 tokens of 576 kept")
    kept = set(opened.exploration.picks["A"].order[:64].tolist())
    new = next(i for i in range(300, 576) if i not in kept and i + 1 not in kept)
    visitor.point(new)
    visitor.page.mouse.down()
    visitor.point(new + 1)
    visitor.page.mouse.up()
    expect(count).to_have_text("66 tokens of 576 kept")
    visitor.find(".undo").click()
    expect(count).to_have_text("64 tokens of 576 kept")
    visitor.find(".redo").click()
    expect(count).to_have_text("66 tokens of 576 kept")
    board = visitor.find("#stage .board").first
    board.press(" ")  # the patch under the cursor is dropped again
    expect(count).to_have_text("65 tokens of 576 kept")
    visitor.find(".again").click()
    expect(visitor.find("#own-answer")).to_contain_text("KL of the first word")
    expect(visitor.find("#own-answer h3")).to_have_text("Your set · 65")
    with visitor.page.expect_download() as saved:
        visitor.find(".export").click()
    mine = json.loads(Path(saved.value.path()).read_text())["mine"]
    assert set(mine) == kept | {new}


def test_what_is_pressed_anew_while_it_waits_is_done_as_it_is_by_then(
    visitor, served, hold
) -> None:
    held = hold(served)
    data = [served.picture(served.first.path), "", "spare", 8, 0]
    served.post("call/select", {"data": data}).raise_for_status()
    assert held.begun.wait(120)
    visitor.unfold("against")
    for question in ("How many arrows are there?", "Is there a star?"):
        visitor.find("#other textarea").fill(question)
        visitor.find("#compare-questions").click()
    visitor.layer("own")
    for start in ("a", "neither"):
        visitor.find(f"[data-start={start}]").click()
        visitor.find(".again").click()
    count = visitor.page.evaluate("SPARE.state.own.reduce((sum, flag) => sum + flag)")
    assert count != 64
    held.goes_on.set()
    expect(visitor.find("#own-answer h3")).to_have_text(f"Your set · {count}")
    expect(visitor.find("#second tbody tr").last).to_contain_text("Is there a star?")


def test_undo_and_redo_on_the_keyboard_do_not_lose_the_focus(reader) -> None:
    reader.layer("own")
    undo, redo = reader.find("#edit .undo"), reader.find("#edit .redo")
    reader.find("#edit [data-start=none]").press("Enter")
    while undo.is_enabled():
        undo.press("Enter")
    expect(redo).to_be_focused()
    while redo.is_enabled():
        redo.press("Enter")
    expect(undo).to_be_focused()


def test_a_set_is_drawn_and_asked_with_in_one_place_on_every_screen(visitor) -> None:
    for number, (width, height) in enumerate([(1440, 900), (1024, 768), (390, 844)], 1):
        visitor.page.set_viewport_size({"width": width, "height": height})
        expect(visitor.find("#edit")).not_to_be_visible()
        visitor.find("#by-hand").click()
        expect(visitor.find("#edit [data-start=a]")).to_be_focused()
        expect(visitor.find("#stage .board").first).to_be_in_viewport(ratio=1)
        before = "64 tokens" if number == 1 else f"{number - 1} token"  # A's at first
        expect(visitor.find("#edit .count")).to_contain_text(before)
        visitor.find("[data-start=none]").click()
        visitor.point(300)
        expect(visitor.find(".reasons")).to_contain_text("index 300")
        # Nothing but the frame: lines would hide what is drawn.
        marked = visitor.find("#stage canvas.over").first.evaluate(
            """over => over.getContext('2d').getImageData(0, 0, over.width, over.height)
            .data.filter((_, i) => i % 4 === 3).reduce((sum, alpha) => sum + (alpha > 0), 0)"""
        )
        patch = visitor.page.evaluate("SPARE.state.data.grid.patch")
        assert 0 < marked < (patch + 12) ** 2
        for token in range(300, 300 + number):
            visitor.point(token)
            visitor.page.mouse.down()
            visitor.page.mouse.up()
        expect(visitor.find("#edit .count")).to_have_text(re.compile(rf"^{number} tokens? of 576"))
        again = visitor.find("#edit .again")
        again.scroll_into_view_if_needed()
        expect(visitor.find("#stage canvas").first).to_be_in_viewport()
        expect(again).to_be_in_viewport(ratio=1)
        again.click()
        expect(visitor.find("#own-answer h3")).to_have_text(f"Your set · {number}")
        expect(visitor.find("#own-answer")).to_contain_text("KL of the first word")
        expect(visitor.find("#own-answer")).to_be_in_viewport(ratio=1)
        expect(again).to_be_in_viewport()
        visitor.layer("difference")
        expect(visitor.find("#edit")).not_to_be_visible()
        expect(visitor.find("#budget")).to_be_visible()
        expect(visitor.find("#own-answer h3")).to_have_text(f"Your set · {number}")
        visitor.choose("pane", "")


def test_a_set_begins_with_a_class_of_difference_rectangle_or_list(reader, opened: Visit) -> None:
    chosen = opened.exploration.selections(64)
    a, b = (set(chosen[slot].order.tolist()) for slot in "AB")
    count = reader.find(".edit .count")
    reader.layer("own")
    for kind, size in (("only-a", len(a - b)), ("both", len(a & b)), ("neither", 576 - len(a | b))):
        reader.find(f"[data-start={kind}]").click()
        expect(count).to_have_text(re.compile(rf"^{size} token"))
    reader.find("[data-start=none]").click()
    reader.find("input[value=rectangle]").check(force=True)
    reader.point(0)
    reader.page.mouse.down()
    reader.point(24 * 2 + 3)
    reader.page.mouse.up()
    expect(count).to_have_text("12 tokens of 576 kept")

    # An empty set asks for a token, and a bad list says what is wrong.
    reader.find("[data-start=none]").click()
    reader.find(".again").click()
    message = reader.find(".edit .message")
    expect(message).to_contain_text("Keep at least one visual token")
    for words, sentence in (
        ("3, x", "whole numbers"), ("", "whole numbers"), ("[3, 576]", "numbered 0 to 575"),
        ("576", "numbered 0 to 575"), ("0x1", "whole numbers"), ("1e1", "whole numbers"),
    ):  # fmt: skip
        reader.find(".list").fill(words)
        reader.find(".take").click()
        expect(message).to_contain_text(sentence)
    expect(count).to_have_text("0 tokens of 576 kept")
    reader.find(".list").fill("17")
    reader.find(".take").click()
    expect(count).to_have_text("1 token of 576 kept")
    reader.find(".list").fill("3, 17 240,")
    reader.find(".take").click()
    expect(count).to_have_text("3 tokens of 576 kept")
    expect(message).to_have_count(0)
    lists = {"selections": {"spare": {"order": [5, 6]}, "cdpruner": {"order": [7]}}}
    file = {"name": "result.json", "mimeType": "application/json"}
    reader.find("#edit .file").set_input_files(file | {"buffer": json.dumps(lists).encode()})
    expect(count).to_have_text("2 tokens of 576 kept")
    expect(reader.find("#edit .message-place")).to_contain_text("the first, “spare”, is used")


def test_what_is_sent_beside_the_picture_is_small(opened: Visit) -> None:
    sent = payload(opened, 64)
    del sent["picture"]
    assert len(to_bytes(sent)) < 300_000


def test_how_few_are_enough_marks_the_slider(reader) -> None:
    reader.find("#find-enough").click()
    marks = reader.find(".enough-marks button")
    expect(marks).to_have_count(2)
    for mark in marks.all():  # who says to a computer what to press says what stands there
        expect(mark).to_have_accessible_name(re.compile(f"^{mark.inner_text()}: .* budget tried;"))
    expect(reader.find("#enough")).to_contain_text("as with all tokens")
    k = int(marks.first.get_attribute("data-k"))
    marks.first.click()
    expect(reader.find("#budget input[type=range]")).to_have_value(str(k))
    reader.expect_answers(576, k, k)
    said = reader.find("#answers .answer-text")
    assert said.nth(0).inner_text() == said.nth(1).inner_text()
    rows = reader.find("#enough .tried.a tbody tr")
    expect(rows.last).to_have_text(re.compile(rf"^{k}, .*same"))


MARKS_UNDER_THEIR_BUDGETS = """() => {
    const slider = document.querySelector('#budget input[type=range]');
    const marks = [...document.querySelectorAll('.enough-marks button')];
    const middle = (part) => part.left + part.width / 2, track = slider.getBoundingClientRect();
    return marks.length === 2 && marks.every((mark) => {
        const share = (mark.dataset.k - 1) / (slider.max - 1);
        const place = track.left + 8 + share * (track.width - 16);
        return Math.abs(middle(mark.getBoundingClientRect()) - place) < 1;
    });
}"""


def test_marks_stand_under_a_slider_that_was_hidden_when_they_came(reader) -> None:
    reader.find("#by-hand").click()
    expect(reader.find("#budget")).not_to_be_visible()
    reader.find("#find-enough").click()
    expect(reader.find("#enough .tried.b")).to_be_visible()
    expect(reader.find("#ask")).to_be_visible()
    reader.choose("layer", "kept")
    reader.page.wait_for_function(MARKS_UNDER_THEIR_BUDGETS)
    reader.page.set_viewport_size({"width": 900, "height": 900})
    reader.page.wait_for_function(MARKS_UNDER_THEIR_BUDGETS)


def test_each_word_has_its_map_on_one_scale_and_again_beside_another_method(
    reader, opened: Visit
) -> None:
    reader.layer("relevance")
    reader.find(".words-of button").press("Enter")
    words = reader.find(".words-of label")
    expect(words.nth(1)).to_be_visible()
    expect(words.nth(1).locator("input")).to_be_focused()
    scales = set()
    for i in (1, 2, 3):
        words.nth(i).click()
        name = words.nth(i).inner_text()
        expect(reader.caption).to_contain_text(f"patch and “{name}”")
        scales.add(reader.sentence().split("The colours run")[1])
    assert len(scales) == 1
    words.nth(0).click()
    expect(reader.caption).to_have_text(drawn(opened, "relevance", 64)[1])
    reader.choose_method("b", "Random")
    expect(reader.caption).to_contain_text("patch and the question")
    reader.find(".words-of button").click()  # what comes is the same
    expect(reader.find(".words-of label").nth(1)).to_be_visible()


def test_word_by_word_can_be_asked_again_where_no_maps_came(reader, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("No maps today.")

    reader.layer("relevance")
    button = reader.find(".words-of button")
    with monkeypatch.context() as patch:
        patch.setattr(studies, "word_maps", fail)
        button.click()
        expect(reader.find("#message")).to_contain_text("No maps today.")
        expect(button).to_have_text("Word by word")
    button.click()
    expect(reader.find(".words-of label").nth(1)).to_be_visible()


def test_a_second_question_moves_relevance_and_picks(reader) -> None:
    reader.unfold("against")
    button = reader.find("#compare-questions")
    button.evaluate("button => button.scrollIntoView({block: 'end'})")  # what follows is below
    button.click()  # refused beside the button
    message = reader.find("#second .message")
    expect(message).to_contain_text("type the other here")
    expect(message).to_be_in_viewport()
    expect(reader.find("#message p")).to_have_count(0)
    reader.find("#other textarea").fill("How many arrows are there?")
    button.click()
    expect(reader.find("#second img")).to_have_count(3)
    captions = reader.find("#second figcaption").all_inner_texts()
    assert captions == reader.find("#second img").evaluate_all("all => all.map(i => i.alt)")
    assert "for the second too" in captions[1] and "Jaccard" in captions[1]
    answers = reader.find("#second tbody tr")
    expect(answers).to_have_count(2)
    expect(answers.last).to_contain_text("How many arrows are there?")
    asked = reader.find("#answers .answer-text").all_inner_texts()
    assert answers.first.locator("td").all_inner_texts() == asked


def test_kl_is_measured_beside_the_error(reader) -> None:
    reader.unfold("changes")
    reader.find("#measure").click()
    expect(reader.find("#changes")).to_contain_text("KL of the first word")
    expect(reader.find("#kl .main-svg").first).to_be_visible()
    expect(reader.find("#ask")).to_be_visible()


def test_a_link_opens_the_same_settings(reader) -> None:
    example = reader.find("#examples button").nth(2)
    example.click()
    question = str(example.get_attribute("title"))
    expect(reader.find("#answers .asked")).to_have_attribute("data-question", question)
    reader.expect_answers(576, 64, 64)
    reader.page.evaluate("SPARE.setBudget(40, true)")
    reader.expect_answers(576, 40, 40)
    reader.layer("order")
    address, sentence = reader.page.evaluate("SPARE.link.make()"), reader.sentence()
    second = browsing.Visitor(reader.page.context.new_page()).open(address)
    second.expect_answers(576, 40, 40)
    expect(second.caption).to_have_text(sentence)


def test_a_stale_link_says_what_differs_and_opens_the_rest(newcomer, served) -> None:
    newcomer.open(f"{served.url}/?scene=scene-1002.png&a=sparse&b=uniform&k=9999&q=Red%3F")
    expect(newcomer.find("#notice")).to_contain_text("no method 'sparse' here")
    expect(newcomer.find("#notice")).to_contain_text("A budget of '9999' does not fit")
    expect(newcomer.find("#answers h3").nth(2)).to_contain_text("Uniform grid")
    expect(newcomer.find("#question textarea")).to_have_value("Red?")


def test_a_link_without_its_picture_asks_for_one_and_nothing_else(newcomer, served) -> None:
    newcomer.open(f"{served.url}/?q=Where+is+it%3F&k=40")
    expect(newcomer.find("#notice")).to_contain_text("A link carries no picture.")
    expect(newcomer.find("body")).to_have_class(re.compile("asked-anew"))
    newcomer.page.wait_for_timeout(1500)
    expect(newcomer.find("#message p")).to_have_count(0)
    expect(newcomer.find("#ask")).to_be_visible()


def held(key: str) -> int:
    """How many visits to a picture are in memory."""
    gc.collect()
    # Not isinstance: asked for its class, a deprecated object of torch warns.
    return sum(type(x) is Visit and x.key[0] == key for x in gc.get_objects())


def test_who_leaves_takes_their_tensors_along(newcomer, served, tmp_path: Path) -> None:
    picture = tmp_path / "own.png"  # that no page asked about which another test served and closed
    Image.new("RGB", (300, 200), "plum").save(picture)
    newcomer.open(served.url)
    newcomer.upload(picture)
    newcomer.ask("Where is the square?")
    newcomer.expect_answers(576, 64, 64)
    key = file_digest(picture)
    assert held(key) > 0
    newcomer.page.close()
    for _ in range(60):
        if not held(key):
            break
        time.sleep(1)
    assert held(key) == 0


def test_the_zip_comes_by_one_button(visitor) -> None:
    visitor.unfold("keep")
    with visitor.page.expect_download() as saved:
        visitor.find(".zip").click()
    with zipfile.ZipFile(saved.value.path()) as zipped:
        result = json.loads(zipped.read("result.json"))
    assert result["settings"]["budget"] == 64
    on_page = visitor.find("#answers .answer-text").first.inner_text()
    assert result["answers"]["unpruned"]["text"] == on_page
    ticked = visitor.find(".ticks input:checked")
    while ticked.count():
        ticked.first.uncheck()
    visitor.find(".zip").click()
    expect(visitor.find(".cite .message")).to_contain_text("at least one picture")
