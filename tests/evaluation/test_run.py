"""The measuring: each result is what `compare`'s steps give one by one."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from PIL import Image
from stock import noise

from spare_demo import measures
from spare_demo.comparison.request import choose
from spare_demo.evaluation import relevance_places as where
from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.run import PictureResults, run
from spare_demo.evaluation.sheets import Sheet, SheetQuestion, draw_sheets
from spare_demo.evaluation.variants import Variant
from spare_demo.images.load import PictureError
from spare_demo.models import LlavaModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate.prompt import LETTER_INSTRUCTION
from spare_demo.pruners import PRUNERS, LayerPruner
from spare_demo.pruners.trim import Trim
from spare_demo.relevance import RelevanceOptions, aggregate, raw_cosine
from spare_demo.scenes.world import Scene, Thing
from spare_demo.tokens import Positions

METHODS = ("spare", "cdpruner-diversity", "uniform", "random", "normal-relevance")
WHAT = SheetQuestion("What?", ("left",))
WHICH = SheetQuestion("Which?", ("left",), ("left", "right"))


def own_sheet(picture: Image.Image, asked: SheetQuestion = WHAT) -> Sheet:
    """One question about a picture of one's own."""
    return Sheet("data", "a.png", (asked,), lambda: picture)


@pytest.fixture(scope="module")
def sheets() -> list[Sheet]:
    return list(draw_sheets("held-out", 7))


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(choose(METHODS), (3, 8), max_new_tokens=4)


@pytest.fixture(scope="module")
def whole(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment
) -> list[PictureResults]:
    """What the experiment gives of all sheets."""
    return list(run(tiny_model, sheets, experiment))


def test_every_result_is_that_of_the_single_steps(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment, whole: list[PictureResults]
) -> None:
    assert [m.sheet for m in whole] == sheets
    for m in whole:
        assert len(m.rows) == experiment.rows_each * len(m.sheet.questions)
    for row in whole[0].rows:
        if row.method in ("blank", "random"):
            continue
        asked = sheets[0].questions[row.number]
        view = tiny_model.encode(sheets[0].open(), asked.text)
        full = tiny_model.answer(view, None, 4)
        pruned = row.method != "unpruned"
        kept = PRUNERS[row.method].select(view.tokens, row.budget) if pruned else None
        answer = tiny_model.answer(view, kept, 4)
        assert row.prediction == answer.text
        assert (row.question, row.truth) == (asked.text, asked.answers[0])
        kl = measures.kl_divergence(full.first_logits, answer.first_logits)
        assert row.kl == pytest.approx(float(kl), abs=1e-5)
        picks = torch.arange(16) if kept is None else kept.order
        error = measures.reconstruction_error(view.tokens.features, picks)
        assert row.error == pytest.approx(error, abs=1e-6)


def test_a_method_may_read_relevance_otherwise_than_the_run(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment, whole: list[PictureResults]
) -> None:
    """Greedy and not, beside the same method as the run reads it, and after another question."""
    other = {
        "spare@tokens": RelevanceOptions(-2, "tokens"),
        "normal-relevance@-1": RelevanceOptions(-1),
    }
    methods = {**experiment.methods, **{k: PRUNERS[k.partition("@")[0]] for k in other}}
    variants = {label: Variant(options) for label, options in other.items()}
    both = dataclasses.replace(experiment, methods=methods, variants=variants)
    measured = next(run(tiny_model, sheets, both))
    rest = [row for row in measured.rows if row.method not in other]
    for row, expected in zip(rest, whole[0].rows, strict=True):
        assert row.prediction == expected.prediction
        assert row.error == pytest.approx(expected.error, nan_ok=True)
    assert len(measured.sheet.questions) > 1
    for row in measured.rows:
        if row.method in other:
            asked = measured.sheet.questions[row.number].text
            picture = tiny_model.look(measured.sheet.open())
            view = tiny_model.ask(picture, asked, other[row.method])
            picks = methods[row.method].select(view.tokens, row.budget)
            error = measures.reconstruction_error(view.tokens.features, picks.order)
            assert row.error == pytest.approx(error, abs=1e-6)
            assert row.prediction == tiny_model.answer(view, picks, 4).text
    recorded = both.record()["variants"]["spare@tokens"]
    relevance = {"layer": -2, "text": "tokens", "guidance_text": "clip"}
    assert recorded == {"relevance": relevance, "positions": None}
    assert "variants" not in experiment.record()


