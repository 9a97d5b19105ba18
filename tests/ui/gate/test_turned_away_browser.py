"""Who is turned away reads why, and can ask again."""

from __future__ import annotations

import threading

import httpx
import pytest

browsing = pytest.importorskip("browsing", reason="playwright is not installed")
expect = browsing.expect

pytestmark = browsing.MARKS


def test_ask_comes_back_with_a_sentence(serve_public, browser, photo_file, monkeypatch) -> None:
    served = serve_public(max_waiting=1)
    select = next(e for e in served.demo.fns.values() if e.api_name == "select")
    goes_on, page = threading.Event(), browser.new_page()
    monkeypatch.setattr(select, "fn", lambda *_: goes_on.wait(120) and {})
    try:
        visitor = browsing.Visitor(page).open(served.url)
        data = {"data": [served.picture(photo_file), "Is it red?", "spare", 5, 0]}
        httpx.post(served.api("call/select"), json=data, timeout=60).raise_for_status()
        visitor.ask("Which number is it?")
        expect(page.get_by_text("as one address may have (1)").first).to_be_visible()
        expect(page.locator("#ask")).to_be_visible()
        expect(page.locator("#stop")).to_be_hidden()
    finally:
        goes_on.set()
        page.close()
