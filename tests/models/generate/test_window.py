"""Language models whose attention slides: what comes of sharing a pass must not depend on it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
from PIL import Image
from stock import answer_all
from transformers import MistralConfig, MistralModel

from spare_demo.models import LlavaModel
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.layerwise import window
from spare_demo.tokens import Selection

PICKS = [None, [3, 0, 15, 7], [5]]
LONGEST = 24
Sliding = Callable[[int | None], LlavaModel]


@pytest.fixture
def sliding(tiny_model: LlavaModel) -> Sliding:
    """The tiny model with its Llama as a Mistral, same weights, that looks back so far."""

    def made(positions: int | None) -> LlavaModel:
        hf = copy.deepcopy(tiny_model.hf)
        llama = hf.config.text_config.to_dict()
        for name in ("model_type", "architectures", "layer_types"):
            llama.pop(name, None)
        config = MistralConfig(**llama | {"sliding_window": positions})
        config._attn_implementation = hf.config.text_config._attn_implementation
        mistral = MistralModel(config).eval()
        mistral.load_state_dict(hf.model.language_model.state_dict())
        hf.config.text_config, hf.model.language_model = config, mistral
        return LlavaModel(hf, tiny_model.processor, None, name="sliding")

    return made


@pytest.mark.parametrize("positions", [None, 256, 64, 12])
def test_shared_passes_give_what_each_answer_gets_alone(
    sliding: Sliding, photo: Image.Image, positions: int | None
) -> None:
    """A window that no prompt reaches, that only some do, and that all do."""
    model = sliding(positions)
    view = model.encode(photo, "What colour is the circle, and what is beside it?")
    picks = [pick and Selection(pick) for pick in PICKS]
    alone = [model.answer(view, pick, LONGEST).token_ids for pick in picks]
    together = answer_all(model, view, {str(i): p for i, p in enumerate(picks)}, LONGEST)
    assert [answer.token_ids for answer in together.values()] == alone
    many = model.answer_many([(view, pick) for pick in picks], LONGEST)
    assert [said.token_ids for said in many] == alone


def test_a_captured_prefill_says_how_long_its_cache_is(
    sliding: Sliding, photo: Image.Image
) -> None:
    model = sliding(256)
    view = model.encode(photo, "What colour is the circle?")
    eager = [model.answer(view, pick and Selection(pick), LONGEST) for pick in PICKS]
    model._captured = CapturedPrefill(model.hf)
    for pick, expected in zip(PICKS, eager, strict=True):
        answer = model.answer(view, pick and Selection(pick), LONGEST)
        assert answer.token_ids == expected.token_ids
        assert answer.kept_per_layer == expected.kept_per_layer


def test_a_window_cuts_what_is_seen(sliding: Sliding, photo: Image.Image) -> None:
    """Else the test above shows nothing."""
    view = sliding(None).encode(photo, "What colour is the circle?")
    whole = sliding(None).answer(view, None, LONGEST)
    assert sliding(256).answer(view, None, LONGEST).token_ids == whole.token_ids
    assert sliding(12).answer(view, None, LONGEST).token_ids != whole.token_ids


def test_what_is_known_of_the_window(sliding: Sliding) -> None:
    assert window(sliding(None).hf) == math.inf
    assert window(sliding(12).hf) == 12
