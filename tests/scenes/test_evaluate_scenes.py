"""The measuring: right counted as right, repeatable, and blank where it says blank."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spare_demo.models import LlavaModel
from spare_demo.scenes import evaluate as module
from spare_demo.scenes.draw import draw
from spare_demo.scenes.evaluate import Result, evaluate, main, record, scores, table
from spare_demo.scenes.questions import Question, is_right
from spare_demo.scenes.sets import Sample, samples
from spare_demo.scenes.world import World, rng_of, sample_scene


class Oracle:
    """Knows every answer as long as it sees the scene; of anything else it says "no"."""

    name, revision = "oracle", "1"
    processor = SimpleNamespace(
        image_processor=SimpleNamespace(image_mean=(0.48145466, 0.4578275, 0.40821073))
    )

    def __init__(self, asked: list[Sample]) -> None:
        self.known = {
            (draw(sample.scene).tobytes(), question.text): question.answer
            for sample in asked
            for question in sample.questions
        }
        self.looked: list[Image.Image] = []

    def look(self, image: Image.Image) -> Image.Image:
        self.looked.append(image)
        return image

    def ask(self, picture: Image.Image, question: str) -> tuple[bytes, str]:
        return picture.tobytes(), question

    def answer(self, view: tuple[bytes, str], max_new_tokens: int) -> Any:
        assert max_new_tokens == 8
        return SimpleNamespace(text=self.known.get(view, "no") + ".")


def test_an_oracle_is_always_right_and_a_blank_picture_blinds_it() -> None:
    asked = list(samples("held-out", 50))
    oracle: Any = Oracle(asked)
    seen = evaluate(oracle, asked, blank=False)
    assert len(seen) == 50
    assert all(result.right for result in seen)
    assert len(oracle.looked) == len(asked)  # one vision pass a scene

    oracle.looked.clear()
    blind = evaluate(oracle, asked, blank=True)
    assert [r.question for r in blind] == [r.question for r in seen]
    assert [r.right for r in blind] == [r.question.answer == "no" for r in blind]
    assert len(oracle.looked) == 1
    pixels = np.asarray(oracle.looked[0]).reshape(-1, 3)
    assert pixels.shape == (336 * 336, 3)
    assert np.unique(pixels, axis=0).tolist() == [[123, 117, 104]]


@pytest.mark.parametrize(("which", "pairs"), [("held-out", "seen"), ("unseen-pairs", "unseen")])
def test_samples_are_the_first_of_their_set_and_always_the_same(which: str, pairs: Any) -> None:
    asked = list(samples(which, 31, per_scene=4))
    assert asked == list(samples(which, 31, per_scene=4))
    assert sum(len(sample.questions) for sample in asked) == 31
    for sample in asked:
        assert 1 <= len(sample.questions) <= 4
        assert sample.scene == sample_scene(World(pairs=pairs), rng_of(which, sample.seed))
    assert [sample.seed for sample in asked] == sorted({sample.seed for sample in asked})
    longer = list(samples(which, 60, per_scene=4))
    assert longer[: len(asked) - 1] == asked[:-1]


@pytest.mark.parametrize(("which", "count"), [("train", 10), ("held-out", 0)])
def test_what_cannot_be_sampled_is_refused(which: str, count: int) -> None:
    with pytest.raises(ValueError, match=r"held-out|at least one"):
        list(samples(which, count))


def test_a_real_model_is_asked_unpruned_and_graded(tiny_model: LlavaModel) -> None:
    asked = list(samples("held-out", 8))
    told: list[int] = []
    results = evaluate(tiny_model, asked, False, lambda so_far: told.append(len(so_far)))
    assert results == evaluate(tiny_model, asked, False)
    assert told[-1] == 8
    first = asked[0]
    view = tiny_model.encode(draw(first.scene), first.questions[0].text)
    said = tiny_model.answer(view, max_new_tokens=8).text
    assert results[0] == Result(
        first.seed, first.questions[0], said, is_right(said, first.questions[0].answer)
    )


RESULTS = [
    Result(3, Question("a?", "1", skills), "1" if right else "2", right)
    for skills, right in (
        (("recognition",), True),
        (("recognition",), False),
        (("recognition", "spatial"), True),
        (("ocr",), True),
        (("recognition", "ocr"), False),
    )
]


def test_scores_count_a_question_under_each_of_its_skills() -> None:
    by = scores(RESULTS)
    assert (by["overall"]["all"].right, by["overall"]["all"].count) == (3, 5)
    assert {name: (s.right, s.count) for name, s in by["skill"].items()} == {
        "recognition": (2, 4),
        "ocr": (1, 2),
        "spatial": (1, 1),
    }
    assert {name: (s.right, s.count) for name, s in by["combination"].items()} == {
        "recognition": (1, 2),
        "ocr": (1, 1),
        "recognition + ocr": (0, 1),
        "recognition + spatial": (1, 1),
    }
    order = ["recognition", "ocr", "recognition + ocr", "recognition + spatial"]
    assert list(by["combination"]) == order
    assert by["skill"]["recognition"].share == 0.5
    assert math.isnan(module.Score(0, 0).share)


def test_the_table_and_the_record_say_the_same() -> None:
    blind = [Result(r.seed, r.question, "2", False) for r in RESULTS]
    lines = table(RESULTS, blind).splitlines()
    row = next(line for line in lines if line.split()[:1] == ["all"])
    assert row.split() == ["all", "5", "60.0%", "0.0%"]
    assert "blank" not in table(RESULTS, None)
    model: Any = SimpleNamespace(name="m", revision="r")
    whole = record(model, "held-out", RESULTS, blind)
    assert whole["picture"]["overall"]["all"] == {"accuracy": 0.6, "right": 3, "questions": 5}
    assert whole["blank"]["skill"]["ocr"]["accuracy"] == 0
    assert (whole["first_seed"], whole["last_seed"], whole["questions"]) == (3, 3, 5)
    assert "blank" not in record(model, "held-out", RESULTS, None)


def test_the_command_prints_and_writes_both_figures(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "accuracy.json"
    options = ["--device", "cpu", "--questions", "5", "--set", "unseen-pairs", "--out", str(out)]
    assert main(["--model", str(tiny_folder), *options]) == 0
    printed = capsys.readouterr()
    assert "by combination" in printed.out
    assert "blank: 5 of 5 questions" in printed.err
    figures = json.loads(out.read_text())
    assert figures["set"] == "unseen-pairs"
    assert figures["picture"]["overall"]["all"]["questions"] == 5
    assert figures["blank"]["overall"]["all"]["questions"] == 5
    assert figures["revision"]

    assert main(["--model", str(tiny_folder), *options, "--no-blank"]) == 0
    assert "blank" not in json.loads(out.read_text())


def test_a_model_that_is_not_there_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--model", "no-such-model"]) == 1
    assert "built-in" in capsys.readouterr().err
    assert main(["--questions", "0"]) == 1
    assert "at least one" in capsys.readouterr().err
