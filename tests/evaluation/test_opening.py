"""The rule that chooses what the page opens on, on made-up cases and on the shipped examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spare_demo.evaluation import opening
from spare_demo.evaluation.opening import FILE, RULE, Case, choose_opening, try_examples
from spare_demo.evaluation.opening import write_opening as write
from spare_demo.models import LlavaModel


def case(budget: int, right: str, first: float, second: float) -> Case:
    """right: "+" or "-" for all tokens and both methods."""
    whole, a, b = (mark == "+" for mark in right)
    return Case("a.png", "What?", budget, (whole, a, b), (first, second))


def test_it_is_the_largest_disagreement_of_which_one_is_right() -> None:
    cases = [
        case(16, "++-", 0.9, 0.3),
        case(24, "+-+", 0.1, 0.9),  # the second method may be the right one
        case(32, "+++", 0.99, 0.01),
        case(48, "+--", 0.99, 0.01),
        case(64, "-+-", 0.99, 0.01),
    ]
    assert choose_opening(cases).budget == 24


def test_of_equal_ones_it_is_the_smallest_budget_in_any_order() -> None:
    cases = [case(k, "++-", 0.75, 0.25) for k in (32, 16, 24)]
    assert choose_opening(cases).budget == choose_opening(cases[::-1]).budget == 16


@pytest.mark.parametrize("cases", [[], [case(16, "+++", 0.9, 0.1), case(24, "-+-", 0.9, 0.1)]])
def test_where_no_case_fits_it_says_how_many_were_tried(cases: list[Case]) -> None:
    with pytest.raises(ValueError, match=f"Of {len(cases)} cases tried, none"):
        choose_opening(cases)


def test_the_shipped_choice_is_what_the_rule_gives_with_the_built_in_model(
    built_in: LlavaModel, tmp_path: Path
) -> None:
    cases = list(try_examples(built_in))
    assert len({(c.picture, c.budget) for c in cases}) == len(cases) >= 20
    write(choose_opening(cases), tmp_path / "opening.json")
    assert json.loads((tmp_path / "opening.json").read_text()) == json.loads(FILE.read_text())
    assert json.loads(FILE.read_text())["rule"] == RULE


def test_help_asks_no_model_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["opening", "--help"])
    monkeypatch.delattr(opening, "load_model")
    with pytest.raises(SystemExit) as ended:
        opening.main()
    assert ended.value.code == 0
    assert "opening.json" in capsys.readouterr().out
