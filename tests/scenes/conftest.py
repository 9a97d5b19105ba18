"""The built-in model's own recipe at tiny widths: the true grid and tokenizers, nothing trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import open_clip
    from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

TINY: dict[str, dict[str, Any]] = {
    "VISION": {"width": 32, "layers": 2, "head_width": 16, "mlp_ratio": 2.0},
    "TEXT": {"width": 32, "heads": 2, "layers": 2},
    "LANGUAGE": {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "intermediate_size": 48,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    },
}


@pytest.fixture(scope="session")
def few_sentences() -> Iterator[None]:
    """The tokenizers are made of a tenth of their sentences: nearly the same, in a second."""
    from spare_demo.scenes.training import architecture

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(architecture, "_SCENES", 300)
        architecture._corpus.cache_clear()
        yield
    architecture._corpus.cache_clear()


@pytest.fixture(scope="session")
def text_tokenizer(few_sentences: None) -> PreTrainedTokenizerFast:
    from spare_demo.scenes.training import architecture

    return architecture.text_tokenizer()


@pytest.fixture(scope="session")
def language_tokenizer(few_sentences: None) -> PreTrainedTokenizerFast:
    from spare_demo.scenes.training import architecture

    return architecture.language_tokenizer()


@pytest.fixture
def tiny_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`spare_demo.scenes.training.architecture` makes tiny networks for the length of a test."""
    from spare_demo.scenes.training import architecture

    for name, sizes in TINY.items():
        for key, value in sizes.items():
            monkeypatch.setitem(getattr(architecture, name), key, value)


@pytest.fixture
def clip(tiny_sizes: None, text_tokenizer: PreTrainedTokenizerFast) -> open_clip.CLIP:
    import torch

    from spare_demo.scenes.training import architecture

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return architecture.new_clip(text_tokenizer).eval()


@pytest.fixture
def llava(
    clip: open_clip.CLIP, language_tokenizer: PreTrainedTokenizerFast
) -> LlavaForConditionalGeneration:
    """Untrained, its matrices enlarged: else all logits are nearly equal and agree by chance."""
    import torch

    from spare_demo.scenes.training import architecture

    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = architecture.new_llava(clip, language_tokenizer).eval()
    for part in (model.model.language_model, model.model.multi_modal_projector, model.lm_head):
        for parameter in part.parameters():
            if parameter.ndim == 2:
                parameter.data *= 6
    return model
