"""Every family from its folder through everything that a person starts: compare, export, evaluate,
page. What each step gives is held against the family's own tests; here it must work at all, in
every way of seeing, and agree about the number of tokens.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import references
from PIL import Image
from tiny_families import FAMILIES, FOLDERS, TINY
from torch import nn
from visits import controls, finished_answers

from spare_demo import Request, compare
from spare_demo.cli.main import main
from spare_demo.evaluation.results import load
from spare_demo.models import Model
from spare_demo.models.families import FAMILIES as CLASSES
from spare_demo.pruners import PRUNERS
from spare_demo.results.export import cite
from spare_demo.results.io import read_result
from spare_demo.settings import Settings
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers

QUESTION = "What colour is the circle?"
PAIR = {"method_a": "divprune", "method_b": "cdpruner-diversity"}


def test_every_family_has_a_tiny_checkpoint() -> None:
    assert TINY.keys() == CLASSES.keys(), (
        "Let tests/tiny_checkpoint.py write a checkpoint of the family, give it fixtures in "
        "tests/conftest.py, and name the loaded one in TINY of tests/tiny_families.py."
    )


@pytest.fixture(params=zip(FAMILIES, FOLDERS, strict=True), ids=FAMILIES)
def family(request: pytest.FixtureRequest) -> tuple[Model, Path]:
    model, folder = map(request.getfixturevalue, request.param)
    return model, folder


def test_its_modules_are_all_but_the_language_models(family: tuple[Model, Path]) -> None:
    """Of those that quantisation leaves whole, and of those that a picture's tokens come from."""
    model, _ = family
    linear = {name for name, module in model.hf.named_modules() if isinstance(module, nn.Linear)}
    quantised = {name for name in linear if not name.startswith(model.kept_whole)}
    assert quantised == {name for name in linear if name.startswith("model.language_model.")}
    weights = {name for name, _ in model.hf.model.named_parameters()}
    vision = {name for name in weights if name.startswith(model.vision_modules)}
    assert vision == {name for name in weights if not name.startswith("language_model.")}


def some_of_each_kind(model: Model) -> list[str]:
    """Of those that can run on it: greedy with and without text, merging, of pairs, at random.

    test_methods.py runs all of them.
    """
    kinds = ("spare", "cdpruner-diversity", "visionzip", "divprune", "random")
    return [name for name in kinds if PRUNERS[name].reason_against(model.supplies) is None]


def test_compared_exported_and_reopened(family: tuple[Model, Path], photo: Image.Image) -> None:
    model, _ = family
    for aspect in model.aspects:
        chosen = some_of_each_kind(model)
        found = compare(model, photo, QUESTION, chosen, "50%", 2, aspect=aspect)
        whole = found.answers["unpruned"]
        assert whole.visual_tokens == found.view.grid.n == found.view.tokens.n
        for name in chosen:
            answer = found.answers[name]
            assert answer.visual_tokens == found.budget == found.selections[name].size, name
            assert answer.newline_tokens == whole.newline_tokens
            dropped = whole.prompt_tokens - answer.prompt_tokens
            assert dropped == whole.visual_tokens - answer.visual_tokens
        with zipfile.ZipFile(io.BytesIO(cite(found, ["kept", "difference"]))) as file:
            text = file.read("result.json").decode()
            assert any(name.endswith(".png") for name in file.namelist())
        again = read_result(text).result
        assert again.grid.boxes.tolist() == found.grid.boxes.tolist()
        for name in chosen:
            assert again.selections[name].order.tolist() == found.selections[name].order.tolist()


def test_what_a_notebook_shows_is_short(family: tuple[Model, Path], photo: Image.Image) -> None:
    model, _ = family
    image = io.BytesIO()
    photo.save(image, "PNG")
    request = Request(image=image.getvalue(), question=QUESTION)
    view = model.encode(photo, QUESTION)
    chosen = PRUNERS["visionzip" if model.clip_tower else "divprune"].select(view.tokens, 4)
    answer = model.answer(view, chosen, max_new_tokens=2)
    short = model.answer_many([(view, chosen)], max_new_tokens=2)
    for value in (view, view.tokens, view.picture, chosen, answer, short, request):
        assert len(repr(value)) < 700, repr(value)
    assert f"{model.name} {model.revision}" in repr(model)
    assert QUESTION in repr(view) and str(view.tokens.n) in repr(view)
    assert str(view.tokens.n) in repr(view.tokens) and str(chosen.order) in repr(chosen)


def test_the_commands(family: tuple[Model, Path], photo_file: str, tmp_path: Path) -> None:
    _, folder = family
    loaded = ("--model", str(folder), "--device", "cpu", "--max-new-tokens", "2")
    methods = ("--methods", "divprune", "cdpruner-diversity")
    asked = ["compare", photo_file, QUESTION, "--out", str(tmp_path / "one"), "--budget", "50%"]
    assert main([*asked, *loaded, *methods]) == 0
    told = json.loads((tmp_path / "one" / "result.json").read_text())
    assert told["settings"]["budget"] == round(told["visual_tokens"] / 2)
    measured = ["evaluate", "--out", str(tmp_path / "many"), "--questions", "2", "--budgets", "5"]
    assert main([*measured, *loaded, *methods, "--resamples", "20"]) == 0
    _, rows, _ = load(tmp_path / "many")
    assert {row.method for row in rows} == {"unpruned", "blank", "divprune", "cdpruner-diversity"}
    assert all(row.budget == 5 for row in rows if row.method in PRUNERS)


