"""The page of `board` in headless Chromium, from the disk and without a network."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import browsing
import pytest

from spare_demo.evaluation.board import make_board, read_folders
from spare_demo.evaluation.board_page import board_html
from spare_demo.evaluation.records import Row
from spare_demo.evaluation.results import Results

expect = browsing.expect

# A browser of its own for a page that no other test shows.
pytestmark = [*browsing.MARKS, pytest.mark.long]

RIGHT = {"spare": 5, "random": 12, "uniform": 9}
"""Of 24 questions, how many each method answers right at 16 tokens; at 64, or 25%, it is one
more."""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    rows = []
    for picture in range(24):
        head = ("data", f"{picture}.png", 0, "q", "t", "a")
        rows.append(Row(*head, True, "", "unpruned", 576, 0.0, 0.0))
        for label, right in RIGHT.items():
            rows.append(Row(*head, picture < right, "", label, 16, 0.1, 0.5))
            budget = "25%" if label == "uniform" else 64
            rows.append(Row(*head, picture <= right, "", label, budget, 0.1, 0.5))
    model = {"name": "m", "revision": "r"}
    settings = {"model": model, "methods": {label: {"name": label} for label in RIGHT}}
    with Results(tmp_path / "folder", settings, {}, 1) as results:
        results.add(rows)
    file = tmp_path / "board.html"
    file.write_text(board_html(make_board(read_folders([tmp_path / "folder"]))))
    return file


def column(page: Any, table: int, number: int) -> list[str]:
    """The cells of a table's column, the head not among them."""
    rows = page.locator("table").nth(table).locator("tbody tr")
    return [row.locator("th, td").nth(number).inner_text() for row in rows.all()]


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_it_sorts_by_a_click_alone_and_axe_finds_nothing(
    browser: Any, board: Path, width: int, theme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is missing")
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme)
    page, errors, requests = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(board.as_uri())
    order = ["All tokens", "SPARE", "Random", "Uniform grid"]
    assert column(page, 0, 0) == order
    head = page.locator("table").first.locator("thead th").nth(3)
    expect(head).to_have_text("64 tokens")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert column(page, 0, 0) == ["Random", "SPARE", "All tokens", "Uniform grid"]  # empty last
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert column(page, 0, 0) == ["SPARE", "Random", "All tokens", "Uniform grid"]
    page.locator("table").first.get_by_role("button", name="method").click()
    assert column(page, 0, 0) == sorted(order)
    assert page.locator("table").first.locator("[aria-sort]").count() == 1
    page.locator("table").nth(1).get_by_role("button", name="adjusted p").click()
    found = [float(text.removeprefix("<")) for text in column(page, 1, 7)]
    assert found == sorted(found, reverse=True) and len(set(found)) > 1
    page.locator("table").nth(1).get_by_role("button", name="budget").click()
    budgets = ["25% of the tokens"] + ["64 tokens"] * 2 + ["16 tokens"] * 3
    assert column(page, 1, 2) == budgets
    page.evaluate(files(axe.__name__).joinpath("axe.min.js").read_text())
    violations = page.evaluate("axe.run(document)")["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 720, "height": 1000})  # of a sheet
    page.emulate_media(media="print")
    hidden = "all => all.map(box => box.scrollWidth - box.clientWidth)"
    assert max(page.locator(".wide").evaluate_all(hidden)) <= 0
    assert errors == [] and requests == [board.as_uri()]
    context.close()
