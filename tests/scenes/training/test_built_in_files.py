"""What training leaves behind is a checkpoint like any other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import open_clip
import pytest
import torch
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.models import load_model
from spare_demo.models.generate.prompt import build_prompt
from spare_demo.scenes.draw import draw
from spare_demo.scenes.training import architecture
from spare_demo.scenes.training.files import (
    read_clip,
    read_history,
    write_clip,
    write_history,
    write_llava,
)
from spare_demo.scenes.training.phases import TOWER
from spare_demo.scenes.world import World, rng_of, sample_scene


def write(
    folder: Path,
    clip: open_clip.CLIP,
    llava: LlavaForConditionalGeneration,
    text_tokenizer: PreTrainedTokenizerFast,
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    write_clip(folder / "clip", clip, text_tokenizer)
    write_history(folder / "clip", "tower", trained(12, "one"))
    write_llava(folder, llava, language_tokenizer, folder / "clip")
    write_history(folder, "language", trained(34, "two"))


def trained(steps: int, line: str) -> Any:
    return SimpleNamespace(phases=TOWER[:1], steps=steps, seed=5, log=[line])


def test_exported_files_load_see_and_answer(
    tmp_path: Path,
    clip: open_clip.CLIP,
    llava: LlavaForConditionalGeneration,
    text_tokenizer: PreTrainedTokenizerFast,
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    before = {name: weight.clone() for name, weight in llava.state_dict().items()}
    write(tmp_path, clip, llava, text_tokenizer, language_tokenizer)

    model = load_model(str(tmp_path), device="cpu")
    for name, weight in model.hf.state_dict().items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, before[name].half().float(), atol=0, rtol=0)
    question = "What colour is the star?"
    view = model.encode(draw(sample_scene(World(), rng_of("page", 0))), question)
    made = architecture.processor(language_tokenizer)
    assert torch.equal(view.input_ids, build_prompt(made, question, 576)[1])
    assert view.tokens.features.shape == (576, 32)
    answer = model.answer(view, max_new_tokens=3)
    assert 1 <= len(answer.token_ids) <= 3
    assert answer.visual_tokens == 576

    # Relevance: one vision pass serves it, and the patches are those of the CLIP that was trained.
    assert view.tokens.clip_image is not None and view.tokens.clip_text is not None
    padded = text_tokenizer([question], padding="max_length", max_length=77, return_tensors="pt")
    with torch.no_grad():
        text = clip.encode_text(padded["input_ids"])
        seen = model.hf.model.vision_tower(view.pixel_values, output_hidden_states=True)
        patches = clip.visual.ln_post(seen.hidden_states[-2][0, 1:]) @ clip.visual.proj
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(view.tokens.clip_text, text).min() > 0.999  # shipped in half precision
    assert cosine(view.tokens.clip_image, patches).min() > 0.999


def test_the_true_sizes_keep_to_the_limits(
    tmp_path: Path,
    text_tokenizer: PreTrainedTokenizerFast,
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Every file under 9.5 MB and 17 MB in all, and the shape of LLaVA-1.5."""
    clip = architecture.new_clip(text_tokenizer)
    llava = architecture.new_llava(clip, language_tokenizer)
    config = llava.config
    assert (config.vision_config.image_size, config.vision_config.patch_size) == (336, 14)
    assert (config.vision_feature_layer, config.vision_feature_select_strategy) == (-2, "default")
    write(tmp_path, clip, llava, text_tokenizer, language_tokenizer)
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert max(sizes) < 9.5e6
    assert sum(sizes) < 17e6
    phases = [json.loads(json.dumps(dataclasses.asdict(TOWER[0])))]
    assert read_history(tmp_path) == {
        **{"tower_steps": 12, "tower_seed": 5, "tower_phases": phases},
        **{"language_steps": 34, "language_seed": 5, "language_phases": phases},
    }
    assert (tmp_path / "clip" / "training.log").read_text() == "one\n"
    assert (tmp_path / "training.log").read_text() == "two\n"
    with pytest.raises(OSError):
        read_history(tmp_path / "elsewhere")
    for name, weight in read_clip(tmp_path / "clip").state_dict().items():
        assert torch.equal(weight, clip.state_dict()[name].half().float()), name


def test_the_tokenizers_speak_of_the_world_in_few_tokens_and_of_all_else_in_bytes(
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    question = "What number is on the purple diamond left of the star?"
    assert len(language_tokenizer.tokenize(question)) < 16
    for text in (question, "schön, 日本語 🙂", " \n  two  blanks"):
        ids = language_tokenizer.encode(text, add_special_tokens=False)
        assert language_tokenizer.decode(ids) == text
