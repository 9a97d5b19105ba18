"""Settings under the menus, as a visitor changes them."""

from __future__ import annotations

import re

from browsing import MARKS, expect

pytestmark = MARKS


def test_a_setting_changes_the_menu_and_the_answers(visitor) -> None:
    page = visitor.page
    menu, panel = page.locator("#method-a input"), page.locator("#tune-a")
    page.locator("#settings > .label-wrap").click()
    heading = page.locator("#answers h3").nth(1)
    visitor.choose_method("a", "DivPrune")
    expect(heading).to_have_text("A DivPrune · 64")
    panel.locator("button").first.click()
    panel.get_by_label("Distance").click()
    page.get_by_role("option", name="euclidean", exact=True).click()
    expect(heading).to_have_text("A DivPrune (metric=euclidean) · 64")
    expect(menu).to_have_value("DivPrune (metric=euclidean)")
    # The panel says what the menu does, which has the method as usual beside it.
    visitor.choose_method("a", "DivPrune")
    expect(heading).to_have_text("A DivPrune · 64")
    expect(panel.get_by_label("Distance")).to_have_value("cosine")
    visitor.choose_method("a", "DivPrune (metric=euclidean)")
    expect(heading).to_have_text("A DivPrune (metric=euclidean) · 64")
    expect(panel.get_by_label("Distance")).to_have_value("euclidean")

    # What is chosen while an answer runs is not lost.
    for title in ("Uniform grid", "Random", "VisionZip"):
        visitor.choose_method("a", title)
        if title == "Random":
            expect(panel).to_contain_text("This method has no settings")
    expect(heading).to_have_text("A VisionZip · 64 merged")
    expect(panel).to_contain_text("Where it differs from the paper")
    expect(panel).not_to_contain_text("This method has no settings")
    number = panel.get_by_label("Share of merged tokens")
    number.fill("0.95")
    number.press("Enter")
    expect(panel.locator(".message")).to_contain_text("from 0.0 to 0.9")
    number.fill("0.5")
    number.press("Enter")
    expect(heading).to_have_text("A VisionZip (contextual=0.5) · 64 merged")
    expect(panel.locator(".message")).to_have_count(0)


def test_a_seed_counts_as_soon_as_its_box_is_left(visitor) -> None:
    visitor.find("#settings > .label-wrap").click()
    visitor.choose_method("a", "Random")
    expect(visitor.find("#answers h3").nth(1)).to_have_text("A Random · 64")
    visitor.expect_answers(576, 64, 64)
    visitor.page.wait_for_function("SPARE.link.make().includes('?a=random&')")
    picks = "[...SPARE.state.data.picks('A', 64).order]"
    seed, before = visitor.page.get_by_label("Random seed"), visitor.page.evaluate(picks)
    seed.fill("7")
    seed.press("Tab")
    visitor.page.wait_for_function("SPARE.link.make().includes('&seed=7&')")
    assert visitor.page.evaluate(picks) != before
    seed.fill("-1")
    seed.press("Tab")
    expect(visitor.find("#message")).to_contain_text("The seed must be a whole number")


def test_what_was_merged_is_shown_when_asked(visitor) -> None:
    page = visitor.page
    panel = page.locator("#merged")
    expect(page.locator("#answers h3").nth(2)).to_contain_text("64")
    menu = page.locator("#method-a input")
    menu.click()
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("TRIM")
    expect(page.get_by_role("option").first).to_have_text(re.compile("TRIM$"))
    menu.press("Enter")
    heading = page.locator("#answers h3").nth(1)
    expect(heading).to_have_text("A TRIM · 64 merged")
    stage = page.locator("#stage")
    expect(stage).to_contain_text("A TRIM (picks) keeps 63 tokens")
    # Rows are not patches: no share of a patch is left over, and nothing stands in for one.
    page.evaluate("() => { SPARE.emit('layer', 'leftover') }")
    expect(stage).to_contain_text("A TRIM merges tokens: its rows are not patches")
    page.evaluate("() => { SPARE.state.cursor = 200; SPARE.emit('cursor', 200) }")
    expect(page.locator(".reason.a")).to_contain_text(re.compile("Mixed into|Kept|Dropped"))
    expect(page.locator(".reason.a")).not_to_contain_text("Left over")
    panel.locator("button").first.click()
    page.locator("#merged-show").click()
    drawn = page.locator("#merged-drawn figcaption")
    expect(drawn).to_have_count(1)
    expect(drawn).to_contain_text("A TRIM merged 576 tokens into 64: 63 unchanged")


def test_without_clip_text_methods_run_once_words_are_chosen(open_window, lacking: str) -> None:
    visitor = open_window(lacking)
    page, stage = visitor.page, visitor.find("#stage")
    heading = page.locator("#answers h3").nth(1)
    page.evaluate("() => { SPARE.emit('layer', 'relevance') }")
    expect(stage).to_contain_text("this model has no CLIP text side")
    page.locator("#settings > .label-wrap").click()
    page.get_by_label("words of the language model, not CLIP").click()
    expect(stage).to_contain_text("by words of the language model, not CLIP")
    visitor.choose_method("a", "SPARE")
    expect(heading).to_contain_text("A SPARE by words")
    page.get_by_label("CLIP, as in the papers").click()
    expect(heading).to_contain_text("A SPARE, reconstruction only")
