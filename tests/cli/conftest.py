"""Shared by the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from spare_demo.cli.main import main


@pytest.fixture
def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Runs the command with these options and returns what it says; nothing is loaded."""

    def load_nothing(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("spare_demo.cli.evaluate.load_model", load_nothing)

    def run(*more: str) -> str:
        out = tmp_path / "out"
        assert main(["evaluate", "--out", str(out), "--questions", "1", *more]) == 1
        assert not out.exists()
        return capsys.readouterr().err.strip()

    return run
