"""The photos that a model other than the built-in one is offered, chosen once and once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import browsing
import pytest
from pages import serving

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui.examples import load_examples

expect = browsing.expect

pytestmark = browsing.MARKS


@pytest.fixture
def address(tiny_model: LlavaModel, unused_port: int) -> Iterator[str]:
    settings = Settings(device="cpu", port=unused_port, budget=5, max_new_tokens=2)
    with serving(tiny_model, settings) as page:
        yield page.url


def test_a_photo_chosen_again_asks_its_other_question_wherever_the_program_was_started(
    open_window,
    tiny_model: LlavaModel,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # Gradio sends pictures of the present folder unasked
    page = open_window(address).page
    photo = load_examples(tiny_model.name)[1]
    first, second = photo.answers
    button = page.locator("#examples button").nth(1)
    label = f"Example: {first} Click it again to ask: {second}"
    expect(button).to_have_attribute("aria-label", label)
    for question in (first, second, first):
        button.click()
        expect(page.locator("#question textarea")).to_have_value(question)
        expect(page.locator("#answers .asked")).to_have_attribute("data-question", question)
        expect(page.locator("#truth")).to_contain_text(f"True answer: {photo.answers[question]}")
    expect(page.locator("#scene")).to_have_count(0)
