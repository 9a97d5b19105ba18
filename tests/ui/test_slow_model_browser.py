"""A model that takes long: the page is served before its first answers are there."""

from __future__ import annotations

from collections.abc import Iterator

import browsing
import pytest
from pages import serving

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings

expect = browsing.expect

pytestmark = browsing.MARKS


@pytest.fixture
def address(
    tiny_model: LlavaModel, unused_port: int, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setattr(tiny_model, "warm_up_seconds", 60.0)
    settings = Settings(device="cpu", port=unused_port, budget=5, max_new_tokens=2)
    with serving(tiny_model, settings) as page:
        assert "answer" not in passes
        yield page.url


def test_the_first_visitor_asks_and_the_next_finds_it_finished(
    open_window, address: str, passes: list[str]
) -> None:
    for _ in range(2):
        visitor = open_window(address)
        expect(visitor.find("#answers .figures").last).to_contain_text("prefill")
        expect(visitor.caption).to_contain_text("tokens in common")
        expect(visitor.find("#ask")).to_be_visible()
        assert passes.count("answer") == 3
