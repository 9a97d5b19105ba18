"""A menu on a model that some methods cannot run on: listed with the reason, and not to be had."""

from __future__ import annotations

import re

import browsing

from spare_demo.pruners import PRUNERS
from spare_demo.pruners.base import GROUPS
from spare_demo.ui.visit import Visit

expect = browsing.expect

pytestmark = browsing.MARKS


def test_what_cannot_run_is_listed_with_a_reason_and_not_chosen(open_window, lacking: str) -> None:
    page = open_window(lacking).page
    menu = page.locator("#method-a input")
    expect(menu).to_have_value(PRUNERS["spare-reconstruction"].title)
    menu.click()
    off = page.get_by_role("option", name="VisionZip")
    expect(off).to_have_attribute("aria-disabled", "true")
    expect(off).to_contain_text("not on this model: this model's vision tower has no class token")
    expect(page.get_by_role("option", name="DivPrune")).not_to_have_attribute(
        "aria-disabled", "true"
    )
    off.click(force=True)
    expect(menu).to_have_value(PRUNERS["spare-reconstruction"].title)
    menu.click()
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("VisionZip")
    menu.press("ArrowDown")
    menu.press("Enter")
    expect(off).to_be_visible()
    page.wait_for_timeout(300)
    expect(off).to_be_visible()  # the menu stays open: nothing was chosen
    expect(menu).to_have_value("VisionZip")
    # As fast as keys come on a busy machine: Enter before the list shows what was typed.
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("Div")
    expect(page.get_by_role("option", name="DivPrune")).to_be_visible()
    menu.evaluate(
        """menu => {
            const press = key =>
                menu.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
            menu.value = 'VisionZip';
            menu.dispatchEvent(new InputEvent('input', {bubbles: true}));
            press('p');
            press('Enter');
        }"""
    )
    expect(off).to_be_visible()
    page.wait_for_timeout(300)
    expect(menu).to_have_value("VisionZip")
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("DivPrune")
    expect(page.get_by_role("option")).to_have_count(1)
    menu.press("Enter")
    expect(page.locator("#answers h3").nth(1)).to_have_text("A DivPrune · 8")


def test_another_method_in_b_is_drawn_answered_and_described(visitor, opened: Visit) -> None:
    line, menu = visitor.find("#does-b"), visitor.find("#method-b input")
    expect(line).to_contain_text(PRUNERS["cdpruner"].summary)
    menu.click()
    options = visitor.page.get_by_role("option")
    headings = visitor.page.get_by_role("option", disabled=True)
    expect(headings).to_have_text([re.compile(f"— {words}$") for words in GROUPS.values()])
    expect(options).to_have_count(len(PRUNERS) + len(GROUPS))
    headings.last.click(force=True)
    expect(menu).to_have_value("CDPruner")
    options.last.click()
    controls = [method.title for method in PRUNERS.values() if method.group == "controls"]
    expect(menu).to_have_value(controls[-1])
    visitor.expect_answers(576, 64, 64)

    menu.press("ControlOrMeta+a")
    menu.press_sequentially("PruMerge+")
    menu.press("Enter")
    expect(line).to_contain_text(PRUNERS["prumerge-plus"].summary)
    expect(line.get_by_role("img")).to_have_accessible_name(re.compile("Sketch: Kept patches take"))
    expect(visitor.find("#does-a")).to_contain_text(PRUNERS["spare"].summary)

    title = PRUNERS["uniform"].title
    visitor.choose_method("b", title)
    expect(visitor.find("#answers h3").nth(2)).to_contain_text(title)
    expect(visitor.caption).to_contain_text(f"{title} keep ")
    visitor.expect_answers(576, 64, 64)
    visitor.unfold("price")
    expect(visitor.find("#cost th[scope=col]").nth(2)).to_contain_text(title)

    # It is not nested: the server is asked for its picks at another budget.
    visitor.page.evaluate("k => SPARE.setBudget(k)", 36)
    expect(visitor.caption).to_contain_text("of their 36 tokens")
    kept = PRUNERS["uniform"].select(opened.exploration.view.tokens, 36).order.tolist()
    assert visitor.page.evaluate("[...SPARE.state.data.picks('B', 36).order]") == kept


def test_all_of_a_menus_box_opens_it(reader) -> None:
    box, options = reader.find("#method-a .wrap-inner"), reader.page.get_by_role("option")
    room = box.bounding_box()
    for x, y in ((3, 3), (room["width"] - 3, room["height"] - 3)):
        box.click(position={"x": x, "y": y})
        expect(options.first).to_be_visible()
        reader.page.keyboard.press("Escape")
        expect(options).to_have_count(0)


def test_the_tab_key_leaves_no_list_open_behind_it(reader) -> None:
    reader.find("#method-a input").focus()
    for part in ("#method-b input", "#settings > button"):
        expect(reader.page.get_by_role("option").first).to_be_visible()
        reader.page.keyboard.press("Tab")
        expect(reader.find(part)).to_be_focused()
    reader.page.wait_for_timeout(300)
    expect(reader.page.get_by_role("option")).to_have_count(0)


def test_a_menu_closed_with_escape_opens_again_on_a_click_and_by_the_keyboard(reader) -> None:
    menu, options = reader.find("#method-a input"), reader.page.get_by_role("option")
    for reopen in (menu.click, menu.click, lambda: menu.press("ArrowDown")):
        reopen()
        expect(options.first).to_be_visible()
        menu.press("Escape")
        expect(options).to_have_count(0)
        expect(menu).to_be_focused()
    reader.page.keyboard.press("Tab")
    expect(reader.find("#method-b input")).to_be_focused()


def test_the_tab_key_goes_on_from_a_menu_in_which_enter_chose(reader) -> None:
    menu = reader.find("#method-a input")
    menu.click()
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("DivPrune")
    menu.press("Enter")
    expect(menu).not_to_be_focused()
    # Chromium goes on beside what had the focus, Firefox from where the selection is.
    assert menu.evaluate("menu => getSelection().anchorNode === menu.nextElementSibling")
    reader.page.keyboard.press("Tab")
    expect(reader.find("#method-b input")).to_be_focused()
