"""A menu on a model that some methods cannot run on: listed with the reason, and not to be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings
from spare_demo.ui import build, launch_options

browsing = pytest.importorskip("browsing", reason="playwright is not installed")
expect = browsing.expect

pytestmark = browsing.MARKS


@pytest.fixture
def lacking(tiny_qwen, unused_port: int) -> Iterator[str]:
    """The page of a model without class token and without CLIP's text side."""
    settings = Settings(device="cpu", port=unused_port, budget=8, max_new_tokens=2)
    demo = build(tiny_qwen, settings)
    demo.launch(**launch_options(settings), prevent_thread_lock=True)
    yield f"http://127.0.0.1:{unused_port}"
    demo.close(verbose=False)


def test_what_cannot_run_is_listed_with_the_reason_and_not_chosen(browser, lacking: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(browsing.PATIENCE)
    browsing.Visitor(page).open(lacking)
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
    menu.press("ControlOrMeta+a")
    menu.press_sequentially("DivPrune")
    expect(page.get_by_role("option")).to_have_count(1)
    menu.press("Enter")
    expect(page.locator("#answers h3").nth(1)).to_have_text("A DivPrune · 8")
    page.close()
