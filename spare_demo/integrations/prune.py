"""Pruning in one's own `generate`: a stock model's inputs in, shorter stock inputs out.

The prompt is embedded as the model would embed it, with the rows that a method keeps in the image
placeholders' place. Nothing is patched and nothing stays behind on the model, so beams, sampling
and streamers are transformers' own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from spare_demo.comparison.request import check_any_budget, choose, read_budget
from spare_demo.comparison.selections import text_free_form
from spare_demo.models import Model, TextTower
from spare_demo.models.base import PictureInputs
from spare_demo.models.generate.repetition import prompt_penalty
from spare_demo.models.generate.rows import kept_rows, prompt_embeddings
from spare_demo.models.loading.text_tower import text_side_of_model
from spare_demo.models.stock import family_of_model, read_inputs
from spare_demo.pruners import Method
from spare_demo.pruners.merging import MergingPruner
from spare_demo.relevance import GuidanceText, RelevanceOptions
from spare_demo.settings import check_characters
from spare_demo.tokens import Positions, Selection, cpu_by_default

_log = logging.getLogger(__name__)

_NO_BIAS = (
    "generate has no input for a bias of the attention. Leave size_bias at none, or load the model "
    "with spare_demo.load_model and pass the selection to model.answer."
)

_stack = partial(pad_sequence, batch_first=True, padding_side="left")


class PrunedInputs(dict[str, Any]):
    """What `model.generate(**inputs)` takes, with the kept sets beside it. b prompts.

    Keys: `inputs_embeds` (b, L, d), `attention_mask` (b, L), both padded on the left; with
    original positions `position_ids` (b, L), of Qwen2.5-VL (3, b, L); and `prompt_penalty`'s, where
    the checkpoint has one. As always with `inputs_embeds`, `generate` returns new tokens alone.

    Attributes:
        selections: of each prompt what was kept; `order` counts the visual tokens of its picture.
        methods: of each prompt the name of the method that ran: where there is nothing to compare
            a picture with, that of the text-free form of the one asked for.
        guidance_text: what methods that read a question compared it by; with "words" they are not
            as in their papers.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any],
        selections: list[Selection],
        methods: list[str],
        guidance_text: GuidanceText,
    ) -> None:
        super().__init__(tensors)
        self.selections, self.methods, self.guidance_text = selections, methods, guidance_text


@cpu_by_default()
def prune(
    model: Any,
    processor: Any,
    inputs: Mapping[str, Any],
    *,
    method: str | Method | Selection = "spare",
    budget: float | str = 64,
    question: str | Sequence[str] | None = None,
    text: TextTower | None = None,
    seed: int = 0,
    positions: Positions | None = None,
    guidance_text: GuidanceText = "clip",
) -> PrunedInputs:
    """The inputs of `model.generate` with the visual tokens that a method keeps.

    Args:
        model: of one of the classes of `supported_classes`, however it was loaded.
        processor: of its checkpoint.
        inputs: what the processor made of b prompts with one picture each; a batch is padded.
        method: a name of `PRUNERS`, also with settings ("divprune:metric=euclidean"), a
            ready-made method, or a set made by hand for every picture.
        budget: visual tokens kept of each picture, or a share of them such as "12.5%".
        question: what relevance compares the pictures with, one for all or one for each prompt;
            None for none. Methods that need one then run in their text-free form, or are refused if
            they have none.
        text: CLIP's text side; None loads the checkpoint's own when a method first needs it, and
            keeps it for later calls.
        seed: of methods that draw at random.
        positions: "compact" or "original", as of `model.answer`; None for the family's usual.
        guidance_text: what the question is compared by: "clip", or "words" of the language model,
            which every model has; no text side is read then.

    Raises:
        ValueError: with a sentence to show, before any pass where that is possible.
        ModelError: the text side cannot be read or downloaded, or the checkpoint is of a kind that
            cannot be looked into.
    """
    relevance = RelevanceOptions(guidance_text=guidance_text)
    if not isinstance(text, TextTower | None):
        raise ValueError(
            f"text must be a TextTower of spare_demo.models, not {type(text).__name__}. The "
            "question goes into question=…; leave text out."
        )
    family = family_of_model(model)
    pruner = _method(method, seed)
    if not pruner.by_hand:
        check_any_budget(budget)
    prompts, pictures = read_inputs(family, model, processor, inputs)
    questions = _questions(question, len(prompts))
    if pruner.needs_text and pruner.text_free is None and not all(questions):
        raise ValueError(
            f"{pruner.title} needs a question. Pass question=…, or choose another method."
        )
    name = type(model).__name__
    sizes = [picture.grid.n for picture in pictures]
    budgets = sizes if pruner.by_hand else [read_budget(budget, n) for n in sizes]

    by_clip = guidance_text == "clip" and family.clip_tower and pruner.needs_text
    if text is None and by_clip and any(questions):
        text = text_side_of_model(model)
    encoder = family(model, processor, text, name=name)
    option = encoder.position_option(positions)
    if pruner.text_free is None and (reason := encoder.reason_against(pruner, guidance_text)):
        raise ValueError(f"{pruner.title} cannot run here: {reason}. Choose another method.")
    pruned = [
        _prune_one(encoder, ids, picture, asked, pruner, k, relevance, option)
        for ids, picture, asked, k in zip(prompts, pictures, questions, budgets, strict=True)
    ]
    # Without any question no text side was read, which is no lack of the model's.
    reason = encoder.reason_against(pruner, guidance_text) if any(questions) else None
    embeds, places, selections, methods = map(list, zip(*pruned, strict=True))
    for ran in sorted({*methods} - {pruner.name}):
        lack = reason or "it needs a question"
        _log.warning("%s ran in the place of %s: %s.", ran, pruner.name, lack)
    tensors: dict[str, Any] = {
        "inputs_embeds": _stack(embeds),
        "attention_mask": _stack(
            [torch.ones(len(each), dtype=torch.long, device=each.device) for each in embeds]
        ),
    }
    if places[0] is not None:  # of one family, so of all prompts or of none
        axes = _stack([own.T for own in places]).permute(2, 0, 1).contiguous()  # (axes, b, L)
        axes = axes.to(embeds[0].device)
        tensors["position_ids"] = axes if len(axes) > 1 else axes[0]
    tensors |= prompt_penalty(model, prompts)
    return PrunedInputs(tensors, selections, methods, guidance_text)


