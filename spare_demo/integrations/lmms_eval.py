"""The adapter of lmms-eval, which finds it as an entry point of the installed package.

python -m lmms_eval --model spare_demo --model_args pretrained=built-in,method=spare --tasks …
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import groupby, islice
from typing import Any

from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest
from tqdm import tqdm

from spare_demo.evaluation.harness import PrunedModel, Question, check_greedy, read_options
from spare_demo.models import ModelError, load_model
from spare_demo.results.io import versions

MODEL = ModelManifest("spare_demo", simple_class_path=f"{__name__}.SpareDemo")


@dataclass
class Record(TokenCounts):
    """What an answer was made with; of a model's, logged samples hold the token counts alone."""

    settings: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As lmms-eval writes it."""
        return self.settings


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
            self.options = read_options(arguments)
        self.accelerator = Accelerator()
        self.device = self.accelerator.device
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes

    @cached_property
    def model(self) -> PrunedModel:
        """Loaded once the requests are checked; the first process downloads for all."""
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

    def _batches(self, requests: Sequence[Instance]) -> Iterator[list[Instance]]:
        """Of one task each, whose answers have one greatest length."""
        for _, same in groupby(requests, key=lambda request: request.args[4]):
            while batch := list(islice(same, self.options.batch_size)):
                yield batch

    def generate_until(self, requests: Sequence[Instance]) -> list[GenerationResult]:
        """Greedy answers, each up to where its task ends them."""
        results: list[GenerationResult] = []
        with _one_sentence(), tqdm(total=len(requests), disable=self.rank > 0) as bar:
            for request in requests:
                check_greedy(request.args[1], request.args[4])
            for batch in self._batches(requests):
                settings = batch[0].args[1]
                until = settings.get("until") or []
                longest = settings.get("max_new_tokens") or self.options.max_new_tokens
                questions = [self._question(request) for request in batch]
                for text, record in self.model.answer(questions, longest):
                    for end in [until] if isinstance(until, str) else until:
                        text = text.split(end)[0]
                    results.append(GenerationResult(text, Record(settings=record)))
                bar.update(len(batch))
        return results

    def loglikelihood(self, requests: Sequence[Instance]) -> list[GenerationResult]:
        """Of each continuation its log likelihood, and whether it is the greedy answer.

        Not plain pairs, which lmms-eval 0.7.3 turns into texts.
        """
        results: list[GenerationResult] = []
        with _one_sentence():
            for _, group in groupby(requests, key=lambda r: (r.args[0], r.args[2:])):
                first, *others = group  # of one document, whose picture is encoded once
                question = self._question(first)
                record = Record(settings=self.model.record(question))
                for request in [first, *others]:
                    text = request.args[1]
                    if callable(text):  # of tasks that score the right answer
                        text = text(self._document(request))
                    score = self.model.model.score_continuation(*question, text)
                    pair: Any = sum(score.log_probabilities), score.by_itself
                    results.append(GenerationResult(pair, record))
        return results

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[Any]:
        """Ends with a sentence: a question is asked once here."""
        sys.exit("A task that asks in several rounds cannot be answered here. Leave it out.")

    def clean(self) -> None:
        """Give the model's memory back, for a judge that is loaded next."""
        self.__dict__.pop("model", None)
        super().clean()