def test_answers_are_at_the_positions_of_the_run_or_of_their_label(
    tiny_model: LlavaModel, sheets: list[Sheet]
) -> None:
    positions: dict[str, Positions] = {"uniform": "original", "uniform@compact": "compact"}
    both = Experiment(
        dict.fromkeys(positions, PRUNERS["uniform"]),
        (3,),
        variants={"uniform@compact": Variant(RelevanceOptions(), "compact")},
        blank=False,
        max_new_tokens=4,
        positions="original",
    )
    (measured,) = run(tiny_model, sheets[:1], both)
    divergences: dict[str, list[float]] = {label: [] for label in positions}
    for row in (row for row in measured.rows if row.method in positions):
        asked = measured.sheet.questions[row.number]
        view = tiny_model.encode(measured.sheet.open(), asked.text)
        full = tiny_model.answer(view, None, 4).first_logits
        kept = PRUNERS["uniform"].select(view.tokens, 3)
        answer = tiny_model.answer(view, kept, 4, positions[row.method])
        assert row.prediction == answer.text
        kl = float(measures.kl_divergence(full, answer.first_logits))
        assert row.kl == pytest.approx(kl, abs=1e-5)
        divergences[row.method].append(row.kl)
    apart = np.subtract(*divergences.values())
    assert np.abs(apart).sum() > 1e-3  # the positions matter


def test_the_vision_tower_sees_each_picture_once(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment
) -> None:
    assert sum(len(sheet.questions) for sheet in sheets) > len(sheets)
    seen: list[int] = []
    tower = tiny_model.hf.model.vision_tower
    hook = tower.register_forward_hook(lambda *_: seen.append(1))
    try:
        list(
            run(tiny_model, sheets, Experiment(experiment.methods, experiment.budgets, blank=False))
        )
    finally:
        hook.remove()
    assert len(seen) == len(sheets)


def test_blank_is_a_picture_of_nothing(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment, whole: list[PictureResults]
) -> None:
    blank = next(row for row in whole[0].rows if row.method == "blank")
    grey = tuple(round(255 * m) for m in tiny_model.processor.image_processor.image_mean)
    view = tiny_model.encode(Image.new("RGB", (336, 336), grey), blank.question)
    assert blank.prediction == tiny_model.answer(view, None, 4).text
    assert math.isnan(blank.error)
    without = next(run(tiny_model, sheets, Experiment(experiment.methods, (3,), blank=False)))
    assert {row.method for row in without.rows} == {"unpruned", *METHODS}


def test_what_is_done_is_left_out_and_random_is_the_same_again(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment, whole: list[PictureResults]
) -> None:
    rest = list(run(tiny_model, sheets, experiment, done={(sheets[0].set, sheets[0].picture)}))
    assert repr([m.rows for m in rest]) == repr([m.rows for m in whole[1:]])
    errors = [
        {row.error for row in m.rows if (row.method, row.budget) == ("random", 3)} for m in whole
    ]
    assert errors[0] != errors[1]  # another draw on another picture