def _prune_one(
    encoder: Model,
    ids: Tensor,
    picture: PictureInputs,
    question: str,
    method: Method,
    budget: int,
    relevance: RelevanceOptions,
    option: Positions,
) -> tuple[Tensor, Tensor | None, Selection, str]:
    """(L, d) embeddings of one (1, T) prompt, its positions (axes, L), what was kept, by what."""
    text_pass = encoder.read(question, relevance)
    encoding = encoder.see(picture, text_pass)
    tokens, _ = encoder.relate(encoding, question, relevance, text_pass=text_pass)
    method = text_free_form(method, tokens)
    selection = method.select(tokens, budget)
    if selection.bias is not None:  # of a method of the caller's own
        raise ValueError(_NO_BIAS)
    rows = kept_rows(encoding, selection)
    with torch.no_grad():
        embeddings = prompt_embeddings(encoder.hf, ids, rows.values)
    places = encoder.positions(ids, picture.grid, rows, option)
    return embeddings, places, selection, method.name


def _method(method: str | Method | Selection, seed: int) -> Method:
    if not isinstance(method, str | Method | Selection | type):
        raise ValueError(
            'The method must be a name such as "spare", a method such as PRUNERS["spare"] or a '
            f"Selection, not {method if method is None else type(method).__name__}."
        )
    named = (method,) if isinstance(method, str) else {"method": method}
    (pruner,) = choose(named, seed).values()
    with_bias = isinstance(pruner, MergingPruner) and pruner.size_bias != "none"
    if with_bias or (isinstance(method, Selection) and method.bias is not None):
        raise ValueError(_NO_BIAS)
    if pruner.inside:
        raise ValueError(
            f"{pruner.title} chooses inside the language model, layer by layer, and generate has "
            "no input for that. Load the model with spare_demo.load_model and pass the method's "
            "plan(view, budget) to model.answer."
        )
    return pruner


def _questions(question: str | Sequence[str] | None, count: int) -> list[str]:
    if question is None or isinstance(question, str):
        question = [question or ""] * count
    if not isinstance(question, Sequence) or not all(isinstance(each, str) for each in question):
        raise ValueError(
            "The question must be text, or a list of one text for each prompt. Pass None for none."
        )
    if len(question) != count:
        raise ValueError(
            f"The number of questions, {len(question)}, is not that of the prompts, {count}. Pass "
            "one for all, or one for each."
        )
    return [check_characters("question", each.strip()) for each in question]