@pytest.fixture
def entered(family: tuple[Model, Path]) -> Iterator[list[int]]:
    """How many tokens enter the language model, pass by pass."""
    lengths: list[int] = []
    with family[0].hf.model.language_model.register_forward_pre_hook(
        lambda module, given, named: lengths.append(named["inputs_embeds"].shape[1]),
        with_kwargs=True,
    ):
        yield lengths


def test_the_page(family: tuple[Model, Path], photo_file: str, entered: list[int]) -> None:
    model, _ = family
    handlers = Handlers(model, Settings(budget=4, max_new_tokens=2))
    for aspect in model.aspects:
        entered.clear()
        shown: dict = {}
        for values in handlers.ask(
            **controls(photo_file, QUESTION, aspect=aspect, budget=4, **PAIR)
        ):
            shown |= values
        visit = shown["visit"]
        assert shown["message"] == "" and finished_answers(shown["answers"]) == 3
        assert f"All {visit.exploration.n} tokens" in shown["answers"]
        cells = r"</th><td>(\d+)</td><td>(\d+)</td><td>(\d+)</td>"
        told = {
            line: [int(count) for count in re.findall(line + cells, shown["cost"])[0]]
            for line in ("tokens in", "visual tokens in")
        }
        prompts = [length for length in entered if length > 3]  # a step: one token of each answer
        assert told["tokens in"] == [prompts[-1], *prompts[:-1]]  # the shortest are read first
        assert told["visual tokens in"] == [visit.exploration.n, 4, 4]
        newlines = len(visit.exploration.view.picture.breaks)
        assert (f"{newlines} newline tokens go in as well" in shown["cost"]) == bool(newlines)
        assert bool(newlines) == (aspect == "any")
        measured = list(handlers.studies.measure(4, visit))
        assert measured[-1]["visit"].result.kl is not None
        assert list(handlers.studies.enough(visit))[-1]["enough"]
        assert list(handlers.replies.why({"patch": 1, "budget": 4, "step": "own"}, visit))
        assert list(handlers.replies.cite({"panels": ["difference"]}, visit))


@pytest.mark.parametrize("size", [(2000, 10), pytest.param((10, 2000), marks=pytest.mark.long)])
def test_a_strip_of_1_to_200_on_page_and_command_line(
    family: tuple[Model, Path], tmp_path: Path, size: tuple[int, int]
) -> None:
    model, folder = family
    picture = tmp_path / "strip.png"
    references.gradients(*size).save(picture)
    handlers = Handlers(model, Settings(budget=1, max_new_tokens=2))
    for aspect in model.aspects:
        shown: dict = {}
        for values in with_refusals(handlers.ask)(
            **controls(str(picture), QUESTION, aspect=aspect, budget=1, **PAIR)
        ):
            shown |= values
        visit = shown["visit"]
        assert shown["message"] == "" and finished_answers(shown["answers"]) == 3
        assert visit.result.answers["A"].visual_tokens == 1
        assert shown["stage"]["picture"].startswith(b"\x89PNG")
        argv = ["compare", str(picture), QUESTION, "--out", str(tmp_path / str(aspect))]
        argv += ["--model", str(folder), "--device", "cpu", "--aspect", str(aspect)]
        argv += ["--methods", "divprune", "--budget", "50%", "--max-new-tokens", "1", "--zip"]
        assert main(argv) == 0
        told = json.loads((tmp_path / str(aspect) / "result.json").read_text())
        assert told["visual_tokens"] == visit.exploration.n


@pytest.mark.parametrize("size", [(2001, 10), (10, 2001)])
def test_a_longer_strip_is_refused_by_qwen_alone_and_with_the_limit(
    tiny_model: Model,
    tiny_next: Model,
    tiny_qwen: Model,
    tiny_qwen_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    size: tuple[int, int],
) -> None:
    picture = tmp_path / "strip.png"
    references.gradients(*size).save(picture)
    assert tiny_model.look(picture).grid.n and tiny_next.look(picture).grid.n
    handlers = Handlers(tiny_qwen, Settings(budget=1, max_new_tokens=1))
    asked = controls(str(picture), QUESTION, aspect=tiny_qwen.aspect(None), budget=1, **PAIR)
    *_, last = with_refusals(handlers.ask)(**asked)
    argv = ["compare", str(picture), QUESTION, "--out", str(tmp_path / "out"), "--budget", "1"]
    argv += ["--model", str(tiny_qwen_folder), "--device", "cpu", "--methods", "divprune"]
    limit = "at most 200 times as long as wide"
    assert main(argv) == 1
    assert limit in last["message"] and limit in capsys.readouterr().err
