"""What an evaluation harness needs: arguments checked, and its documents answered with pruning.

Knows no harness; `integrations/lmms_eval.py` is the adapter of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from PIL import Image

from spare_demo.comparison.request import choose, read_seed
from spare_demo.evaluation.budgets import Budget, read_budgets
from spare_demo.evaluation.picks import keep, reseed
from spare_demo.images.geometry import Aspect
from spare_demo.models import Model
from spare_demo.models.generate.decoder_inputs import PrunedView
from spare_demo.models.generate.repetition import changed_settings
from spare_demo.pruners import Method
from spare_demo.pruners.base import check_budget
from spare_demo.pruners.plan import Pruning
from spare_demo.relevance import GuidanceText, RelevanceOptions
from spare_demo.tokens import Positions


@dataclass(frozen=True)
class HarnessOptions:
    """How documents are answered; the fields are the harness's model arguments.

    Attributes:
        pretrained, device, bits, system: as of `load_model`.
        method: as of `choose`, or "none" to prune nothing.
        budget: visual tokens, or a share such as "10%"; a picture that has fewer keeps all.
        question_field: the document's field that relevance is computed from; "" for `question`, or
            the whole prompt where there is none.
        max_new_tokens: for tasks that set none; 128 as in LLaVA's own evaluation.
        seed, aspect, together, positions: as of `compare`; on every document other tokens are
            drawn.
        guidance_text: as of `RelevanceOptions`.
        batch_size: how many documents are answered together.

    Raises ValueError, with a sentence to show, for an unknown method, or no budget or number.
    """

    pretrained: str = "llava-1.5-7b"
    method: str = "spare"
    budget: Budget = 64
    question_field: str = ""
    max_new_tokens: int = 128
    seed: int = 0
    aspect: Aspect | None = None
    together: bool = False
    positions: Positions | None = None
    guidance_text: GuidanceText = "clip"
    system: str = "auto"
    bits: int = 16
    device: str = "auto"
    batch_size: int = 1

    def __post_init__(self) -> None:
        (budget,) = read_budgets([str(self.budget)])
        object.__setattr__(self, "budget", budget)
        for name in ("max_new_tokens", "batch_size"):  # as a harness gives them, perhaps as texts
            number = str(getattr(self, name))
            if not number.isdecimal() or int(number) < 1:
                raise ValueError(f"{name}={number} is not possible. Give a whole number from 1 on.")
            object.__setattr__(self, name, int(number))
        object.__setattr__(self, "seed", read_seed(self.seed))
        if self.positions not in (None, *get_args(Positions)):
            raise ValueError(
                f"positions={self.positions} is not possible. Choose one of: "
                f"{', '.join(get_args(Positions))}."
            )
        _ = self.methods, self.relevance

    @property
    def relevance(self) -> RelevanceOptions:
        """What relevance compares."""
        return RelevanceOptions(guidance_text=self.guidance_text)

    @property
    def methods(self) -> dict[str, Method]:
        """The method by its label; none where nothing is pruned."""
        return {} if self.method == "none" else choose([self.method], self.seed)


def read_options(arguments: Mapping[str, Any]) -> HarnessOptions:
    """Model arguments by name -> options; ValueError also for a name that is none of the fields."""
    names = [field.name for field in dataclasses.fields(HarnessOptions)]
    for name in arguments:
        if changed_settings({name: object()}):
            raise ValueError(f"{name} is not possible, because answers are greedy. Leave it out.")
        if name not in names:
            raise ValueError(f"There is no model argument {name}. Choose of: {', '.join(names)}.")
    return HarnessOptions(**arguments)


def check_greedy(settings: Mapping[str, Any], task: str) -> None:
    """Raise ValueError for generation settings of a task that change a greedy answer."""
    for name in changed_settings(settings):
        raise ValueError(
            f"The task {task} sets {name}={settings[name]}, but answers are greedy here. Take it "
            "back, for example by --gen_kwargs do_sample=False,temperature=0."
        )


class Question(NamedTuple):
    """A document to be answered.

    prompt: for the language model. pruned: its view and what is kept; None without a picture.
    """

    prompt: str
    pruned: PrunedView | None = None


class PrunedModel:
    """A model that answers documents as the options say.

    settings: what all its answers depend on.
    """

    def __init__(self, model: Model, options: HarnessOptions) -> None:
        """Raises ValueError, with a sentence to show, for what this model cannot do."""
        self.model, self.options, self.methods = model, options, options.methods
        self.settings = dataclasses.asdict(options) | {
            "aspect": model.aspect(options.aspect),
            "positions": model.position_option(options.positions),
            "system": model.system,
            "revision": model.revision,
        }
        for method in self.methods.values():
            if reason := model.reason_against(method, options.guidance_text):
                form = method.text_free
                instead = f"method={form}" if form else "another method"
                raise ValueError(f"{method.title} cannot run: {reason}. Choose {instead}.")
            if isinstance(options.budget, int):
                check_budget(options.budget, model.most_tokens)

    def ask(
        self,
        prompt: str,
        document: Mapping[str, Any],
        pictures: Sequence[Any],
        task: str,
        number: int,
    ) -> Question:
        """A document of a task with its pictures, as `answer` takes it.

        Raises ValueError, with a sentence to show: the field is not there, or not one picture is.
        """
        field = self.options.question_field
        if field and field not in document:
            raise ValueError(
                f"Documents of the task {task} have no field {field}. Choose a question_field of: "
                f"{', '.join(document)}."
            )
        if not pictures:
            return Question(prompt)
        if len(pictures) > 1 or not isinstance(pictures[0], Image.Image):
            raise ValueError(
                f"Document {number} of the task {task} has more than one picture, or a video. "
                "Leave the task out."
            )
        picture = self.model.look(pictures[0], self.options.aspect)
        view = self.model.ask(picture, prompt, together=self.options.together)
        kept: Pruning | None = None
        for method in reseed(self.methods, task, str(number)).values():
            bare = str(document.get(field or "question") or prompt)
            asked = self.model.ask(picture, bare, self.options.relevance, self.options.together)
            kept = keep(method, asked, self.options.budget)
        return Question(prompt, (view, kept))

    def answer(
        self, questions: Sequence[Question], settings: Mapping[str, Any]
    ) -> list[tuple[str, dict[str, Any]]]:
        """Each greedy answer, and what it was made with.

        settings: a task's for generation, of which `max_new_tokens` and `until`, one text or
            several that end an answer, are read.
        """
        longest = settings.get("max_new_tokens") or self.options.max_new_tokens
        until = settings.get("until") or []
        pruned = [question.pruned for question in questions if question.pruned]
        together = iter(self.model.answer_many(pruned, longest, self.options.positions))
        replies = []
        for question in questions:
            alone = question.pruned is None
            reply = self.model.answer_text(question.prompt, longest) if alone else next(together)
            text = reply.text
            for end in [until] if isinstance(until, str) else until:
                text = text.split(end)[0]
            replies.append((text, self.record(question, len(reply.token_ids))))
        return replies

    def score(self, question: Question, text: str) -> tuple[tuple[float, bool], dict[str, Any]]:
        """How likely a text goes on from the question, in nats, and whether it is the greedy
        answer; and what that was made with."""
        score = self.model.score_continuation(*question, text, self.options.positions)
        pair = sum(score.log_probabilities), score.by_itself
        return pair, self.record(question, len(score.log_probabilities))

    def record(self, question: Question, tokens: int) -> dict[str, Any]:
        """What an answer of so many tokens was made with, to be written next to it."""
        n = kept = 0
        if question.pruned:
            view, selection = question.pruned
            n = view.tokens.n
            kept = n if selection is None else selection.size
        counts = {"all_visual_tokens": n, "visual_tokens": kept, "output_tokens": tokens}
        return self.settings | counts
