"""The language model's run: one prefill over text and kept visual tokens, then token by token.

An own loop instead of ``generate``, because the page needs what ``generate`` does not report: the
prefill apart from the rest, the cache as the prefill left it, and a lock that is free between
tokens. Greedy decoding gives token for token what ``generate`` gives.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache

from spare_demo.models.base import Answer
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.layerwise import LayerwiseRun
from spare_demo.models.generate.passes import Passes
from spare_demo.models.generate.prefill_floor import prefill_operations
from spare_demo.models.generate.repetition import penalised
from spare_demo.models.generate.rows import Rows, prompt_embeddings
from spare_demo.pruners.plan import LayerPlan


def decode(
    hf: Any,
    tokenizer: Any,
    passes: Passes,
    input_ids: Tensor,
    rows: Rows,
    positions: Tensor | None,
    max_new_tokens: int,
    given: Sequence[int] = (),
    captured_prefill: CapturedPrefill | None = None,
    plan: LayerPlan | None = None,
) -> Generator[str, None, Answer]:
    """Answer one prompt, yielding the text piece by piece.

    Args:
        hf, tokenizer, passes: the model, its tokenizer, and the turn-taking on its device.
        input_ids: (1, T) with one unbroken run of image placeholders.
        rows: what stands in the placeholders' place.
        positions: (axes, L) rotary positions of the L tokens that enter, CPU; the answer's go on
            from the last. None for compact ones: 0, 1, 2, …, the text follows the rows at once.
        max_new_tokens: at least 1.
        given: tokens to write first, whatever the model would have chosen.
        captured: what runs the prefill where positions are compact; None for a pass as usual.
        plan: which visual tokens of `rows` leave on the way, and where; None for none.

    Returns:
        the `Answer`; the pieces joined are its text.
    """
    device, text, config = hf.device, Text(tokenizer), hf.config
    visual, embed = rows.values, hf.get_input_embeddings()
    placeholders = (input_ids[0] == config.image_token_id).nonzero().flatten()
    first = int(placeholders[0])
    ends, prompt_ids = end_ids(hf), input_ids[0].tolist()
    if positions is not None or plan is not None or rows.bias is not None:
        captured_prefill = None
    static = 0  # bytes that a captured prefill keeps to itself
    layerwise: LayerwiseRun | None = None
    cache: Any = None

    def forward(embeds: Tensor, **more: Tensor) -> tuple[Tensor, int]:
        """One pass -> (vocab,) float32 logits of the last position, and the token chosen."""
        if layerwise is None:
            inputs: dict[str, Any] = {"inputs_embeds": embeds, "past_key_values": cache, **more}
            return with_likeliest(
                hf(**inputs, use_cache=True, logits_to_keep=1).logits[0, -1].float()
            )
        run = layerwise.step if layerwise.sets else layerwise.prefill
        return with_likeliest(hf.lm_head(run(embeds))[0, -1].float())

    def with_likeliest(logits: Tensor) -> tuple[Tensor, int]:
        return logits, int(penalised(hf, logits, [*prompt_ids, *text.ids]).argmax())

    def prefill() -> tuple[Tensor, int]:
        """Read the prompt into a new cache, whatever was there before."""
        nonlocal cache, static, layerwise
        embeds = prompt_embeddings(hf, input_ids, visual)[None]
        if captured_prefill is not None:
            prefill_result = captured_prefill(embeds)
            cache, static = prefill_result.cache, prefill_result.allocated_bytes
            return with_likeliest(prefill_result.logits)
        if plan is None:
            cache = DynamicCache(config=hf.config)
        else:
            tokens, text_begins = (~rows.newline).nonzero().flatten(), first + len(visual)
            decoder = hf.model.language_model
            layerwise = LayerwiseRun(decoder, plan, first + tokens, text_begins, positions)
            cache = layerwise.cache
        return forward(embeds, **where(0, embeds.shape[1]))

    def where(start: int, end: int) -> dict[str, Tensor]:
        """What tokens start..end-1 of prompt and answer need beside their embeddings."""
        return position_inputs(start, end) | mask_inputs(start, end)

    def position_inputs(start: int, end: int) -> dict[str, Tensor]:
        """The positions of tokens start..end-1 of prompt and answer, if they are not compact."""
        if positions is None:
            return {}
        position_ids = positions[:, start:end]
        if position_ids.shape[1] == 0:  # a token of the answer
            position_ids = positions[:, -1:] + (end - positions.shape[1])
        # Models with one axis want (1, L), the others (axes, 1, L).
        axes = position_ids[:, None] if len(position_ids) > 1 else position_ids
        return {"position_ids": axes.to(device)}

    def mask_inputs(start: int, end: int) -> dict[str, Tensor]:
        """The mask that holds the rows' bias, if they have one, and what comes later."""
        if rows.bias is None:
            return {}
        columns = torch.zeros(end)
        columns[first : first + len(rows.bias)] = rows.bias
        later = torch.ones(end - start, end, dtype=torch.bool).triu(1 + start)
        mask = columns.expand(end - start, end).masked_fill(later, -torch.inf)
        return {"attention_mask": mask[None, None].to(device, hf.dtype)}

    prompt_tokens = input_ids.shape[1] - len(placeholders) + visual.shape[0]
    decode_seconds = 0.0
    ended: Literal["end", "length"]
    log_probabilities: list[float] = []

    if captured_prefill is not None:
        prefill_pass = captured_prefill
        passes.run(lambda: prefill_pass.prepare(prompt_tokens, embed.weight))
    if not given:  # nobody is shown the seconds of words that are scored
        passes.warm(prefill_kind(prompt_tokens, captured_prefill, plan), prefill)
    (logits, token), prefill_seconds = passes.run(prefill)
    first_logits = logits.cpu().clone()  # cloned: a plain tensor, not an inference-mode one
    kv_bytes = cache_bytes(cache)
    others = prompt_tokens - rows.visual  # text and newlines, which stay in every layer
    layers = range(config.text_config.num_hidden_layers)
    kept = tuple(cache.get_seq_length(layer) - others for layer in layers)
    operations = prefill_operations(hf, [others + count for count in kept])
    while True:
        if len(text.ids) < len(given):
            token = given[len(text.ids)]
        log_probabilities.append(float(logits.cpu().double().log_softmax(dim=-1)[token]))
        if piece := text.add(token):
            yield piece
        if token in ends or len(text.ids) >= max_new_tokens:
            ended = "end" if token in ends else "length"
            break
        step = torch.tensor([[token]], device=device)
        at = where(prompt_tokens + len(text.ids) - 1, prompt_tokens + len(text.ids))
        (logits, token), seconds = passes.run(
            lambda step=step, at=at: forward(embed(step), **at)  # type: ignore[misc]
        )
        decode_seconds += seconds
    if piece := text.rest():
        yield piece

    return Answer(
        text=text.sent,
        token_ids=tuple(text.ids),
        prompt_tokens=prompt_tokens,
        visual_tokens=rows.visual,
        newline_tokens=len(visual) - rows.visual,
        prefill_seconds=prefill_seconds,
        prefill_operations=operations,
        decode_seconds=decode_seconds,
        kv_cache_bytes=kv_bytes,
        allocated_bytes=kv_bytes + static,
        kept_per_layer=kept,
        first_logits=first_logits,
        ended=ended,
        log_probabilities=tuple(log_probabilities),
        layer_sets=() if layerwise is None else layerwise.sets,
    )


def prefill_kind(
    length: int, captured_prefill: CapturedPrefill | None, plan: LayerPlan | None = None
) -> Hashable:
    """What decides which kernels a prefill runs; see `Passes.warm`."""
    rows = None if plan is None else (plan.method.title, plan.per_layer)
    return length, captured_prefill is not None, rows


def cache_bytes(cache: DynamicCache) -> int:
    """Bytes of the keys and values a cache holds, all layers."""
    layers: list[Any] = [layer for layer in cache.layers if getattr(layer, "is_initialized", False)]
    return sum(t.numel() * t.element_size() for layer in layers for t in (layer.keys, layer.values))


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
