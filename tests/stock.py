"""What the stock classes give, and pictures to give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image

from spare_demo.models import Answer, Model, View
from spare_demo.tokens import Selection


def noise(size: tuple[int, int]) -> Image.Image:
    """A picture of that width and height, the same one each time."""
    levels = np.random.default_rng(size[0]).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(levels)


def stock(model: Model, max_new_tokens: int = 20, **inputs: Any) -> Any:
    """What the stock class's own `generate` answers, with the logits of every step."""
    with torch.inference_mode():
        return model.hf.generate(
            **inputs,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )


def keep_all_as_stock(
    model: Model, view: View, max_new_tokens: int = 20, **inputs: Any
) -> list[Answer]:
    """The answers with all visual tokens and with every one of them picked, which must be stock's.

    inputs: of the stock call.
    """
    expected = stock(model, max_new_tokens, **inputs)
    length = view.input_ids.shape[1]
    answers = []
    for selection in (None, Selection(torch.arange(view.grid.n).flip(0))):
        answer = model.answer(view, selection, max_new_tokens)
        assert list(answer.token_ids) == expected.sequences[0, length:].tolist()
        torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-5, rtol=0)
        assert (answer.prompt_tokens, answer.visual_tokens) == (length, view.grid.n)
        answers.append(answer)
    return answers


def answer_all(model: Model, view: View, asked: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """The answers that `stream_together` ends with, by label."""
    answers: dict[str, Any] = {}
    for step in model.stream_together(view, asked, longest):
        answers |= {label: piece for label, piece in step.items() if isinstance(piece, Answer)}
    return {label: answers[label] for label in asked}
