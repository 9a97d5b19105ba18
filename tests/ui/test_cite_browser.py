"""The film and the BibTeX in the part that hands files over."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import MARKS, expect
from PIL import Image

pytestmark = [*MARKS, pytest.mark.long]


def test_the_film_is_made_step_by_step_and_saved(visitor, tmp_path: Path) -> None:
    visitor.unfold("keep")
    button = visitor.find(".cite .film")
    with visitor.page.expect_download() as download:
        button.click()
        expect(visitor.find(".cite .zip")).to_be_disabled()
    assert download.value.suggested_filename == "spare-picks.webp"
    download.value.save_as(tmp_path / "picks.webp")
    with Image.open(tmp_path / "picks.webp") as film:
        assert film.n_frames == 7  # 1, 2, 4 … 64 tokens
    expect(button).to_have_text("Save as film")
    expect(button).to_be_enabled()
    expect(visitor.find("#ask")).to_be_visible()


def test_a_link_that_cannot_be_copied_is_there_to_be_opened(reader) -> None:
    page = reader.page
    reader.unfold("keep")
    page.evaluate("SPARE.reallyCopy = SPARE.copy; SPARE.copy = async () => false")
    reader.find(".copy-link").click()
    link = reader.find(".copy-link + .copied a")
    expect(link).to_have_attribute("href", page.evaluate("SPARE.link.make()"))
    page.evaluate("SPARE.copy = SPARE.reallyCopy")


def test_a_file_can_be_taken_for_a_minute(reader) -> None:
    kept = reader.page.evaluate("""() => {
        const real = window.setTimeout;
        let kept = 0;
        window.setTimeout = (_, milliseconds) => { kept = milliseconds; };
        SPARE.save(new Blob(['1, 2']), 'picks.txt');
        window.setTimeout = real;
        return kept;
    }""")
    assert kept >= 60_000


def test_a_button_under_the_answers_leads_to_it(visitor) -> None:
    for _ in range(2):  # also where it is open
        visitor.find("#save-or-cite").click()
        expect(visitor.find("#keep .cite .copy-link")).to_be_in_viewport()
        expect(visitor.find("#keep > .label-wrap")).to_be_focused()


def test_a_button_has_the_focus_again_once_its_file_is_made(visitor) -> None:
    visitor.unfold("keep")
    button = visitor.find(".cite .page")
    with visitor.page.expect_download():
        button.press("Enter")
    expect(button).to_be_enabled()
    expect(button).to_be_focused()


def test_stop_ends_a_film(visitor) -> None:
    visitor.unfold("keep")
    button = visitor.find(".cite .film")
    visitor.page.evaluate("SPARE.setBudget(576, true)")
    visitor.expect_answers(576, 576, 576)
    button.click()
    visitor.find("#stop").click()
    expect(button).to_have_text("Save as film")
    expect(button).to_be_enabled()
    visitor.expect_answers(576, 576, 576)


def test_the_bibtex_is_of_the_methods_on_the_page(visitor) -> None:
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.unfold("keep")
    visitor.find(".copy-bibtex").click()
    expect(visitor.find(".copy-bibtex + .copied")).to_have_text("Copied.")
    text = visitor.page.evaluate("navigator.clipboard.readText()")
    assert [line for line in text.splitlines() if line.startswith("@")] == [
        "@misc{spare-demo,",
        "@misc{spare,",
        "@misc{cdpruner,",
    ]
