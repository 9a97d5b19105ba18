"""The adapter of lmms-eval, which finds it by the package's entry point; see docs/REPRODUCE.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points, version
from itertools import groupby, islice
from typing import Any

from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest
from tqdm import tqdm

from spare_demo.evaluation.harness import PrunedModel, Question, check_greedy, read_options
from spare_demo.models import ModelError, load_model
from spare_demo.pruners.other_packages import add_methods
from spare_demo.results.io import versions
from spare_demo.settings import METHODS_GROUP

MODEL = ModelManifest("spare_demo", simple_class_path=f"{__name__}.SpareDemo")


@dataclass
class Record(TokenCounts):
    """What an answer was made with; of a model's, logged samples hold the token counts alone."""

    settings: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As lmms-eval writes it."""
        return self.settings


def _logged(replies: Sequence[tuple[Any, dict[str, Any]]]) -> list[GenerationResult]:
    """Also likelihoods so: lmms-eval 0.7.3 makes a text of a pair."""
    return [GenerationResult(reply, Record(settings=record)) for reply, record in replies]


@contextmanager
def _one_sentence() -> Iterator[None]:
    """End with the sentence: lmms-eval would print a traceback and report success."""
    try:
        yield
    except (ValueError, ModelError) as error:
        sys.exit(str(error))


class SpareDemo(lmms):
    """A model whose pictures are pruned; its arguments are the fields of `HarnessOptions`."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        with _one_sentence():
            add_methods(entry_points(group=METHODS_GROUP))
            self.options = read_options(arguments)
        self.accelerator = Accelerator()
        self.device = self.accelerator.device
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes

    @cached_property
    def model(self) -> PrunedModel:
        """Loaded once requests are checked, by one process before the others: it downloads.

        They wait for each other, so every process must ask for it, also one without requests.
        """
        options = self.options
        device = options.device if self.world_size == 1 else str(self.device)
        with self.accelerator.main_process_first():
            loaded = load_model(options.pretrained, device, options.bits, system=options.system)
        model = PrunedModel(loaded, options)
        model.settings["versions"] = versions() | {"lmms_eval": version("lmms_eval")}
        return model

    def _question(self, request: Instance) -> Question:
        if len(request.args) == 2:  # a continuation by itself, which others are compared with
            return Question(request.args[0])
        prompt, _, pictures_of, number, task, _ = request.args
        document = self._document(request)
        return self.model.ask(prompt, document, pictures_of(document) or (), task, number)

    def _document(self, request: Instance) -> Mapping[str, Any]:
        *_, number, task, split = request.args
        document: Mapping[str, Any] = self.task_dict[task][split][number]
        return document

    def generate_until(self, requests: Sequence[Instance]) -> list[GenerationResult]:
        """Greedy answers, several at once of one task."""
        replies: list[tuple[Any, dict[str, Any]]] = []
        with _one_sentence(), tqdm(total=len(requests), disable=self.rank > 0) as bar:
            for request in requests:
                check_greedy(request.args[1], request.args[4])
            model = self.model
            for _, same in groupby(requests, key=lambda request: request.args[4]):
                while batch := list(islice(same, self.options.batch_size)):
                    questions = [self._question(request) for request in batch]
                    replies += model.answer(questions, batch[0].args[1])
                    bar.update(len(batch))
        return _logged(replies)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[GenerationResult]:
        """Of each continuation its log likelihood, and whether it is the greedy answer."""
        replies: list[tuple[Any, dict[str, Any]]] = []
        with _one_sentence():
            model = self.model
            for _, group in groupby(requests, key=lambda r: (r.args[0], r.args[2:])):
                first, *others = group  # of one document, whose picture is encoded once
                question = self._question(first)
                for request in [first, *others]:
                    text = request.args[1]
                    if callable(text):  # of tasks that score the right answer
                        text = text(self._document(request))
                    replies.append(model.score(question, text))
        return _logged(replies)

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[Any]:
        """Ends with a sentence: a question is asked once here."""
        sys.exit("A task that asks in several rounds cannot be answered here. Leave it out.")

    def clean(self) -> None:
        """Give the model's memory back, for a judge that is loaded next."""
        self.__dict__.pop("model", None)
        super().clean()
