"""The notebook runs from top to bottom, as a reader would run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "compare_two_methods.ipynb"


def test_the_notebook_compares_two_methods_and_adds_a_third(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        assert cell.get("outputs", []) == []  # none that could go stale
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    assert list(names["result"].answers) == ["unpruned", "spare", "cdpruner"]
    assert names["third"].answers["longest tokens"].visual_tokens == 32
    assert (names["folder"] / "comparison.png").is_file()
    assert "longest tokens   32 tokens" in capsys.readouterr().out
