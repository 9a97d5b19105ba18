"""`compare --film`."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from spare_demo.cli.main import main
from spare_demo.models import LlavaModel

QUESTION = "Which number is written on the small triangle?"


@pytest.fixture
def command(
    tmp_path: Path,
    tiny_folder: Path,
    tiny_model: LlavaModel,
    photo: Image.Image,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    monkeypatch.setattr("spare_demo.cli.compare.load_model", lambda *args, **more: tiny_model)
    photo.save(tmp_path / "photo.png")
    start = ["compare", str(tmp_path / "photo.png"), QUESTION, "--model", str(tiny_folder)]
    return [*start, "--out", str(tmp_path / "out"), "--max-new-tokens", "3", "--budget", "5"]


@pytest.mark.parametrize(("name", "kind"), [("picks.webp", "WEBP"), ("picks.gif", "GIF")])
def test_a_film_of_the_budgets_up_to_that_of_the_comparison(
    command: list[str], tmp_path: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main([*command, "--film", str(path)]) == 0
    assert f"The film is {path}" in capsys.readouterr().out
    with Image.open(path) as film:
        assert (film.format, film.n_frames) == (kind, 4)  # 1, 2, 4 and 5 tokens


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--film", "picks.mp4"], "such as film.webp"),
        (["--film", "nowhere/picks.webp"], "There is no folder nowhere."),
        (["--film", "picks.webp", "--methods", "fastv"], "There is no pick order to show"),
    ],
)
def test_what_cannot_be_filmed_is_refused(
    command: list[str], flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *flags]) == 1
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_result_read_from_a_file_is_filmed_only_when_asked_again(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    path = tmp_path / "picks.webp"
    again = ["compare", "--from", str(tmp_path / "out" / "result.json"), "--out", str(tmp_path)]
    assert main([*again, "--film", str(path)]) == 1
    assert "Add --again" in capsys.readouterr().err and not path.exists()
    assert main([*again, "--film", str(path), "--again"]) == 0
    assert path.exists()