def test_text_free_methods_pick_once_a_picture(
    tiny_model: LlavaModel,
    sheets: list[Sheet],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    for label in ("spare", "cdpruner-diversity"):
        kind = type(PRUNERS[label])
        factors = kind.factors

        def counting(self, tokens, factors=factors):
            calls.append(self.name)
            return factors(self, tokens)

        monkeypatch.setattr(kind, "factors", counting)
    next(run(tiny_model, sheets, experiment))
    questions = len(sheets[0].questions)
    assert (calls.count("spare"), calls.count("cdpruner-diversity")) == (questions, 1)


def test_choices_and_an_instruction_reach_the_model_but_not_the_methods(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    experiment = Experiment(
        choose(["spare"]), (5,), blank=False, instruction="Be brief.", max_new_tokens=4
    )
    unpruned, pruned = next(run(tiny_model, [own_sheet(photo, WHICH)], experiment)).rows
    told = f"Which?\nA. left\nB. right\n{LETTER_INSTRUCTION}\nBe brief."
    view = tiny_model.encode(photo, told)
    assert unpruned.prediction == tiny_model.answer(view, None, 4).text
    kept = PRUNERS["spare"].select(tiny_model.encode(photo, WHICH.question).tokens, 5)
    assert pruned.prediction == tiny_model.answer(view, kept, 4).text
    assert pruned.question == WHICH.question


def test_trim_reads_the_instruction_unless_set_to_the_question(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    methods = {"prompt": Trim(), "question": Trim(text="question")}
    budgets = range(2, 16)
    experiment = Experiment(methods, tuple(budgets), blank=False, max_new_tokens=1)
    results = next(run(tiny_model, [own_sheet(photo, WHICH)], experiment)).rows
    errors = {label: [row.error for row in results if row.method == label] for label in methods}
    prompt = f"{WHICH.question}\n{LETTER_INSTRUCTION}"
    texts = {"prompt": prompt, "question": WHICH.question}
    for label, text in texts.items():
        tokens = tiny_model.encode(photo, text).tokens
        merged = [Trim().select(tokens, k).features for k in budgets]
        assert errors[label] == [
            measures.merged_error(tokens.features, rows) for rows in merged if rows is not None
        ]
    assert errors["prompt"] != errors["question"]


def broken() -> Image.Image:
    raise PictureError("The file is empty.")


LONG = SheetQuestion("Which of these? " * 5000, ("left",))


@pytest.mark.parametrize(
    ("asked", "opened", "reason", "numbers"),
    [
        ((WHAT,), broken, "empty", set()),
        ((WHAT, LONG, WHICH), None, "'Which of .*too long", {0, 2}),
        ((LONG,), None, "'Which of .*too long", set()),
    ],
)
def test_what_cannot_be_used_is_named_and_skipped_only_if_asked(
    tiny_model: LlavaModel,
    sheets: list[Sheet],
    experiment: Experiment,
    asked,
    opened,
    reason,
    numbers,
) -> None:
    where = "x.png (line 3 of q.jsonl)"
    bad = Sheet("data", "x.png", asked, opened or sheets[0].open, where=where)
    named = re.escape(where) + f".*{reason}"
    with pytest.raises(PictureError, match=named):
        list(run(tiny_model, [bad, *sheets], experiment))
    told: list[str] = []
    measured = list(run(tiny_model, [bad, *sheets], experiment, skip=told.append))
    assert len(told) == 1 and re.search(named, told[0])
    assert [m.sheet for m in measured] == [bad, *sheets]
    assert {row.number for row in measured[0].rows} == numbers
    long = {number for number, each in enumerate(asked) if each is LONG}
    assert {each.number for each in measured[0].skipped} == long


def test_a_budget_beyond_the_tokens_is_refused(tiny_model: LlavaModel, sheets: list) -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        next(run(tiny_model, sheets, Experiment(choose(["spare"]), (17,))))


@pytest.mark.parametrize("size", [(300, 80), (56, 56), (640, 480)])
def test_a_share_is_of_each_pictures_own_tokens(tiny_qwen: QwenModel, size: tuple) -> None:
    photo = noise(size)
    sheet = own_sheet(photo)
    names = ["cdpruner-diversity", "uniform", "divprune", "visionzip", "fastv"]
    names = [name for name in names if tiny_qwen.reason_against(PRUNERS[name]) is None]
    assert {"uniform", "divprune", "fastv"} <= set(names)
    experiment = Experiment(choose(names), ("10%", "75%"), max_new_tokens=2).within(tiny_qwen)
    (measured,) = run(tiny_qwen, [sheet], experiment)
    assert len(measured.rows) == experiment.rows_each
    view = tiny_qwen.encode(photo, "What?")
    n = view.tokens.n
    full = tiny_qwen.answer(view, None, 2)
    for row in measured.rows:
        if row.method in ("unpruned", "blank"):
            assert row.budget == n
            continue
        k = max(1, round(n * float(str(row.budget)[:-1]) / 100))
        method = PRUNERS[row.method]
        if isinstance(method, LayerPruner):
            assert row.budget == "75%"  # a third of its layers get all tokens
            answer = tiny_qwen.answer(view, method.plan(view, k), 2)
        else:
            answer = tiny_qwen.answer(view, method.select(view.tokens, k), 2)
            error = measures.reconstruction_error(
                view.tokens.features, method.select(view.tokens, k).order
            )
            assert row.error == pytest.approx(error, abs=1e-5)
        kl = measures.kl_divergence(full.first_logits, answer.first_logits)
        assert (row.prediction, row.kl) == (answer.text, pytest.approx(float(kl), abs=1e-5))


def test_a_picture_with_fewer_tokens_than_a_budget_keeps_all(tiny_qwen: QwenModel) -> None:
    small = own_sheet(Image.new("RGB", (56, 56), "navy"))
    methods = choose(["uniform", "cdpruner-diversity", "fastv"])
    experiment = Experiment(methods, (40, 50, 60)).within(tiny_qwen)
    (measured,) = run(tiny_qwen, [small], experiment)
    said = {row.prediction for row in measured.rows if row.method != "blank"}
    assert len(said) == 1  # what all tokens say
    assert {row.budget for row in measured.rows if row.method == "uniform"} == {40, 50, 60}
    assert all(abs(row.kl) < 1e-6 for row in measured.rows if row.method == "uniform")
    with pytest.raises(ValueError, match="1 to 60"):
        next(run(tiny_qwen, [small], Experiment(experiment.methods, (40, 61))))


def test_a_schedule_never_meets_another_number_than_asked_for(
    tiny_model: LlavaModel, tiny_qwen: QwenModel, sheets: list[Sheet]
) -> None:
    with pytest.raises(ValueError, match="from 6 to 16"):
        next(run(tiny_model, sheets, Experiment(choose(["fastv"]), (3,))))
    # The least share of the largest picture; of one of 4 tokens a schedule needs 2, half of them.
    small = own_sheet(Image.new("RGB", (56, 56)))
    experiment = Experiment(choose(["fastv"]), ("35%",), max_new_tokens=1).within(tiny_qwen)
    assert experiment.budgets_of("fastv") == ("35%",)
    (measured,) = run(tiny_qwen, [small], experiment)
    (row,) = [row for row in measured.rows if row.method == "fastv"]
    view = tiny_qwen.encode(small.open(), "What?")
    whole, few = (
        tiny_qwen.answer(view, kept, 1).first_logits
        for kept in (None, PRUNERS["fastv"].plan(view, 2))
    )
    assert row.kl == pytest.approx(float(measures.kl_divergence(whole, few)), abs=1e-5)
    assert row.kl > 1e-4


def test_owners_are_what_covers_most_of_a_token() -> None:
    scene = Scene(
        64, "plain", 0, (Thing("red", "square", 16, 16, 32), Thing("blue", "square", 48, 48, 20))
    )
    boxes = np.array([[8 * c, 8 * r, 8 * c + 8, 8 * r + 8] for r in range(8) for c in range(8)])
    owner = where.owners(scene, boxes.astype(float)).reshape(8, 8)
    assert (owner[1:3, 1:3] == 0).all()
    assert (owner[5:7, 5:7] == 1).all()
    assert (owner[4:, :4] == -1).all()
    assert where.owners(scene, np.array([[-20.0, -20, -5, -5]])).tolist() == [-1]  # padding


def test_places_are_means_of_raw_cosine(tiny_model: LlavaModel, sheets: list[Sheet]) -> None:
    sheet = sheets[0]
    picture = tiny_model.look(sheet.open())
    asked = sheet.questions[0]
    assert sheet.scene is not None
    found = where.places(tiny_model, picture, sheet.scene, asked, "stretches")
    assert [layer for layer, *_ in found] == [-2, -1, where.WORDS]
    owner = where.owners(sheet.scene, picture.grid.boxes.numpy())
    for layer, mean_asked, _, mean_none, *_ in found:
        options = RelevanceOptions(layer) if layer else RelevanceOptions(guidance_text="words")
        tokens = tiny_model.ask(picture, asked.text, options).tokens
        cosine = aggregate(raw_cosine(*tokens.image_and_text())).numpy()
        about = np.isin(owner, asked.things)
        for mean, part in ((mean_asked, cosine[about]), (mean_none, cosine[owner < 0])):
            assert mean == pytest.approx(part.mean(), nan_ok=True) if len(part) else mean != mean
