"""The three stories: what they say is what Python computes, and they cover nothing."""

from __future__ import annotations

import re

import browsing
import numpy as np
import pytest

from spare_demo import measures
from spare_demo.render.base import number
from spare_demo.ui.panels import STORIES
from spare_demo.ui.visit import Visit

expect = browsing.expect

pytestmark = [*browsing.MARKS, pytest.mark.long]


def plain_patches(visit: Visit) -> set[int]:
    """Patches of a picture without padding whose colours vary no more than in the median one."""
    pixels = np.asarray(visit.canvas.image.convert("RGB"), dtype=np.int64)
    varies = []
    for token in range(visit.exploration.n):
        left, top, right, bottom = visit.canvas.rectangle(token)
        patch = pixels[top:bottom, left:right].reshape(-1, 3)
        varies.append(int((len(patch) * (patch**2).sum(axis=0) - patch.sum(axis=0) ** 2).sum()))
    median = sorted(varies)[(len(varies) - 1) // 2]
    return {token for token, value in enumerate(varies) if value <= median}


def error(visit: Visit, slot: str, budget: int) -> str:
    order = visit.exploration.selections(budget)[slot].order
    features = visit.exploration.view.tokens.features
    return number(measures.reconstruction_error(features, order))


def tell(visitor, name: str):
    """Opens a story by its menu; its text."""
    visitor.find(".stories summary").click()
    visitor.find(f"[data-story={name}]").click()
    expect(visitor.find("#story-title")).to_have_text(STORIES[name])
    expect(visitor.find("#story-title")).to_be_focused()
    return visitor.find(".story-card .text")


def go_on(visitor, step: int) -> None:
    visitor.find(".story-card .next").click()
    expect(visitor.find(".story-card .place")).to_have_text(f"step {step} of 3")


def test_tokens_are_not_pixels(visitor, opened: Visit) -> None:
    text = tell(visitor, "pixels")
    plain = plain_patches(opened)
    picks = [t for t in opened.exploration.selections(16)["A"].order.tolist() if t in plain]
    expect(text).to_contain_text(f"keeps 16 of 576 tokens. {len(picks)} of them lie on patches")
    go_on(visitor, 2)
    visitor.expect_answers(576, 16, 16)
    answer = visitor.find("#answers .card.a .answer-text").inner_text()
    verdict = visitor.find("#answers .card.a .verdict").inner_text()
    expect(text).to_contain_text(f"the model answers “{answer}” ({verdict})")
    go_on(visitor, 3)
    expect(text).to_contain_text(f"now holds {len(picks)}. Press Ask again")
    flags = visitor.page.evaluate("[...SPARE.state.own].flatMap((f, i) => f ? [i] : [])")
    assert flags == sorted(picks)
    visitor.find("#edit .again").click()
    verdict = visitor.find("#own-answer .verdict")
    expect(verdict).to_be_visible()
    answer = visitor.find("#own-answer .answer-text").inner_text()
    expect(text).to_contain_text(f"answers “{answer}” ({verdict.inner_text()})")


def test_who_goes_on_before_the_picks_are_here_waits_for_them(visitor) -> None:
    visitor.choose_method("a", "VisPruner")
    visitor.expect_answers(576, 64, 64)
    held: list = []
    visitor.page.route("**/queue/join*", lambda route: held.append(route))
    text = tell(visitor, "pixels")
    expect(text).to_have_text("Waiting for the picks of this budget.")
    go_on(visitor, 2)
    go_on(visitor, 3)
    expect(text).to_have_text("Waiting for the picks of this budget.")
    for route in held:
        route.continue_()
    visitor.page.unroute("**/queue/join*")
    expect(text).to_contain_text("“Your set” began with A's plain patches")


def test_diversity_is_not_reconstruction(visitor, opened: Visit) -> None:
    text = tell(visitor, "diversity")
    picks = opened.exploration.selections(16)
    a, b = (picks[slot].order for slot in "AB")
    both = len(set(a.tolist()) & set(b.tolist()))
    shared = measures.jaccard(a, b, 576)
    chance = measures.expected_jaccard(576, 16, 16)
    where = opened.canvas.where
    expect(text).to_contain_text(
        f"The first picks are {where(int(a[0]))} and {where(int(b[0]))}. Of 16 picks they share "
        f"{both}. Jaccard {shared:.2f} (two random picks: {chance:.2f})."
    )
    for step, budget in ((2, 16), (3, 64)):
        go_on(visitor, step)
        errors = [error(opened, slot, budget) for slot in "AB"]
        better = "A SPARE" if float(errors[0]) < float(errors[1]) else "B CDPruner"
        expect(text).to_contain_text(
            f"With {budget} tokens, the reconstruction error is {errors[0]} for A SPARE and "
            f"{errors[1]} for B CDPruner: here {better} rebuilds more."
        )
    visitor.find(".story-card .before").click()
    left = measures.leftover_share(opened.exploration.view.tokens.features, b)
    expect(text).to_contain_text(
        f"rebuilds {where(int(left.argmax()))} worst: {number(float(left.max()))} of it is left"
    )


def test_where_relevance_falls(visitor, opened: Visit) -> None:
    text = tell(visitor, "relevance")
    relevance = opened.exploration.view.relevance.double()
    top, where = relevance.argsort(descending=True).tolist(), opened.canvas.where
    plain = plain_patches(opened)
    expect(text).to_contain_text(
        f"Its mean over 576 tokens is {number(float(relevance.mean()))}; the highest is "
        f"{number(float(relevance.max()))}, at {where(top[0])}. Of the 16 most relevant patches, "
        f"{len(plain & set(top[:16]))} are plain"
    )
    assert visitor.page.evaluate("SPARE.state.cursor") == top[0]
    go_on(visitor, 2)
    kept = opened.exploration.selections(64)["A"].kept
    dropped = [token for token in range(576) if token not in set(kept.tolist())]
    means = [float(relevance[tokens].mean()) for tokens in (kept, dropped)]
    expect(text).to_contain_text(
        f"mean cosine of {number(means[0])} with the question, those it drops {number(means[1])}: "
        f"on the whole it keeps what is {'less' if means[0] < means[1] else 'more'} like"
    )
    go_on(visitor, 3)
    weight = opened.exploration.weights["A"]
    expect(text).to_contain_text(
        f"It is {number(float(weight[top[0]]))} where relevance is highest, at {where(top[0])}, "
        f"and {number(float(weight[top[-1]]))} where it is lowest, at {where(top[-1])}."
    )


def test_the_card_stands_above_the_pictures_and_leaves_the_controls_as_they_are(visitor) -> None:
    assert not visitor.find(".story-card").is_visible()  # nothing opens by itself
    for width in (1440, 390):
        visitor.page.set_viewport_size({"width": width, "height": 844})
        text = tell(visitor, "diversity")
        expect(text).to_contain_text("Of 16 picks")
        # In one moment: the page may still be scrolling to it.
        bottom, *below = visitor.page.evaluate(
            """() => {
            const box = selector => document.querySelector(selector).getBoundingClientRect();
            return [box('.story-card').bottom, box('#budget').top, box('#stage').top];
        }"""
        )
        assert all(bottom <= top for top in below)
        visitor.page.keyboard.press("Escape")
        expect(visitor.find(".story-card")).to_be_hidden()
        expect(visitor.find(".stories summary")).to_be_focused()
        assert visitor.page.evaluate("[SPARE.state.k, SPARE.state.layer]") == [16, "order"]


def test_the_last_step_offers_the_next_story(visitor) -> None:
    tell(visitor, "relevance")
    go_on(visitor, 2)
    go_on(visitor, 3)
    expect(visitor.find(".story-card .next")).to_have_text("Next story: Tokens are not pixels")
    visitor.find(".story-card .next").click()
    expect(visitor.find("#story-title")).to_have_text(STORIES["pixels"])
    expect(visitor.find(".story-card .place")).to_have_text("step 1 of 3")


def test_what_a_story_pinned_is_let_go_with_it_and_what_the_visitor_pinned_stays(visitor) -> None:
    pinned = "Boolean(SPARE.state.pinned)"
    for leave in ("Close", "another story"):
        tell(visitor, "relevance")
        visitor.page.wait_for_function(pinned)
        if leave == "Close":
            visitor.find(".story-card .close").click()
        else:
            tell(visitor, "diversity")
        assert visitor.page.evaluate("[SPARE.state.pinned, SPARE.state.lit]") == [False, False]
    visitor.point(300)
    visitor.page.mouse.down()
    visitor.page.mouse.up()
    visitor.find(".story-card .close").click()
    assert visitor.page.evaluate("[SPARE.state.pinned, SPARE.state.cursor]") == [True, 300]


def test_a_story_puts_the_methods_that_it_compares_into_the_menus(visitor) -> None:
    visitor.choose_method("b", "Random")
    expect(visitor.caption).to_contain_text("B Random")
    expect(visitor.find("#ask")).to_be_visible()
    text = tell(visitor, "diversity")
    expect(text).to_contain_text(re.compile("A SPARE takes .* B CDPruner the one"))
    expect(visitor.find("#method-b input")).to_have_value("CDPruner")
    expect(visitor.find("#does-b")).to_contain_text("the token least like those picked")


def test_a_story_a_picture_cannot_tell_says_so_and_offers_the_next(visitor, wide_picture) -> None:
    visitor.upload(wide_picture)
    visitor.ask("Where is the square?")
    visitor.expect_answers(576, 64, 64)
    text = tell(visitor, "pixels")
    expect(text).to_contain_text("The model here knows drawn scenes only")
    expect(visitor.find(".story-card .before")).to_be_hidden()
    expect(visitor.find(".story-card .next")).to_have_text(f"Next story: {STORIES['diversity']}")
    visitor.find(".story-card .next").click()
    expect(text).to_contain_text("Of 16 picks they share")


def test_a_story_that_a_model_cannot_tell_says_so(open_window, lacking: str) -> None:
    visitor = open_window(lacking)
    text = tell(visitor, "relevance")
    expect(text).to_contain_text("this model has no CLIP text side")
    expect(text).to_contain_text("“Text guidance by” to words")
    visitor.find(".story-card .next").click()
    expect(text).to_contain_text("A SPARE, reconstruction only keeps 16 of")


def test_answers_to_a_question_off_topic_tell_no_story(visitor) -> None:
    visitor.ask("Who is the president?")
    expect(visitor.find("#answers .noise")).to_be_visible()
    expect(tell(visitor, "pixels")).to_contain_text("The model here knows drawn scenes only")
