"""A method that another package brings in one file appears everywhere, settings and all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from visits import controls

from spare_demo.cli import compare as compare_command
from spare_demo.cli import main as program
from spare_demo.cli.methods_table import markdown
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.other_packages import add_methods
from spare_demo.settings import METHODS_GROUP, Settings
from spare_demo.ui.api import Api
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.tuning import menu

FILE = """
from dataclasses import dataclass

import torch

from spare_demo.pruners.base import Pruner, setting
from spare_demo.tokens import Selection


@dataclass(frozen=True)
class EveryOther(Pruner):
    start: int = setting(0, "Start", "The first token.", limits=(0, 9))
    step: int = 2

    name = "every-other"
    title = "Every other"
    summary = "Every other token from the start on."
    cost = "O(k)"
    reads_features = False

    def _select(self, tokens, k):
        turns = torch.arange(tokens.n).roll(-self.start)
        return Selection(torch.cat([turns[i :: self.step] for i in range(self.step)])[:k])
"""


INSIDE = """
from dataclasses import dataclass

import torch

from spare_demo.pruners.base import setting
from spare_demo.pruners.inside.base import LayerPruner
from spare_demo.pruners.plan import Choice, Stop


@dataclass(frozen=True)
class LastOnes(LayerPruner):
    layer: int = setting(1, "Layer", "Where it acts.", limits=(1, 2))

    name = "last-ones"
    title = "Last ones"
    summary = "From one layer on the last tokens."
    cost = "O(k)"

    def lowest(self, n, depth):
        return 1

    def stops(self, n, depth, k):
        return (Stop(self.layer, k),)

    def choose(self, reading, stop):
        return Choice(torch.arange(len(reading.visual))[-stop.keep:])
"""


ENTRIES = """
[spare_demo.methods]
every-other = every_other:EveryOther
last-ones = last_ones:LastOnes
"""


def install(folder: Path, entries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what an installed package with these entry points leaves."""
    (folder / "mine-1.dist-info").mkdir(exist_ok=True)
    (folder / "mine-1.dist-info/METADATA").write_text("Name: mine\nVersion: 1\n")
    (folder / "mine-1.dist-info/entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def _added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "every_other.py").write_text(FILE)
    (tmp_path / "last_ones.py").write_text(INSIDE)
    before = dict(PRUNERS)
    install(tmp_path, ENTRIES, monkeypatch)
    add_methods(entry_points(group=METHODS_GROUP))
    yield
    for name in PRUNERS.keys() - before.keys():
        del PRUNERS[name]
    del sys.modules["every_other"], sys.modules["last_ones"]


def compared(photo_file: str, question: str, method: str, setting: str) -> dict[str, Any]:
    """The result.json of the command line, for one method with a setting, at 3 tokens."""
    folder = Path(photo_file).parent / "out"
    argv = ["compare", photo_file, question, "--out", str(folder), "--max-new-tokens", "1"]
    argv += ["--methods", method, "--set", f"{method}.{setting}", "--budget", "3"]
    assert program.main(argv) == 0
    told: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return told


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("mine = nowhere:Mine", "'mine' cannot be loaded from nowhere:Mine: ModuleNotFoundError"),
        ("spare = spare_demo.pruners.random:Random", "'spare', but another one has that name"),
        ("mine = spare_demo.pruners.random:Random", "'mine', but its name is 'random'"),
        ("mine = json:JSONDecoder", "'mine', but is not one"),
        ("every-other = undecorated:EveryOther", "EveryOther must be a dataclass"),
        ("every-other = misspelt:EveryOther", "The method 'every-other' cannot need 'attention'"),
    ],
)
def test_one_that_cannot_be_added_is_a_sentence(
    entry: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "undecorated.py").write_text(FILE.replace("@dataclass(frozen=True)", ""))
    misspelt = FILE.replace("step: int", "needs = frozenset({'attention'})\n    step: int")
    (tmp_path / "misspelt.py").write_text(misspelt)
    install(tmp_path, f"[spare_demo.methods]\n{entry}\n", monkeypatch)
    assert program.main(["methods"]) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.usefixtures("_added")
