"""A method of one file and one line of the table appears everywhere, settings and all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from spare_demo import __main__ as program
from spare_demo.methods_table import markdown
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings
from spare_demo.ui.api import Api
from spare_demo.ui.tuning import menu

FILE = """
from dataclasses import dataclass, field

import torch

from spare_demo.pruners.base import Pruner, setting
from spare_demo.tokens import Selection


@dataclass(frozen=True)
class EveryOther(Pruner):
    start: int = field(default=0, metadata=setting("Start", "The first token.", limits=(0, 9)))

    name = "every-other"
    title = "Every other"
    summary = "Every other token from the start on."
    cost = "O(k)"
    reads_features = False

    def _select(self, tokens, k):
        turns = torch.arange(tokens.n).roll(-self.start)
        return Selection(torch.cat([turns[::2], turns[1::2]])[:k])
"""


@pytest.fixture
def _added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "every_other.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    from every_other import EveryOther  # type: ignore[import-not-found]

    monkeypatch.setitem(PRUNERS, "every-other", EveryOther())
    yield
    del sys.modules["every_other"]


@pytest.mark.usefixtures("_added")
def test_on_the_command_line_and_in_the_table(
    tmp_path: Path,
    photo: Image.Image,
    tiny_model: LlavaModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["methods"]) == 0
    assert "every-other" in capsys.readouterr().out
    assert "`every-other`" in markdown() and "`every-other.start` | 0 | 0 to 9" in markdown()
    monkeypatch.setattr(program, "load_model", lambda name, device, **_: tiny_model)
    photo.save(tmp_path / "photo.png")
    argv = ["compare", str(tmp_path / "photo.png"), "", "--out", str(tmp_path / "out")]
    argv += ["--methods", "every-other", "--set", "every-other.start=1", "--budget", "3"]
    assert program.main([*argv, "--max-new-tokens", "1"]) == 0
    assert "Every other (start=1)" in capsys.readouterr().out
    assert '"order": [\n    1,\n    3,\n    5\n   ]' in (tmp_path / "out/result.json").read_text()


@pytest.mark.usefixtures("_added")
def test_on_the_page_and_in_the_api(
    tmp_path: Path, photo: Image.Image, tiny_model: LlavaModel
) -> None:
    assert ("Every other", "every-other") in menu(tiny_model.reason_against)
    photo.save(tmp_path / "photo.png")
    api = Api(tiny_model, Settings(max_new_tokens=1))
    sent = (str(tmp_path / "photo.png"), "", "every-other:start=2", "random", 4, 0)
    selections = api.compare(*sent)["selections"]
    assert selections["every-other:start=2"]["order"] == [2, 4, 6, 8]
