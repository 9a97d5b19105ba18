"""The notebook runs from top to bottom, as a reader would run it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spare_demo import PRUNERS
from spare_demo.evaluation.results import load

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "walkthrough.ipynb"


@pytest.fixture
def _without_its_method() -> Iterator[None]:
    """What the notebook adds to the table is gone after it."""
    yield
    PRUNERS.pop("longest", None)


def run_cell(source: str, names: dict[str, Any]) -> str:
    """Runs a cell; the HTML of its last line, where that has a value that shows itself so."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    value = last and eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else ""


@pytest.mark.usefixtures("_without_its_method")
def test_the_notebook_prunes_looks_adds_a_method_and_measures_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []  # none that could go stale
        if cell["cell_type"] == "code":
            shown.append(run_cell("".join(cell["source"]), names))
    out = capsys.readouterr().out
    # Pruned in a stock model's generate: the answers are those of `compare`.
    answers = names["result"].answers
    assert list(answers) == ["unpruned", "spare", "cdpruner"]
    for method in ("spare", "cdpruner"):
        assert f"{method:>10}  32 tokens  {answers[method].text}\n" in out
    (page,) = filter(None, shown)
    assert page.startswith("<iframe srcdoc=") and "CDPruner" in page
    assert names["third"].selections["longest"].order.numel() == 32
    settings, rows, _ = load(names["folder"])
    assert list(settings["methods"]) == ["longest", "spare", "random"]
    assert len(rows) == 120 * (1 + 3)
    assert "differences from Random" in out and "Longest features" in names["page"].read_text()
