"""docs/EVALUATION_FOLDER.md against a folder that was just measured."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import pytest

from spare_demo.cli.main import main
from spare_demo.evaluation.records import Skipped
from spare_demo.evaluation.results import FORMAT, SKIPPED

PAGE = (Path(__file__).parents[2] / "docs" / "EVALUATION_FOLDER.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[str]:
    """The first cells of the table below a heading; of the first table for none."""
    part = PAGE.partition(f"## {heading}\n")[2] if heading else PAGE
    (first, *_) = re.findall(r"(?:^\|.*\n)+", part, re.MULTILINE)
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", first, re.MULTILINE)
    assert len(rows) == first.count("\n") - 2  # besides the head and its rule
    for _, cells in rows:
        assert all(cell.strip() for cell in cells.replace(r"\|", "").split("|"))
    return [name for name, _ in rows]


@pytest.fixture(scope="module")
def folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("measured") / "out"
    words = ["evaluate", "--out", str(out), "--model", str(tiny_folder), "--device", "cpu"]
    words += ["--questions", "4", "--budgets", "3", "8", "--methods", "spare", "random"]
    assert main([*words, "--max-new-tokens", "2", "--resamples", "20"]) == 0
    return out


def fields(value: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """The names of all fields, those of objects by dots; of the methods only their own name."""
    for name, inner in value.items():
        if isinstance(inner, dict) and name != "methods":
            yield from fields(inner, f"{within}{name}.")
        else:
            yield within + name


def test_the_files_are_those_of_the_page(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert sorted(documented("")) == sorted(names | {SKIPPED})  # where questions were too long
    assert f"**Format {FORMAT}.**" in PAGE


def test_the_charts_are_those_of_the_page(folder: Path) -> None:
    drawn = re.findall(r"<h2>held-out: (.*)</h2>", (folder / "figures.html").read_text("utf-8"))
    assert [title.removesuffix(" at 8 tokens") for title in drawn] == [
        *("Right answers at each budget", "Right answers by number of skills"),
        "Relative reconstruction error at each budget",
    ]
    assert "accuracy and reconstruction error by budget, accuracy by number of skills" in PAGE


@pytest.mark.parametrize("name", ["results.csv", "relevance.csv"])
def test_the_columns_are_those_of_the_page_in_order(folder: Path, name: str) -> None:
    with open(folder / name, encoding="utf-8", newline="") as stream:
        head, *lines = csv.reader(stream)
    assert head == documented(name)
    assert lines and {len(line) for line in lines} == {len(head)}


def test_the_columns_of_what_is_left_out_are_those_of_the_page() -> None:
    assert [field.name for field in fields_of(Skipped)] == documented(SKIPPED)


def test_the_settings_are_those_of_the_page(folder: Path) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    assert list(fields(settings)) == documented("settings.json")
    assert list(settings["methods"]) == ["spare", "random"]
    assert all("name" in method for method in settings["methods"].values())


def test_the_summary_is_that_of_the_page(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary) == ["settings", "sets"]
    assert summary["settings"] == json.loads((folder / "settings.json").read_text())
    (of_set,) = summary["sets"].values()
    assert list(of_set) == documented("summary.json")
    estimate = {"value", "low", "high", "count"}
    cells = [of_set[name] for name in ("accuracy", "difference", "behind_best", "kl", "error")]
    assert of_set["tests"] and all(
        set(test) == {"method", "budget", "p", "adjusted"} for test in of_set["tests"]
    )
    assert set(of_set["best"]) == {"3", "8"} and set(of_set["pairs"]) == {"right", "error", "kl"}
    for name in ("skills", "numbers_of_skills", "combinations"):
        cells += of_set[name].values()
    for cell in (cell for several in cells for cell in several):
        assert set(cell) == estimate | {"method", "budget"}
    places = set(documented("relevance.csv")[4:])
    for layer in of_set["places"].values():
        assert set(layer) <= places and all(set(e) == estimate for e in layer.values())
