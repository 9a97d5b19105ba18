"""What each of several workers does, and how their rows become results again; knows no Ray.

The unit of work is one picture with all its questions, so that a picture is encoded once. A unit
and its outcome travel as bytes beside the key of the picture, and only the key says where they
belong: neither the worker nor the order of arrival counts.
"""

from __future__ import annotations

import functools
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spare_demo.evaluation.experiment import Experiment, Fitted, describe, fit
from spare_demo.evaluation.records import Place, Row, Skipped
from spare_demo.evaluation.run import PictureResults, run
from spare_demo.evaluation.sheets import Sheet
from spare_demo.images.load import PictureError
from spare_demo.models import Model
from spare_demo.table import counted

Load = Callable[..., Model]
"""Loads the model; `report` is called with sentences about what was loaded."""


class Outcome(NamedTuple):
    """What a worker found of one picture: rows and places, or why there are none.

    Attributes:
        sentences: about a picture that cannot be opened, or questions too long.
        error: what ends the run, with the worker's traceback as its note.
    """

    rows: list[Row]
    places: list[Place]
    skipped: list[Skipped]
    sentences: tuple[str, ...] = ()
    error: Exception | None = None


class Worker:
    """Holds a model and measures one picture after the other."""

    def __init__(self, load: Load, model: Mapping[str, str], experiment: Experiment) -> None:
        """load: called at the first picture. model: what `describe` must say of what it loads."""
        self._load, self._expected, self._experiment = load, model, experiment

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The outcomes of the units of a batch, each beside its key."""
        outcomes = [pickle.dumps(self._measure(pickle.loads(data))) for data in batch["sheet"]]
        return {"set": batch["set"], "picture": batch["picture"], "outcome": outcomes}

    def _measure(self, sheet: Sheet) -> Outcome:
        sentences: list[str] = []
        try:
            (results,) = run(self._model, [sheet], self._experiment, skip=sentences.append)
            return Outcome(results.rows, results.places, results.skipped, tuple(sentences))
        except Exception as error:
            error.add_note(traceback.format_exc())
            return Outcome([], [], [], error=error)

    @functools.cached_property
    def _model(self) -> Model:
        model = self._load(report=lambda sentence: None)
        loaded = describe(model)
        for name, expected in self._expected.items():
            if loaded[name] != expected:
                raise ValueError(
                    f"One worker loaded the model with {name} {expected} and another one with "
                    f"{loaded[name]}, and their results must not be mixed. Use machines that are "
                    "alike, or name one kind with --device."
                )
        return model


def load_and_fit(load: Load, experiment: Experiment, leave_out: bool) -> Fitted:
    """What `fit` gives where the model is loaded, after the notes of the loading."""
    notes: list[str] = []
    fitted = fit(load(report=notes.append), experiment, leave_out)
    return fitted._replace(notes=(*notes, *fitted.notes))


def pack(sheets: Iterable[Sheet]) -> list[dict[str, Any]]:
    """A row of bytes for each picture, beside its key."""
    return [
        {"set": sheet.set, "picture": sheet.picture, "sheet": pickle.dumps(sheet)}
        for sheet in sheets
    ]


def unpack(
    rows: Iterable[Mapping[str, Any]], sheets: Iterable[Sheet], skip: Callable[[str], None] | None
) -> Iterator[PictureResults]:
    """The results of rows that workers gave, in the order of the rows, each picture once.

    A row that comes again, from a worker that died after it had answered, is left out.

    sheets: the pictures that were sent. skip: as of `run`.

    Raises what a worker raised, PictureError naming the picture, or ValueError: one is missing.
    """
    awaited = {(sheet.set, sheet.picture): sheet for sheet in sheets}
    for row in rows:
        sheet = awaited.pop((row["set"], row["picture"]), None)
        if sheet is None:
            continue
        outcome: Outcome = pickle.loads(row["outcome"])
        if outcome.error is not None:
            raise outcome.error
        for sentence in outcome.sentences:
            if skip is None:
                raise PictureError(sentence)
            skip(sentence)
        yield PictureResults(sheet, outcome.rows, outcome.places, outcome.skipped)
    if awaited:
        missing = counted(len(awaited), "picture")
        raise ValueError(f"{missing} came back from no worker. The same command measures the rest.")


def share_of_each(workers: int, device: str, gpus: int, machines: Sequence[int]) -> dict[str, int]:
    """What each worker gets, as Ray takes it: a GPU where there are some, else cores.

    device: what the model is loaded on. gpus: of all machines. machines: the cores of each.

    Raises ValueError where it does not suffice for all.
    """
    if gpus and device in ("auto", "cuda"):
        if workers > gpus:
            raise ValueError(
                f"{workers} workers need a GPU each, and there are {gpus}. Ask for at most {gpus} "
                "with --workers, or use processors with --device cpu."
            )
        return {"num_gpus": 1}
    for cores in range(max(machines, default=0), 0, -1):
        if sum(machine // cores for machine in machines) >= workers:
            return {"num_cpus": cores}
    raise ValueError(
        f"{workers} workers need a core each, and there are {sum(machines)}. Ask for at most "
        f"{sum(machines)} with --workers."
    )
