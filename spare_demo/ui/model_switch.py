"""One model at a time, and another one in its place: on a private page, and once on a Space that
has no GPU. No Gradio.

The page that shows a model is made for it: methods that can run, ways of seeing, the slider's end.
So another model means another page: `change` loads the model, and whoever serves the page waits
for it (`wait_for_next`), closes the old page and opens the new one.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from spare_demo.models import CATALOGUE, Model, ModelError, load_model
from spare_demo.models.loading.catalogue import AUTO, BUILT_IN, PUBLISHED, Entry
from spare_demo.models.loading.hub import Progress, no_progress
from spare_demo.models.loading.load import plain_name
from spare_demo.models.loading.machine import Offer, offers
from spare_demo.models.loading.memory import LoadOptions
from spare_demo.pruners.options import read_method
from spare_demo.settings import Settings
from spare_demo.threads import wait_interruptibly

Report = Callable[[str], None]

_log = logging.getLogger(__name__)


class LoadingCancelled(Exception):
    """The loading was ended by whoever began it."""


class ModelSwitch:
    """The model of one private page, and how it is given up for another.

    Attributes:
        settings: what the page runs with; its model is the name under which `model` was loaded.
        upcoming: title of the model that `load_upcoming` is to load or is loading, "" for none.
        loading: name of the model that `change` is loading, "" for none.
        outcome: what became of the last one, as a sentence.
    """

    def __init__(self, model: Model, settings: Settings, later: Entry | None = None) -> None:
        """later: what `load_upcoming` loads."""
        self.model, self._later = model, later
        self.upcoming = "" if later is None else later.title
        self.loading = self.outcome = ""
        name = model.name if settings.model == AUTO else plain_name(settings.model)
        # Where "auto" left a GPU alone, the next model leaves it alone too.
        device = "cpu" if model.device.type == "cpu" else settings.device
        self.settings = dataclasses.replace(settings, model=name, device=device)
        self._loading = threading.Lock()
        self._ready, self._cancelled = threading.Event(), threading.Event()
        self._following: tuple[Model, Settings] | None = None

    @property
    def offered(self) -> list[tuple[str, str]]:
        """(words, name) of the models named by --models and those of the table."""
        names = dict.fromkeys((self.settings.model, *self.settings.models, *CATALOGUE))
        return [(_words(name), name) for name in names if name != AUTO]

    def offers(self, bits: int, names: Sequence[str] = PUBLISHED) -> list[Offer]:
        """What each of these models of the table would take here, with this one gone."""
        device = self.model.device
        spread = device.type == "cuda" and self.settings.device in ("auto", "cuda")
        here = self.model.bytes_on(device)
        elsewhere = self.model.bytes - here
        options = LoadOptions(
            device, spread, bits=bits, given_back=here, given_back_elsewhere=elsewhere
        )
        return offers(options, self.model.measure_rates, names)

    def change(
        self,
        name: str | None,
        bits: int,
        report: Report,
        language_model: bool = True,
        progress: Progress = no_progress,
    ) -> str:
        """Load another model in this one's place, which answers until the other one stands.

        Where there is no memory for both, this one goes once the other one is downloaded.

        Args:
            name: what `load_model` takes, "auto" excepted.
            bits: 16, 8 or 4.
            report: gets sentences about the memory, the first before this model is given up.
            language_model: whether to load it too.
            progress: gets bytes so far and in all of a download.

        Returns:
            the outcome, as a sentence. If the new model's weights turn out to be unusable
            when this one is gone already, this one is loaded again.

        Raises:
            ModelError: it is not to be had, or `cancel` was called; this model is as it was.
            ValueError: other bits; likewise.
        """
        name_wanted = plain_name((name or "").strip())
        if not name_wanted or name_wanted == AUTO:
            raise ModelError("Choose a model from the list, or type a folder or a repository.")
        settings = dataclasses.replace(
            self.settings, model=name_wanted, bits=bits, without_language_model=not language_model
        )
        if settings == self.settings:
            raise ModelError(f"{self.model.title} is loaded already. Choose another model.")
        if not self._loading.acquire(blocking=False):
            raise ModelError("A model is being loaded. Wait until the page reopens.")
        try:
            if self._following is not None:
                raise ModelError("Another model is loaded. Wait until the page reopens.")
            self._cancelled.clear()
            title = Path(name_wanted).resolve().name if os.path.isdir(name_wanted) else name_wanted
            self.loading, self.outcome = title, f"{title} could not be loaded."
            self.outcome = self._load_or_return(settings, report, progress)
            return self.outcome
        except LoadingCancelled:
            self.outcome = (
                f"Loading was cancelled. {self.model.title} is still here, and files that were "
                "downloaded whole are kept for another time."
            )
            raise ModelError(self.outcome) from None
        except (ModelError, ValueError) as error:
            self.outcome = str(error)
            raise
        finally:
            self.loading = ""
            self._loading.release()

    def load_upcoming(self, report: Report) -> None:
        """Load the model that was said to follow. If it is not to be had, the report says why."""
        assert self._later is not None
        try:
            whole = not self.settings.without_language_model
            report(self.change(self._later.name, self.settings.bits, report, whole))
        except (ModelError, ValueError) as error:
            report(f"{self.model.title} stays: {error}")
        except Exception:
            _log.exception("The model that was to follow could not be loaded")
        self.upcoming = ""

    def cancel(self) -> None:
        """End the loading, unless this model was given up for the other one already."""
        self._cancelled.set()

    def wait_for_next(self) -> tuple[Model, Settings]:
        """Wait for the model after this one: it, and what its page is to run with."""
        wait_interruptibly(self._ready)
        assert self._following is not None
        return self._following

    def _load_or_return(self, settings: Settings, report: Report, progress: Progress) -> str:
        def go_on(done: int, total: int) -> None:
            if self._cancelled.is_set() and not self.model.closed:
                raise LoadingCancelled
            progress(done, total)

        try:
            self._load(settings, report, go_on)
            return "It is loaded. The page reopens with it."
        except Exception as error:
            if not self.model.closed:
                raise
            _log.exception("A model failed after the one before it was given up")
            is_sentence = isinstance(error, ModelError | ValueError)
            reason = str(error) if is_sentence else f"{settings.model} could not be loaded."
        try:
            self._load(self.settings, report)
        except ModelError:  # its folder was moved meanwhile, or its memory taken
            start = dataclasses.replace(
                self.settings, model=BUILT_IN.name, bits=16, without_language_model=False
            )
            self._load(start, report)
        return f"{reason} The page reopens with the model it had, or else the built-in one."

    def _load(self, settings: Settings, report: Report, progress: Progress = no_progress) -> None:
        old = None if self.model.closed else self.model
        model = load_model(
            settings.model,
            settings.device,
            bits=settings.bits,
            report=report,
            instead_of=old,
            language_model=not settings.without_language_model,
            progress=progress,
            system=settings.system,
            capture_prefill=settings.capture_prefill,
        )
        able = tuple(name for name in settings.methods if _runs(name, model))
        self._following = model, dataclasses.replace(settings, methods=able or Settings.methods)
        self._ready.set()


def _runs(name: str, model: Model) -> bool:
    """Whether a method, or its text-free form, can run on the model."""
    method = read_method(name)
    return model.reason_against(method) is None or bool(method.text_free)


def _words(name: str) -> str:
    entry = CATALOGUE.get(name)
    return name if entry is None else f"{entry.title}: {entry.needs}"