def test_on_the_command_line_and_in_the_table(
    photo_file: str,
    tiny_model: LlavaModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["methods"]) == 0
    assert "every-other" in capsys.readouterr().out
    assert "`every-other`" in markdown() and "`every-other.start` | 0 | 0 to 9" in markdown()
    monkeypatch.setattr(compare_command, "load_model", lambda name, device, **_: tiny_model)
    assert "`every-other.step` | 2 |" in markdown()
    told = compared(photo_file, "", "every-other", "step=3")
    assert told["selections"]["every-other"]["order"] == [0, 3, 6]
    capsys.readouterr()
    told = compared(photo_file, "", "every-other", "start=1")
    assert "Every other (start=1)" in capsys.readouterr().out
    assert told["selections"]["every-other"]["order"] == [1, 3, 5]


@pytest.mark.usefixtures("_added")
def test_on_the_page_and_in_the_api(photo_file: str, tiny_model: LlavaModel) -> None:
    assert ("Every other", "every-other") in menu(tiny_model.reason_against)
    api = Api(tiny_model, Settings(max_new_tokens=1))
    sent = (photo_file, "", "every-other:start=2", "random", 4, 0)
    selections = api.compare(*sent)["selections"]
    assert selections["every-other:start=2"]["order"] == [2, 4, 6, 8]


@pytest.mark.usefixtures("_added")
def test_its_picks_and_answer_are_on_the_page(photo_file: str, tiny_model: LlavaModel) -> None:
    handlers = Handlers(tiny_model, Settings(max_new_tokens=1))
    methods = {"method_a": "every-other:start=2", "method_b": "last-ones:layer=2"}
    shown: dict[str, Any] = {}
    for step in handlers.ask(**controls(photo_file, "Why?", budget=4, **methods)):
        shown |= step
    labels = {slot: told["label"] for slot, told in shown["stage"]["methods"].items()}
    assert labels == {"A": "A Every other (start=2)", "B": "B Last ones (layer=2)"}
    assert "A Every other (start=2) · 4" in shown["answers"]
    layers = json.loads(shown["reply"])["slots"]["B"]
    assert layers["counts"] == [16, 16, 4]
    assert shown["visit"].result.answers["B"].set_at(2).kept.tolist() == [12, 13, 14, 15]


@pytest.mark.usefixtures("_added")
def test_one_inside_the_language_model_is_everywhere_too(
    tmp_path: Path,
    photo_file: str,
    tiny_model: LlavaModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare_command, "load_model", lambda name, device, **_: tiny_model)
    whole = compared(photo_file, "Why?", "last-ones", "layer=2")
    plan = whole["plans"]["last-ones"]
    assert "Last ones (layer=2)" in capsys.readouterr().out
    assert plan["per_layer"] == [16, 16, 3]
    assert whole["answers"]["last-ones"]["layer_sets"][-1]["kept"] == [13, 14, 15]
    assert ("Last ones", "last-ones") in menu(tiny_model.reason_against)
    assert "`last-ones.layer` | 1 | 1 to 2" in markdown()
    sent = (photo_file, "Why?", "last-ones", "random", 4, 0)
    told = Api(tiny_model, Settings(max_new_tokens=1)).compare(*sent)
    assert told["plans"]["last-ones"]["per_layer"] == [16, 4, 4]
    argv = ["evaluate", "--out", str(tmp_path / "runs"), "--methods", "last-ones"]
    monkeypatch.setattr("spare_demo.cli.evaluate.load_model", lambda *_, **__: tiny_model)
    assert program.main([*argv, "--questions", "2", "--budgets", "5", "--resamples", "9"]) == 0
    assert "last-ones" in (tmp_path / "runs/results.csv").read_text()
