"""Questions without a picture: nothing can be pruned, so they run by the stock model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from spare_demo.models.generate.batch import Score, ShortAnswer
from spare_demo.models.generate.passes import Passes


def write_alone(
    hf: Any, tokenizer: Any, passes: Passes, ids: Tensor, max_new_tokens: int
) -> ShortAnswer:
    """The greedy answer to one prompt.

    Args:
        hf, tokenizer, passes: as of `decoding.AnswerRun`.
        ids: (1, T) a prompt without image placeholders.
        max_new_tokens: at least 1.
    """
    prompt = ids.to(hf.device)
    written, _ = passes.run(
        lambda: hf.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            output_logits=True,
            return_dict_in_generate=True,
        )
    )
    new = written.sequences[0, ids.shape[1] :].tolist()
    text = tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return ShortAnswer(text.strip(), tuple(new), written.logits[0][0].float().cpu().clone())


def score_alone(
    hf: Any, tokenizer: Any, passes: Passes, ids: Tensor, given: Sequence[int]
) -> Score:
    """How likely given tokens are as the answer to one prompt (teacher forcing).

    Args:
        hf, tokenizer, passes, ids: as of `write_alone`.
        given: at least one.
    """
    tokens = torch.tensor(given)
    whole = torch.cat([ids, tokens[None]], dim=1).to(hf.device)
    places = len(given) + 1
    logits, _ = passes.run(lambda: hf(input_ids=whole, logits_to_keep=places).logits[0, :-1])
    shares = logits.cpu().double().log_softmax(dim=-1).gather(1, tokens[:, None])[:, 0]
    by_itself = write_alone(hf, tokenizer, passes, ids, len(given)).token_ids == tuple(given)
    return Score(tuple(shares.tolist()), by_itself)
