"""The language model's run: one prefill over text and kept visual tokens, then token by token.

An own loop instead of ``generate``, because the page needs what ``generate`` does not report: the
prefill apart from the rest, the cache as the prefill left it, and a lock that is free between
tokens. Greedy decoding gives token for token what ``generate`` gives.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache

from spare_demo.models.base import Answer
from spare_demo.models.generate.cache import CACHE, cache_bytes
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.layerwise import LayerwiseRun
from spare_demo.models.generate.passes import Passes
from spare_demo.models.generate.prefill_floor import prefill_operations
from spare_demo.models.generate.repetition import penalised
from spare_demo.models.generate.rows import Rows, image_run, prompt_embeddings
from spare_demo.pruners.plan import LayerPlan


class AnswerRun:
    """One answer, while it is being written.

    Attributes:
        text: what is written so far.
        open: whether more is to be written.
        by_itself: whether the model would have written just this so far, with nothing given.
        joinable: whether it can be decoded together with others (together.py).
        cache: keys and values after the last pass.
        logits: (vocab,) float32, the scores after the last token.
        prompt_tokens, kv_cache_bytes, decode_seconds, allocated_bytes: as of `Answer`.
        static_bytes: what a captured prefill keeps to itself.
    """

    def __init__(
        self,
        hf: Any,
        tokenizer: Any,
        passes: Passes,
        input_ids: Tensor,
        rows: Rows,
        positions: Tensor | None,
        max_new_tokens: int,
        within: bool = True,
        captured_prefill: CapturedPrefill | None = None,
        plan: LayerPlan | None = None,
    ) -> None:
        """hf, tokenizer, passes: the model, its tokenizer, and the turn-taking on its device.
        input_ids: (1, T) with one unbroken run of image placeholders.
        rows: what stands in the placeholders' place.
        positions: (axes, L) rotary positions of the L tokens that enter, CPU; the answer's go on
            from the last. None for compact ones: 0, 1, 2, …, the text follows the rows at once.
        max_new_tokens: at least 1.
        within: whether every layer sees all of prompt and answer.
        captured_prefill: what runs the prefill where it can; None for a pass as usual.
        plan: which visual tokens of `rows` leave on the way, and where; None for none.
        """
        self._hf, self._passes, self._rows = hf, passes, rows
        self._positions, self._plan, self.longest = positions, plan, max_new_tokens
        self.joinable = within and plan is None and rows.bias is None
        self._captured = captured_prefill if self.joinable and positions is None else None
        self._input_ids, self._ends = input_ids, end_ids(hf)
        self.text, self.open, self.by_itself = Text(tokenizer), True, True
        run = image_run(input_ids, hf.config.image_token_id)
        self._first_row = run.start
        self.prompt_tokens = run.start + len(rows.values) + input_ids.shape[1] - run.stop
        self._layerwise: LayerwiseRun | None = None
        self.cache: Any = None
        self.logits = torch.empty(0)
        self.static_bytes = self.allocated_bytes = 0
        self.decode_seconds = 0.0
        self._ended: Literal["end", "length"] = "length"
        self._log_probabilities: list[float] = []

    @property
    def next_place(self) -> int:
        """The position of the token after the prompt, the same on each axis."""
        own = self._positions
        return self.prompt_tokens if own is None else int(own[0, -1]) + 1

    def stream(self, given: Sequence[int] = ()) -> Generator[str, None, Answer]:
        """Write the whole answer by itself, yielding the pieces of its text; returns the `Answer`.

        given: tokens to write first, whatever the model would have chosen.
        """
        self.prefill(warm=not given)  # nobody is shown the seconds of words that are scored
        self.allocated_bytes = self.kv_cache_bytes + self.static_bytes
        while True:
            written = len(self.text.ids)
            if piece := self.choose(given[written] if written < len(given) else None):
                yield piece
            if not self.open:
                if len(self.text.ids) >= min(len(given), self.longest):
                    break
                self.open, self.by_itself = True, False  # the model would have ended here
            self.step()
        if piece := self.text.rest():
            yield piece
        return self.answer()

    def prefill(self, warm: bool = True) -> None:
        """Read the prompt, timed, and measure the cache as it then is.

        warm: whether a pass of a new kind runs untimed first (`Passes.warm`).
        """
        plan, captured = self._plan, self._captured
        if captured is not None:
            weight = self._hf.get_input_embeddings().weight
            self._passes.run(lambda: captured.prepare(self.prompt_tokens, weight))
        if warm:
            layers = None if plan is None else (plan.method.title, plan.per_layer)
            kind = (self.prompt_tokens, captured is not None, layers)
            self._passes.warm(kind, self._read_prompt)
        _, self._prefill_seconds = self._passes.run(self._read_prompt)
        # Cloned: a plain tensor, not an inference-mode one.
        self._first_logits = self.logits.cpu().clone()
        self.kv_cache_bytes = cache_bytes(self.cache)
        others = self.prompt_tokens - self._rows.visual  # text and newlines, in every layer
        layers_in_all = range(self._hf.config.text_config.num_hidden_layers)
        self._kept = tuple(self.cache.get_seq_length(layer) - others for layer in layers_in_all)

    def _read_prompt(self) -> None:
        """Run the prompt into a new cache."""
        hf, visual, plan = self._hf, self._rows.values, self._plan
        self.cache = DynamicCache(config=hf.config)
        embeds = prompt_embeddings(hf, self._input_ids, visual)[None]
        if self._captured is not None:
            self.logits, self.cache, self.static_bytes = self._captured(embeds)
            return
        if plan is not None:
            tokens = self._first_row + (~self._rows.newline).nonzero().flatten()
            text_begins, decoder = self._first_row + len(visual), hf.model.language_model
            self._layerwise = LayerwiseRun(decoder, plan, tokens, text_begins, self._positions)
            self.cache = self._layerwise.cache
        self._forward(embeds, 0)

    def step(self) -> None:
        """Read the token written last, timed."""
        device, place = self._hf.device, self.prompt_tokens + len(self.text.ids) - 1

        def read() -> None:
            token = torch.tensor([self.text.ids[-1:]], device=device)
            self._forward(self._hf.get_input_embeddings()(token), place)

        _, seconds = self._passes.run(read)
        self.decode_seconds += seconds

    def _forward(self, embeds: Tensor, start: int) -> None:
        """One pass over (1, t, d), the tokens of prompt and answer from `start` on."""
        if self._layerwise is not None:
            run = self._layerwise.step if start else self._layerwise.prefill
            self.logits = self._hf.lm_head(run(embeds))[0, -1].float()
            return
        out = self._hf(
            inputs_embeds=embeds,
            use_cache=True,
            logits_to_keep=1,
            **{CACHE: self.cache},
            **self._position_inputs(start, start + embeds.shape[1]),
            **self._mask_inputs(start, start + embeds.shape[1]),
        )
        self.logits = out.logits[0, -1].float()

    def _position_inputs(self, start: int, end: int) -> dict[str, Tensor]:
        """The positions of tokens start..end-1 of prompt and answer, if they are not compact."""
        own = self._positions
        if own is None:
            return {}
        position_ids = own[:, start:end]
        if position_ids.shape[1] == 0:  # a token of the answer
            position_ids = own[:, -1:] + (end - own.shape[1])
        # Models with one axis want (1, L), the others (axes, 1, L).
        axes = position_ids[:, None] if len(position_ids) > 1 else position_ids
        return {"position_ids": axes.to(self._hf.device)}

    def _mask_inputs(self, start: int, end: int) -> dict[str, Tensor]:
        """The mask that holds the rows' bias, if they have one, and what comes later."""
        bias, first = self._rows.bias, self._first_row
        if bias is None:
            return {}
        columns = torch.zeros(end, dtype=bias.dtype)
        columns[first : first + len(bias)] = bias
        later = torch.ones(end - start, end, dtype=torch.bool).triu(1 + start)
        mask = columns.expand(end - start, end).masked_fill(later, -torch.inf)
        return {"attention_mask": mask[None, None].to(self._hf.device, self._hf.dtype)}

    def choose(self, given: int | None = None) -> str:
        """Write the likeliest next token, or the one given; the piece of text it completes."""
        so_far = [*self._input_ids[0].tolist(), *self.text.ids]
        own = int(penalised(self._hf.generation_config, self.logits, so_far).argmax())
        token = own if given is None else given
        self.by_itself &= token == own
        shares = self.logits.cpu().double().log_softmax(dim=-1)
        self._log_probabilities.append(float(shares[token]))
        piece = self.text.add(token)
        if token in self._ends or len(self.text.ids) >= self.longest:
            self._ended, self.open = "end" if token in self._ends else "length", False
        return piece

    def answer(self) -> Answer:
        """The finished answer; call it after `Text.rest`."""
        visual = self._rows.visual
        others = self.prompt_tokens - visual
        return Answer(
            text=self.text.sent,
            token_ids=tuple(self.text.ids),
            prompt_tokens=self.prompt_tokens,
            visual_tokens=visual,
            newline_tokens=len(self._rows.values) - visual,
            prefill_seconds=self._prefill_seconds,
            prefill_operations=prefill_operations(self._hf, [others + k for k in self._kept]),
            decode_seconds=self.decode_seconds,
            kv_cache_bytes=self.kv_cache_bytes,
            allocated_bytes=self.allocated_bytes,
            kept_per_layer=self._kept,
            first_logits=self._first_logits,
            ended=self._ended,
            log_probabilities=tuple(self._log_probabilities),
            layer_sets=() if self._layerwise is None else self._layerwise.sets,
        )


def end_ids(hf: Any) -> set[int]:
    """The ids that close an answer, as ``generate`` takes them from the generation config."""
    ids = hf.generation_config.eos_token_id
    return set() if ids is None else {ids} if isinstance(ids, int) else set(ids)


class Text:
    """Token ids -> text in pieces that are never taken back.

    A token may hold half a character, and blanks at the end may turn out to be the answer's last:
    both are kept until the next token decides.
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.ids: list[int] = []
        self.sent = ""

    def add(self, token: int) -> str:
        """The next token; the piece of text that it completes, "" where none is sure yet."""
        self.ids.append(token)
        return self._send(self._decoded().rstrip("\N{REPLACEMENT CHARACTER}").rstrip())

    def rest(self) -> str:
        """The text that was still withheld; call once, at the end."""
        return self._send(self._decoded())

    def _decoded(self) -> str:
        text: str = self._tokenizer.decode(
            self.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.strip()

    def _send(self, text: str) -> str:
        piece = text[len(self.sent) :] if text.startswith(self.sent) else ""
        self.sent += piece
        return piece
