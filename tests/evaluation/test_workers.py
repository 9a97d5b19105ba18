"""Several workers' rows, in any order, are the results of one process; Ray is not needed here."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from spare_demo.comparison.request import choose
from spare_demo.evaluation.experiment import Experiment, describe, fit
from spare_demo.evaluation.records import csv_text
from spare_demo.evaluation.results import Results, load
from spare_demo.evaluation.run import run
from spare_demo.evaluation.sheets import Sheet, SheetQuestion, draw_sheets
from spare_demo.evaluation.workers import Worker, load_and_fit, pack, share_of_each, unpack
from spare_demo.images.load import PictureError, open_picture
from spare_demo.models import LlavaModel, ModelError


@pytest.fixture(scope="module")
def sheets() -> list[Sheet]:
    return list(draw_sheets("held-out", 22))


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(choose(("spare", "random")), (3, 8), max_new_tokens=3)


@pytest.fixture
def worker(tiny_model: LlavaModel, experiment: Experiment) -> Worker:
    return Worker(lambda report: tiny_model, describe(tiny_model), experiment)


def measured(worker: Worker, sheets: list[Sheet]) -> list[dict[str, Any]]:
    """The rows of a worker that gets one picture at a time."""
    batches = ({name: [value] for name, value in unit.items()} for unit in pack(sheets))
    return [{name: values[0] for name, values in worker(batch).items()} for batch in batches]


def test_rows_in_any_order_and_twice_give_the_folder_of_one_process(
    worker: Worker,
    tiny_model: LlavaModel,
    sheets: list[Sheet],
    experiment: Experiment,
    tmp_path: Path,
) -> None:
    assert len(sheets) > 2
    rows = measured(worker, sheets)
    random.Random(2).shuffle(rows)
    assert [row["picture"] for row in rows] != [sheet.picture for sheet in sheets]
    rows.insert(2, rows[0])
    questions = {(sheet.set, sheet.picture): len(sheet.questions) for sheet in sheets}
    each = experiment.rows_each
    for name, results in (
        ("one", run(tiny_model, sheets, experiment)),
        ("many", unpack(rows, sheets, None)),
    ):
        with Results(tmp_path / name, experiment.record(), questions, each) as folder:
            for of_picture in results:
                assert of_picture.sheet.picture == of_picture.rows[0].picture
                folder.add(of_picture.rows, of_picture.places)
            folder.sort()
            assert folder.done == set(questions)
            in_memory = csv_text(folder.rows)
        assert (tmp_path / name / "results.csv").read_bytes().decode() == in_memory
    for name in ("settings.json", "results.csv", "relevance.csv"):
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert len(load(tmp_path / "many")[1]) == each * sum(questions.values())


def test_a_missing_picture_is_not_passed_over(worker: Worker, sheets: list[Sheet]) -> None:
    rows = measured(worker, sheets[:1])
    with pytest.raises(ValueError, match=r"^1 picture came back from no worker\."):
        list(unpack(rows, sheets[:2], None))


def test_a_picture_that_cannot_be_opened_is_skipped_or_ends_the_run(
    worker: Worker, sheets: list[Sheet], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(b"\x89PNG")
    bad = Sheet(
        "data",
        "damaged.png",
        sheets[0].questions,
        functools.partial(open_picture, damaged),
        where="damaged.png (line 7 of own.jsonl)",
    )
    both = [bad, sheets[0]]
    rows = measured(worker, both)
    sentences: list[str] = []
    of_bad, results = unpack(rows, both, sentences.append)
    assert (of_bad.sheet, of_bad.rows) == (bad, [])  # of no rows, and yet done
    assert results.sheet == sheets[0] and results.rows
    assert len(sentences) == 1 and "damaged.png (line 7 of own.jsonl)" in sentences[0]
    with pytest.raises(PictureError, match=r"line 7 of own\.jsonl"):
        list(unpack(rows, both, None))


def test_a_question_too_long_is_skipped_or_ends_the_run(
    worker: Worker, sheets: list[Sheet]
) -> None:
    long = SheetQuestion("Which of these? " * 5000, ("left",))
    sheet = replace(sheets[0], questions=(*sheets[0].questions, long))
    rows = measured(worker, [sheet])
    sentences: list[str] = []
    (results,) = unpack(rows, [sheet], sentences.append)
    (whole,) = unpack(measured(worker, sheets[:1]), sheets[:1], None)
    assert repr((results.rows, results.places)) == repr((whole.rows, whole.places))
    assert len(sentences) == 1 and "question 'Which of" in sentences[0]
    (skipped,) = results.skipped
    assert skipped.number == len(sheets[0].questions) and "too long" in skipped.reason
    with pytest.raises(PictureError, match="too long"):
        list(unpack(rows, [sheet], None))


def test_what_ends_a_worker_ends_the_run_and_says_where(
    worker: Worker, sheets: list[Sheet]
) -> None:
    bad = [Sheet("data", "x", sheets[0].questions, _fail)]
    with pytest.raises(ZeroDivisionError, match="a fault") as raised:
        list(unpack(measured(worker, bad), bad, None))
    assert "in _fail" in "".join(raised.value.__notes__)


def _fail() -> Image.Image:
    raise ZeroDivisionError("a fault")


def test_a_worker_with_another_model_is_refused(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment
) -> None:
    model = {**describe(tiny_model), "dtype": "bfloat16"}
    worker = Worker(lambda report: tiny_model, model, experiment)
    with pytest.raises(ValueError, match=r"dtype bfloat16 .* float32.* --device"):
        list(unpack(measured(worker, sheets[:1]), sheets[:1], None))


def test_a_worker_loads_its_model_once_and_at_its_first_picture(
    tiny_model: LlavaModel, sheets: list[Sheet], experiment: Experiment
) -> None:
    loads: list[object] = []

    def load(report: object) -> LlavaModel:
        loads.append(report)
        return tiny_model

    worker = Worker(load, describe(tiny_model), experiment)
    assert not loads
    measured(worker, sheets[:2])
    assert len(loads) == 1


def test_the_notes_of_the_loading_come_first(
    tiny_model: LlavaModel, experiment: Experiment
) -> None:
    def load(report: Any) -> LlavaModel:
        report("Loaded.")
        return tiny_model

    many = Experiment(choose(("random", "fastv")), (3, 8), max_new_tokens=3)
    fitted = load_and_fit(load, many, leave_out=False)
    assert fitted.notes == ("Loaded.", "FastV is measured at 8: below 6 it has no schedule.")
    assert fitted == fit(tiny_model, many, False)._replace(notes=fitted.notes)

    def refuse(report: Any) -> LlavaModel:
        raise ModelError("No memory.")

    with pytest.raises(ModelError):
        load_and_fit(refuse, experiment, leave_out=False)


def ways_to_share() -> Iterator[tuple[int, list[int], int]]:
    yield 2, [2], 1
    yield 1, [2], 2
    yield 3, [8], 2
    yield 4, [8, 8], 4
    yield 3, [3, 3], 1  # two cores each would leave one worker without a machine
    yield 3, [4, 2], 2
    yield 2, [16, 0], 8


@pytest.mark.parametrize(("workers", "machines", "cores"), ways_to_share())
def test_workers_share_the_cores_of_whole_machines(
    workers: int, machines: list[int], cores: int
) -> None:
    assert share_of_each(workers, "cpu", 4, machines) == {"num_cpus": cores}
    assert share_of_each(workers, "auto", 0, machines) == {"num_cpus": cores}


@pytest.mark.parametrize("machines", [[2], [1, 1], []])
def test_more_workers_than_cores_are_refused(machines: list[int]) -> None:
    with pytest.raises(ValueError, match=f"there are {sum(machines)}"):
        share_of_each(3, "auto", 0, machines)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_each_worker_gets_a_gpu_where_there_are_some(device: str) -> None:
    assert share_of_each(4, device, 4, [2]) == {"num_gpus": 1}
    with pytest.raises(ValueError, match="need a GPU each, and there are 4"):
        share_of_each(5, device, 4, [64])
