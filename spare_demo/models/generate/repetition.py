"""The repetition penalty of a checkpoint's generation settings, as `generate` applies it.

Other settings that change which token a greedy answer takes are refused when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
)

_NEUTRAL: dict[str, tuple[Any, ...]] = {  # of generation settings that change greedy tokens
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1.0),
    "bad_words_ids": (None,),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "suppress_tokens": (None,),
    "begin_suppress_tokens": (None,),
    "sequence_bias": (None,),
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1.0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
}


_GREEDY: dict[str, tuple[Any, ...]] = {  # of those that a caller of `generate` gives
    "do_sample": (None, False),
    "temperature": (None, 0),
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "repetition_penalty": (None, 1.0),
}


def changed_settings(settings: Mapping[str, Any]) -> list[str]:
    """Names of the settings, given to one call, with which its answer would be no greedy one."""
    neutral = _NEUTRAL | _GREEDY
    return [name for name, value in settings.items() if value not in neutral.get(name, (value,))]


def unsupported_settings(generation_config: Any) -> list[str]:
    """Names of the settings that would change a greedy answer and are not applied here."""
    return changed_settings({name: getattr(generation_config, name, None) for name in _NEUTRAL})


def penalised(settings: GenerationConfig, logits: Tensor, ids: Iterable[int]) -> Tensor:
    """(vocab,) logits with those of the tokens so far, prompt included, made less likely."""
    penalty = settings.repetition_penalty or 1.0
    if penalty == 1.0:
        return logits
    so_far = torch.tensor([list(ids)], device=logits.device)
    return RepetitionPenaltyLogitsProcessor(float(penalty))(so_far, logits[None])[0]


class PromptPenalty(LogitsProcessor):
    """Applies a checkpoint's repetition penalty to the words of prompt and answer.

    `generate` itself would apply it to the answer alone: of embeddings it does not know the words.
    It holds no model, so that a file or a copy of a model's inputs is small.
    """

    def __init__(self, settings: GenerationConfig, prompts: Sequence[Tensor]) -> None:
        """settings: of the checkpoint. prompts: the (1, T) ids of each."""
        self._settings, self._prompts = settings, [set(ids[0].tolist()) for ids in prompts]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(s, t) new ids and (s, vocab) scores of the s sequences, as many for each prompt."""
        each = len(scores) // len(self._prompts)  # beams, or samples
        rows = [
            penalised(self._settings, row, self._prompts[number // each] | set(new.tolist()))
            for number, (row, new) in enumerate(zip(scores, input_ids, strict=True))
        ]
        return torch.stack(rows)


def prompt_penalty(hf: Any, prompts: Sequence[Tensor]) -> dict[str, Any]:
    """What `generate` needs for a checkpoint's repetition penalty; nothing where it has none.

    A `logits_processor`, and `repetition_penalty` 1 so that it is not applied twice. Take both
    keys out of the inputs to give `generate` a penalty of your own.
    """
    if hf.generation_config.repetition_penalty in (None, 1.0):
        return {}
    processors = LogitsProcessorList([PromptPenalty(hf.generation_config, prompts)])
    return {"logits_processor": processors, "repetition_penalty": 1.0}
