"""The half of a model that answers: rows of visual tokens in, words out.

Pruning is an argument: the kept rows of the projector's output stand in the image placeholders'
place, in raster order. Nothing is patched, so one loaded model gives the unpruned and every pruned
answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from spare_demo.models.base import Answer, View
from spare_demo.models.generate.batch import Prompt, Score, ShortAnswer, decode_batch, score_batch
from spare_demo.models.generate.captured_prefill import BUCKET, CapturedPrefill
from spare_demo.models.generate.decoder_inputs import DecoderInputs, PrunedView
from spare_demo.models.generate.decoding import AnswerRun
from spare_demo.models.generate.passes import Passes
from spare_demo.models.generate.prompt import build_prompt, continuation_ids
from spare_demo.models.generate.rows import Rows
from spare_demo.models.generate.together import Label, decode_together, in_step
from spare_demo.pruners.plan import LayerPlan, Pruning
from spare_demo.tokens import Positions, Selection, cpu_by_default

T = TypeVar("T")


class Answering(DecoderInputs):
    """Answers questions about encoded pictures. One pass runs at a time, whoever asks."""

    _passes: Passes
    system: str
    _captured: CapturedPrefill | None = None

    def stream(
        self,
        view: View,
        selection: Pruning | None = None,
        max_new_tokens: int = 64,
        given: Sequence[int] = (),
        positions: Positions | None = None,
    ) -> Generator[str, None, Answer]:
        """Answer piece by piece, greedily; the generator's return value is the `Answer`.

        Closing the generator ends the answer after the token being made.

        Args:
            view: from this model's `ask` or `encode`.
            selection: the tokens to keep, or the plan of a method inside the language model for
                this view; None for all.
            max_new_tokens: at least 1.
            given: tokens to write first, whatever the model would have chosen (see `score`).
            positions: one of `position_options`, None for the first. Under "original" the rows of a
                plan keep their positions as well; under "compact" they do what the method's own
                code does.

        Raises:
            ValueError: at once, not at the first piece: no view or another model's, no selection or
                plan, indices out of range, rows of another width, a plan for another picture or
                model, `max_new_tokens` below 1, positions that this family has not, `given`
                that are no tokens of this model.
        """
        run = self._prepare(view, selection, max_new_tokens, positions)
        return run.stream(self._given(given) if len(given) else ())

    @cpu_by_default()
    def _prepare(
        self,
        view: View,
        selection: Pruning | None,
        max_new_tokens: int,
        positions: Positions | None,
    ) -> AnswerRun:
        """The run of an answer, before its first pass; arguments and errors as of `stream`."""
        self._check_can_answer(max_new_tokens)
        if not isinstance(view, View):
            raise ValueError(
                f"A {type(view).__name__} does not say what is asked about. Pass what "
                "model.encode(image, question) returns."
            )
        plan = None
        if isinstance(selection, LayerPlan):  # some of what enters leaves on the way
            plan = selection.check(view.tokens.n, view.layers)
            selection = plan.entering
        elif not isinstance(selection, Selection | None):
            raise ValueError(
                f"A {type(selection).__name__} does not say which visual tokens to keep. Pass what "
                "a method's select(view.tokens, budget) or plan(view, budget) returns, or None for "
                "all."
            )
        rows = self._rows(view, selection)
        return AnswerRun(
            self.hf,
            self.tokenizer,
            self._passes,
            view.input_ids,
            rows,
            self._positions(view, rows, positions),
            max_new_tokens,
            self._within(view, rows, max(max_new_tokens, BUCKET)),
            self._captured,
            plan,
        )

    def answer(
        self,
        view: View,
        selection: Pruning | None = None,
        max_new_tokens: int = 64,
        positions: Positions | None = None,
    ) -> Answer:
        """`stream`, run to its end."""
        return _run_to_end(self.stream(view, selection, max_new_tokens, positions=positions))

    def score(
        self,
        view: View,
        selection: Pruning | None,
        token_ids: Sequence[int],
        positions: Positions | None = None,
    ) -> Answer:
        """How likely this model finds given words (teacher forcing): `Answer.log_probabilities`.

        The passes are those of an answer in which every token is given, so a method inside the
        language model is scored as it runs.

        token_ids: at least one, such as another answer's. positions, and errors, as of `stream`;
        also ValueError for anything but tokens of this model.
        """
        given = self._given(token_ids)
        return _run_to_end(self.stream(view, selection, len(given), given, positions))

    def _given(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        vocabulary = self.hf.config.text_config.vocab_size
        try:
            given = tuple(operator.index(token) for token in token_ids)
        except TypeError:  # of a text, or no list
            given = ()
        if not given or not 0 <= min(given) <= max(given) < vocabulary:
            raise ValueError(
                f"token_ids must be at least one whole number from 0 to {vocabulary - 1}. Pass an "
                "answer's token_ids, or those that model.tokenizer makes of a text."
            )
        return given

    def stream_together(
        self,
        view: View,
        selections: Mapping[Label, Pruning | None],
        max_new_tokens: int = 64,
        positions: Positions | None = None,
    ) -> Generator[dict[Label, str | Answer], None, None]:
        """Several greedy answers to one question, in step; token for token those of `stream`.

        What can share its decoding does (together.py); plans of methods inside the language model,
        rows with a bias, and prompts longer than a sliding window never do.

        selections: what each label keeps. The other arguments, and errors, as of `stream`.

        Yields:
            by label, the next piece of an answer's text or, at its end, the whole `Answer`.
        """
        runs = {
            label: self._prepare(view, selection, max_new_tokens, positions)
            for label, selection in selections.items()
        }

        def pieces() -> Generator[dict[Label, str | Answer], None, None]:
            together = {label: run for label, run in runs.items() if run.joinable}
            yield from decode_together(self.hf, self._passes, together)
            yield from in_step({k: run.stream() for k, run in runs.items() if not run.joinable})

        return pieces()

    def answer_many(
        self,
        requests: Sequence[PrunedView],
        max_new_tokens: int = 64,
        positions: Positions | None = None,
    ) -> list[ShortAnswer]:
        """What `answer` says, greedily, to each of many; far faster than one after the other.

        Arguments and errors as of `stream`.
        """
        return _in_order(self.answer_each(requests, max_new_tokens, positions))

    def answer_each(
        self,
        requests: Sequence[PrunedView],
        max_new_tokens: int = 64,
        positions: Positions | None = None,
    ) -> Iterator[tuple[int, ShortAnswer]]:
        """`answer_many` for whoever may end it early: the number and the answer of each request,
        batch after batch."""

        def together(prompts: list[Prompt]) -> Iterator[tuple[int, ShortAnswer]]:
            return decode_batch(self.hf, self.tokenizer, self._passes, prompts, max_new_tokens)

        def alone(view: View, selection: Pruning | None) -> ShortAnswer:
            whole = self.answer(view, selection, max_new_tokens, positions)
            return ShortAnswer(whole.text, whole.token_ids, whole.first_logits)

        return self._each(requests, max_new_tokens, positions, together, alone)

    def score_many(
        self,
        requests: Sequence[PrunedView],
        token_ids: Sequence[int],
        positions: Positions | None = None,
    ) -> list[Score]:
        """What `score` says of the same given words, for each of many prompts; far faster.

        Arguments and errors as of `score`.
        """
        given = self._given(token_ids)

        def together(prompts: list[Prompt]) -> Iterator[tuple[int, Score]]:
            return score_batch(self.hf, self._passes, prompts, given)

        def alone(view: View, selection: Pruning | None) -> Score:
            return _score(self._prepare(view, selection, len(given), positions), given)

        return _in_order(self._each(requests, len(given), positions, together, alone))

    def _each(
        self,
        requests: Sequence[PrunedView],
        new: int,
        positions: Positions | None,
        together: Callable[[list[Prompt]], Iterator[tuple[int, T]]],
        alone: Callable[[View, Pruning | None], T],
    ) -> Iterator[tuple[int, T]]:
        """The number and the result of each request: of those that can run in a batch together,
        then of the others, alone."""
        self._check_can_answer(new)
        requests = list(requests)  # a generator gives its requests once
        prompts = self._prompts(requests, new, positions)
        numbers = list(prompts)
        for at, result in together(list(prompts.values())):
            yield numbers[at], result
        for i, request in enumerate(requests):
            if i not in prompts:
                yield i, alone(*request)

    @cpu_by_default()
    def answer_text(self, question: str, max_new_tokens: int = 64) -> Answer:
        """The greedy answer to a question without a picture. Raises ValueError as `stream`."""
        _, ids = build_prompt(self.processor, question, 0, self.system)
        return _run_to_end(self._without_picture(ids, max_new_tokens).stream())

    @cpu_by_default()
    def score_continuation(
        self,
        question: str,
        request: PrunedView | None,
        continuation: str,
        positions: Positions | None = None,
    ) -> Score:
        """How likely a text is to go on from a prompt: `score` of its tokens.

        request: the view of that question and what is kept; None for one without a picture.
        continuation: with the blank before it, where there is one. positions: as of `stream`.

        Raises ValueError as `stream`, and for a text of no token.
        """
        if request is not None:
            given = continuation_ids(self.tokenizer, request[0].prompt, continuation)
            return self.score_many([request], given, positions)[0]
        prompt, ids = build_prompt(self.processor, question, 0, self.system)
        given = continuation_ids(self.tokenizer, prompt, continuation)
        return _score(self._without_picture(ids, len(given)), given)

    def _without_picture(self, ids: Tensor, max_new_tokens: int) -> AnswerRun:
        """The run of an answer to the (1, T) ids of a prompt without a picture."""
        self._check_can_answer(max_new_tokens)
        none = torch.empty(0, dtype=torch.long)
        rows = Rows(torch.empty(0, self.hf.config.text_config.hidden_size), none, none.bool())
        places = torch.arange(ids.shape[1])[None]
        parts = self.hf, self.tokenizer, self._passes, ids, rows, places
        return AnswerRun(*parts, max_new_tokens)


def _in_order(results: Iterator[tuple[int, T]]) -> list[T]:
    by_number = dict(results)
    return [by_number[i] for i in range(len(by_number))]


def _score(run: AnswerRun, given: tuple[int, ...]) -> Score:
    answer = _run_to_end(run.stream(given))
    return Score(answer.log_probabilities, run.by_itself)


def _run_to_end(pieces: Generator[str, None, Answer]) -> Answer:
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
