"""The slider over the layers of the language model, read back against Python's pictures."""

from __future__ import annotations

import re

import browsing
import pytest

from spare_demo.render.colours import BLUE
from spare_demo.render.maps import source_map
from spare_demo.render.overlay import difference, layer_overlay
from spare_demo.ui.guide import Guide
from spare_demo.ui.visit import Visit

apart, expect = browsing.apart, browsing.expect

pytestmark = browsing.MARKS

BUDGET = 192


@pytest.fixture(scope="module")
def asked(served) -> Visit:
    """What the page shows once both methods were chosen there, worked out once more."""
    visit = served.look("sparsevlm")
    *_, done = Guide(served.model, served.settings).answer(visit, BUDGET)
    return done


def test_every_layer_is_drawn_as_python_draws_it(visitor, asked: Visit) -> None:
    visitor.choose_method("a", "SparseVLM")
    caption, slider = visitor.caption, visitor.find(".depth input")
    expect(caption).to_contain_text("In layer 5 of 5: A SparseVLM keeps")
    visitor.page.evaluate("k => SPARE.setBudget(k, true)", BUDGET)
    visitor.expect_answers(576, BUDGET, BUDGET)
    expect(visitor.find(".depth .sentences")).to_contain_text("A SparseVLM has no single token set")
    answer, plan = asked.result.answers["A"], asked.result.plans["A"]
    expect(visitor.find(".depth .sentences")).to_contain_text(
        f"got {answer.average_visual_tokens:.1f} visual tokens on average, the last one "
        f"{plan.last}. Its paper counts {plan.counted:.1f}"
    )
    visitor.layer("A")
    slider.focus()
    slider.press("Home")
    for layer in range(plan.depth):
        found = answer.set_at(layer)
        reference = layer_overlay(asked.canvas, found, layer, plan.depth, BLUE, "A SparseVLM")
        expect(caption).to_have_text(reference.sentence)
        assert apart(visitor.picture(), reference.image.crop((0, 0, *asked.canvas.size))) < 0.002
        rows = f"Layer {layer + 1} of 5: A SparseVLM {plan.per_layer[layer]} of 576 tokens"
        expect(visitor.find(".depth .place")).to_have_text(rows)
        expect(slider).to_have_attribute("aria-valuetext", rows)
        slider.press("ArrowRight")
    assert found.merged_rows > 0

    # Which row a patch was merged into, and the rows one by one: those of the layer looked at.
    for layer in (plan.depth - 1, plan.stops[0].layer):
        found = answer.set_at(layer)
        sources = found.sources
        assert sources is not None
        row = int((sources > 0).sum(dim=1).argmax())
        members = sources[row].nonzero().flatten().tolist()
        visitor.page.evaluate("at => { SPARE.state.depth = at; SPARE.emit('repaint') }", layer)
        visitor.point(members[0])
        expect(visitor.find(".reason.a")).to_contain_text(
            f"In layer {layer + 1} it is in merged row {row + 1} of {len(sources)}, made of "
            f"{len(members)} patches"
        )
        tints = visitor.page.evaluate("SPARE.state.tints.map(t => [t.token, t.share])")
        assert {int(token) for token, _ in tints} == set(members)
        assert all(s == pytest.approx(float(sources[row, int(t)])) for t, s in tints)
        if visitor.find("#merged-show").is_hidden():
            visitor.find("#merged button").first.click()
            # Only now is it made; what is typed before its own value stands is lost.
            expect(visitor.find("#merged-token input")).to_have_value("0")
            visitor.page.wait_for_timeout(500)  # and for a moment after, on a busy machine
        visitor.find("#merged-token input").fill(str(row + 1))
        visitor.find("#merged-show").click()
        drawn = source_map(asked.canvas, sources, row, f"In layer {layer + 1} of 5 A SparseVLM")
        expect(visitor.find("#merged-drawn figcaption")).to_have_text(drawn.sentence)
    assert plan.stops[0].layer < plan.depth - 1

    # A link opens the layer looked at.
    address, sentence = visitor.page.evaluate("SPARE.link.make()"), visitor.sentence()
    assert sentence.startswith(f"In layer {plan.stops[0].layer + 1} of 5")
    second = browsing.Visitor(visitor.page.context.new_page()).open(address)
    second.expect_answers(576, BUDGET, BUDGET)
    expect(second.caption).to_have_text(sentence)
    second.page.close()

    # Against a method before the language model, which has the same set in every layer.
    visitor.layer("difference")
    slider.fill("5")
    visitor.find(".depth .shallower").click()
    kept = asked.exploration.selections(BUDGET)["B"].kept
    mine = answer.set_at(3).kept
    reference = difference(asked.canvas, mine, kept, "A SparseVLM", "B CDPruner")
    assert apart(visitor.picture(), reference.image.crop((0, 0, *asked.canvas.size))) < 0.002
    expect(caption).to_contain_text(f"In layer 4 of 5: A SparseVLM keeps {len(mine)} tokens")

    # What became of a patch, and the layer's set as a start for one's own.
    lost = next(i for i in range(576) if i not in set(answer.set_at(2).kept.tolist()))
    visitor.point(lost)
    expect(visitor.find(".reason.a")).to_contain_text(re.compile(r"removed before layer \d of 5"))
    visitor.layer("own")
    visitor.find("[data-start=a]").click()
    expect(visitor.find(".edit .count")).to_have_text(f"{len(mine)} tokens of 576 kept")


