"""Checkpoint folders that lack something are refused, with a sentence that says what to do."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_files import INDEX, read_all, refused, write_one
from safetensors.torch import load_file, save_file


def lose_the_weights(folder: Path) -> None:
    read_all(folder)


def pickle_the_weights(folder: Path) -> None:
    torch.save(read_all(folder), folder / "pytorch_model.bin")


def lose_a_shard(folder: Path) -> None:
    next(folder.glob("model-00003*")).unlink()


def cut_a_shard(folder: Path) -> None:
    shard = next(folder.glob("model-00002*"))
    shard.write_bytes(shard.read_bytes()[:-64])


def empty_a_shard(folder: Path) -> None:
    next(folder.glob("model-00002*")).write_bytes(b"")


def break_the_index(folder: Path) -> None:
    (folder / INDEX).write_text("[]")


def nest_the_index(folder: Path) -> None:
    (folder / INDEX).write_text("[" * 100_000)


def nest_the_config(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)


def leave_no_room_for_a_picture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 10
    (folder / "config.json").write_text(json.dumps(config))


def name_a_layer_that_is_not_there(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["vision_feature_layer"] = 99
    (folder / "config.json").write_text(json.dumps(config))


def write_the_config_of_llava_itself(folder: Path) -> None:
    config = {"model_type": "llava", "mm_vision_tower": "openai/clip-vit-large-patch14-336"}
    (folder / "config.json").write_text(json.dumps(config))


def cut_the_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% for message in")


def lose_a_parameter(folder: Path) -> None:
    state = read_all(folder)
    own = ("image_newline", "visual.merger.ln_q.weight", "multi_modal_projector.linear_2.weight")
    del state[next(name for name in own if name in state)]
    write_one(folder, state)


def change_a_shape(folder: Path) -> None:
    state = read_all(folder)
    name = "multi_modal_projector.linear_2.weight"
    state[name] = state[name][:, :-1].contiguous()
    write_one(folder, state)


def lose_the_processor(folder: Path) -> None:
    (folder / "processor_config.json").unlink()


def lose_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def forget_the_image_token(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (folder / name).read_text()
        for token in ("<image>", "<|image_pad|>"):
            text = text.replace(token, "<other>")
        (folder / name).write_text(text)


def swap_the_clip_folder(folder: Path) -> None:
    weights = folder / "clip" / "open_clip_model.safetensors"
    state = load_file(weights)
    for name, axis in (
        ("visual.proj", 0),
        ("visual.ln_post.weight", 0),
        ("visual.ln_post.bias", 0),
    ):
        state[name] = state[name].narrow(axis, 0, 24).contiguous()
    save_file(state, weights)


def spoil(folder: Path, name: str, value: float) -> None:
    """One number of a weight is none."""
    state = read_all(folder)
    full = next(full for full in state if full.endswith(name))
    state[full].view(-1)[-1] = value
    write_one(folder, state)


def spoil_the_head(folder: Path) -> None:
    spoil(folder, "lm_head.weight", math.nan)


def spoil_the_embedding_of_a_rare_word(folder: Path) -> None:
    spoil(folder, "embed_tokens.weight", math.inf)


def spoil_the_projector(folder: Path) -> None:
    spoil(folder, "multi_modal_projector.linear_2.bias", -math.inf)


def spoil_the_text_side(folder: Path) -> None:
    weights = folder / "clip" / "open_clip_model.safetensors"
    state = load_file(weights)
    table = state["token_embedding.weight"]
    table[len(table) // 2] = math.nan  # of a word that no check reads
    save_file(state, weights)


IN_ANY_FAMILY = [
    (lose_a_shard, r"lacks the weights file model-00003"),
    (cut_a_shard, r"model-00002.* cut off"),
    (lose_a_parameter, r"lacks 1 of .*(image_newline|ln_q|linear_2).*noise"),
    (forget_the_image_token, "image token"),
    (leave_no_room_for_a_picture, "no room for a picture"),
    (spoil_the_embedding_of_a_rare_word, r"NaN or infinity, in .*embed_tokens"),
]
IN_LLAVA = [
    (lose_the_weights, r"lacks the weights file model\.safetensors"),
    (pickle_the_weights, r"\.bin files.* Save them as safetensors"),
    (empty_a_shard, r"model-00002.* cut off"),
    (break_the_index, "damaged model.safetensors.index"),
    (nest_the_index, "damaged model.safetensors.index"),
    (nest_the_config, r"no readable config\.json"),
    (write_the_config_of_llava_itself, r"LLaVA's own code\. Choose .* llava-hf/"),
    (name_a_layer_that_is_not_there, r"vision layers \[99\], but its tower has"),
    (cut_the_template, "chat template is damaged"),
    (change_a_shape, "weights are missing, damaged or do not fit"),
    (lose_the_processor, "processor"),
    (lose_the_tokenizer, "tokenizer"),
    (swap_the_clip_folder, "another vision tower"),
    (spoil_the_head, r"NaN or infinity, in lm_head\.weight"),
    (spoil_the_projector, r"NaN or infinity, in .*linear_2\.bias"),
    (spoil_the_text_side, "NaN or infinity"),
]
CASES = [
    pytest.param(folder, *case, id=f"{folder}-{case[0].__name__}")
    for folder, cases in (
        ("tiny_folder", IN_ANY_FAMILY + IN_LLAVA),
        ("tiny_next_folder", IN_ANY_FAMILY),
        ("tiny_qwen_folder", IN_ANY_FAMILY),
    )
    for case in cases
]


@pytest.mark.parametrize(("whole", "damage", "sentence"), CASES)
def test_damage_stops_the_start(
    whole: str,
    damage: Callable[[Path], None],
    sentence: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "secret-place" / "broken"
    shutil.copytree(request.getfixturevalue(whole), folder)
    damage(folder)
    refused(folder, sentence)
