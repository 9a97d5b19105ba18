"""Who is turned away reads why, and can ask again."""

from __future__ import annotations

import browsing

expect = browsing.expect

pytestmark = browsing.MARKS


def test_ask_comes_back_with_a_sentence(serve_public, browser, photo_file, hold) -> None:
    served = serve_public(max_waiting=1)
    held, page = hold(served), browser.new_page()
    try:
        visitor = browsing.Visitor(page).open(served.url)
        data = {"data": [served.picture(photo_file), "Is it red?", "spare", 5, 0]}
        for _ in range(100):  # the page's own first requests may still wait
            answer = served.post("call/select", data)
            if answer.status_code != 429:
                break
            page.wait_for_timeout(100)
        answer.raise_for_status()
        visitor.ask("Which number is it?")
        expect(page.get_by_text("as one address may have (1)").first).to_be_visible()
        expect(page.locator("#ask")).to_be_visible()
        expect(page.locator("#stop")).to_be_hidden()
    finally:
        held.goes_on.set()
        page.close()