def test_a_budget_out_of_reach_offers_the_least_within(visitor) -> None:
    visitor.choose_method("b", "FastV")
    reach = visitor.find("#answers .reach")
    expect(reach).to_have_text("Set the budget to 116")
    expect(visitor.find("#answers .card.b")).to_contain_text("Choose a budget from 116 to 576")
    expect(visitor.caption).to_contain_text("choose 116 or more")
    visitor.point(100)
    expect(visitor.find(".reason.b")).to_contain_text("It cannot meet a budget of")
    expect(visitor.find(".depth")).to_be_hidden()
    reach.click()
    visitor.expect_answers(576, 116, 116)
    visitor.layer("B")
    expect(visitor.caption).to_contain_text("In layer 5 of 5 B FastV")
    expect(visitor.find(".depth")).to_be_visible()


def test_rows_that_were_merged_before_are_drawn_and_told(visitor, served) -> None:
    guide = Guide(served.model, served.settings)
    *_, done = guide.answer(served.look("vscan-whole"), 64)
    answer = done.result.answers["A"]
    visitor.choose_method("a", "VScan")
    visitor.page.evaluate("k => SPARE.setBudget(k, true)", 64)
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find(".depth .sentences")).to_contain_text("among 96 chosen before it")
    visitor.layer("A")
    for layer in (0, 4):
        found = answer.set_at(layer)
        assert found.grown and found.merged_rows
        reference = layer_overlay(done.canvas, found, layer, 5, BLUE, "A VScan")
        visitor.page.evaluate("at => { SPARE.state.depth = at; SPARE.emit('repaint') }", layer)
        expect(visitor.caption).to_have_text(reference.sentence)
        assert apart(visitor.picture(), reference.image.crop((0, 0, *done.canvas.size))) < 0.002
        sources = found.sources
        assert sources is not None
        row = int((sources > 0).sum(dim=1).argmax())
        members = sources[row].nonzero().flatten().tolist()
        last = answer.layer_sets[-1].kept.tolist()
        for member, words in (
            (next(i for i in members if i in found.kept), "kept in all 5 layers"),
            (next(i for i in members if i not in found.kept), "not chosen before the language"),
        ):
            if member in found.kept and member not in last:
                words = "removed before layer 3 of 5"
            visitor.point(member)
            expect(visitor.find(".reason.a")).to_contain_text(words)
            expect(visitor.find(".reason.a")).to_contain_text(
                f"In layer {layer + 1} it is in merged row {row + 1} of {len(sources)}, made of "
                f"{len(members)} patches"
            )


def test_a_set_begins_beside_a_method_that_cannot_meet_the_budget(visitor) -> None:
    visitor.choose_method("b", "PyramidDrop")
    expect(visitor.caption).to_contain_text("It cannot meet a budget of 64")
    visitor.find("#by-hand").click()
    count = visitor.find("#edit .count")
    expect(count).to_have_text("64 tokens of 576 kept")
    for name, words in (("none", "0 tokens"), ("all", "576 tokens"), ("a", "64 tokens")):
        visitor.find(f"#edit [data-start={name}]").click()
        expect(count).to_have_text(f"{words} of 576 kept")
    visitor.find("#edit [data-start=both]").click()
    expect(visitor.find("#edit .message")).to_have_text(
        "B PyramidDrop cannot meet a budget of 64. Choose 116 or more."
    )
