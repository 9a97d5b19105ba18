"""docs/METHODS_TABLE.md is what the methods say of themselves, whatever the clock said."""

from __future__ import annotations

import re
from pathlib import Path

from spare_demo.cli.methods_table import markdown, measure_methods
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS

PAGE = Path(__file__).parents[2] / "docs" / "METHODS_TABLE.md"


def untimed(page: str) -> str:
    page = re.sub(r"\| [\d.]+ ms \|", "| – |", page)
    return re.sub(r"^Measured: .*$", "Measured: not measured.", page, flags=re.MULTILINE)


def test_the_page_is_in_step_with_the_methods() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert untimed(written) == markdown(), (
        "Run: python -m spare_demo methods --table --model built-in > docs/METHODS_TABLE.md"
    )
    assert len(re.findall(r"\| [\d.]+ ms \|", written)) >= len(PRUNERS) - 4  # it was measured


def test_every_method_and_every_setting_has_its_row() -> None:
    lines = markdown().splitlines()
    for name, method in PRUNERS.items():
        (row,) = [line for line in lines if line.startswith(f"| `{name}` |")]
        assert row.count("|") == 11
        assert method.cost in row and method.cost
        settings = [line for line in lines if line.startswith(f"| `{name}.")]
        assert len(settings) == len(vars(method))
    assert "| `divprune.metric` | cosine | cosine, euclidean |" in markdown()


def test_the_table_says_both_counts_of_a_budget() -> None:
    rows = {
        line.split("`")[1]: line.split(" | ") for line in markdown().splitlines() if "`" in line
    }
    for name in ("fastv", "dart"):
        assert rows[name][4] == "the average over layers; its paper: tokens after layer K only"
    assert rows["pyramiddrop"][4] == "the average over layers"
    assert rows["sparsevlm"][4].startswith("as its paper: a layer counts as pruned")
    assert (rows["spare"][4], rows["visionzip"][4]) == ("tokens that enter", "rows that enter")


def test_what_is_measured_is_every_method_that_can_run(tiny_model: LlavaModel, monkeypatch) -> None:
    monkeypatch.setattr("spare_demo.cli.methods_table.BUDGET", 5)
    seconds, where = measure_methods(tiny_model)
    # Its three layers are too few for the schedules that prune three times.
    able = [name for name, m in PRUNERS.items() if len(getattr(m, "stop_layers", ())) < 3]
    assert PRUNERS.keys() - able >= {"pyramiddrop", "sparsevlm", "sparsevlm-plus", "v2drop"}
    assert list(seconds) == able and min(seconds.values()) > 0
    assert "5 of 16 tokens 32 wide" in where and "CPU" in where
    assert where.endswith("at the least budget that the method can meet where that is more than 5")
    page = markdown(seconds, where)
    assert page.count(" ms |") == len(able) and where in page
    mute = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mute")
    spoken, _ = measure_methods(mute)
    assert set(spoken) == {name for name in able if mute.reason_against(PRUNERS[name]) is None}
    assert markdown(spoken).count("| – |") == len(PRUNERS) - len(spoken)
