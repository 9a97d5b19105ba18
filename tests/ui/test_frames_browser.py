"""The program that measures the page really drives it."""

from __future__ import annotations

import browsing
import frames

pytestmark = browsing.MARKS


def test_a_visit_is_timed_to_its_end(browser, served) -> None:
    driver = frames.Driver(browser, served.url, browsing.PATIENCE / 1000)
    assert driver.open() > 0
    pictures, answers = driver.ask()
    assert 0 < pictures <= answers
    for count, layers in frames.LAYERS.items():
        if count == "2,880":
            driver.enlarge()
        assert driver.page.evaluate("SPARE.state.data.n") == int(count.replace(",", ""))
        for layer in layers:
            between, drawn, remark = driver.scrub(layer, 4)
            assert (len(between), len(drawn), remark) == (4, 4, "")
            assert driver.page.evaluate("[SPARE.state.layer, SPARE.state.k]") == [
                layer,
                driver.page.evaluate("SPARE.state.data.n"),
            ]
    driver.page.close()
