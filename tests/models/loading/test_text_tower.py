"""CLIP's text side against open_clip itself, in both ways of reading a question."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from safetensors.torch import load_file, save_file

from spare_demo.models import ModelError, TextTower
from spare_demo.models.loading import hub
from spare_demo.models.loading.catalogue import OPENAI_CLIP

QUESTION = "What colour is the circle to the left of the red square?"
LONG = " ".join(["How many small green triangles stand above the yellow star?"] * 12)
OTHER_LONG = " ".join(["Is the hello word left of every other number written there?"] * 12)


@pytest.fixture(scope="module")
def folder(tiny_folder: Path) -> Path:
    return tiny_folder / "clip"


@pytest.fixture(scope="module")
def tower(folder: Path) -> TextTower:
    return TextTower.from_folder(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    return open_clip.create_model(f"local-dir:{folder}").eval()


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return open_clip.get_tokenizer(f"local-dir:{folder}")


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_a_short_text_is_open_clips_own_vector(
    tower: TextTower, reference: Any, tokenizer: Any
) -> None:
    close(tower.encode_stretches(QUESTION), reference.encode_text(tokenizer(QUESTION)))


@torch.inference_mode()
def test_tokens_are_the_projected_final_states(
    tower: TextTower, reference: Any, tokenizer: Any
) -> None:
    vectors, words = tower.encode_tokens(QUESTION)
    ids = tokenizer(QUESTION)
    out = reference.forward_intermediates(
        text=ids, text_indices=1, normalize_intermediates=True, normalize=False
    )
    states = out["text_intermediates"][-1] @ reference.text_projection
    end = int((ids[0] == reference.text_eos_id).nonzero()[0])
    close(vectors, states[0, 1:end])
    close(states[0, end], out["text_features"][0])  # the layer read is the one open_clip pools
    assert len(words) == len(vectors) == end - 1
    assert "".join(words) == QUESTION.lower().replace(" ", "")


@torch.inference_mode()
def test_a_long_text_is_cut_not_truncated(tower: TextTower, reference: Any) -> None:
    ids = tower._ids(LONG)
    start, end = ids[0], ids[-1]
    assert end == reference.text_eos_id and ids.count(start) == ids.count(end) == 1
    count = -(-len(ids) // 77)
    assert count >= 3

    rows = torch.zeros(count * 77, dtype=torch.long)
    rows[: len(ids)] = torch.tensor(ids)
    rows = rows.view(count, 77)
    pooled = tower.encode_stretches(LONG)
    close(pooled, reference.encode_text(rows))

    vectors, words = tower.encode_tokens(LONG)
    assert len(vectors) == len(words) == len(ids) - 2
    assert "".join(words) == LONG.lower().replace(" ", "")


@torch.inference_mode()
def test_only_the_last_stretch_knows_the_whole_question(tower: TextTower) -> None:
    """The trap of CDPruner's stretches: the first is pooled at BOS, whatever the text says."""
    one, other = tower.encode_stretches(LONG), tower.encode_stretches(OTHER_LONG)
    close(one[0], other[0])
    assert (one[-1] - other[-1]).abs().max() > 1e-2


@torch.inference_mode()
def test_exactly_77_tokens_are_one_stretch(tower: TextTower) -> None:
    text = "a"
    while len(tower._ids(text)) < 77:
        text += " a"
    assert len(tower._ids(text)) == 77
    assert len(tower.encode_stretches(text)) == 1
    assert len(tower.encode_stretches(text + " a")) == 2


@torch.inference_mode()
def test_no_words(tower: TextTower) -> None:
    vectors, words = tower.encode_tokens("  ")
    assert vectors.shape == (0, 16) and words == []


def test_holds_no_image_transformer(tower: TextTower, reference: Any) -> None:
    kept = sum(p.numel() for p in tower.parameters()) + tower.proj.numel()
    visual = sum(p.numel() for p in reference.visual.parameters())
    rest = sum(p.numel() for p in reference.parameters()) - visual - 1  # 1: logit_scale
    final = reference.visual.ln_post
    assert kept == rest + final.weight.numel() + final.bias.numel() + reference.visual.proj.numel()
    assert all(p.dtype == torch.float32 for p in tower.parameters())


# A published open_clip model: its config by name, OpenAI's own tokenizer, a downloaded file.

TINY_OPENAI: dict[str, Any] = {
    "embed_dim": 12,
    "quick_gelu": True,
    "vision_cfg": {"image_size": 28, "patch_size": 14, "width": 16, "layers": 1, "head_width": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


@torch.inference_mode()
def test_openais_tokenizer_and_pooling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = open_clip.CLIP(**TINY_OPENAI).eval()
    save_file({k: v.half() for k, v in model.state_dict().items()}, tmp_path / "w.safetensors")
    model.half().float()
    monkeypatch.setattr(open_clip, "get_model_config", lambda name: TINY_OPENAI)
    monkeypatch.setattr(hub, "cached", lambda repository, file: tmp_path / "w.safetensors")
    tower = TextTower.from_open_clip(*OPENAI_CLIP)

    close(tower.encode_stretches(QUESTION), model.encode_text(open_clip.tokenize(QUESTION)))
    vectors, words = tower.encode_tokens("What colour?")
    assert words == ["what", "colour", "?"] and vectors.shape == (3, 12)
    _, words = tower.encode_tokens("这 🟢 naïve?")
    assert not any("\ufffd" in word for word in words)
    assert "这 1/3" in words or "这" in words
    ids = tower._ids(LONG)
    rows = torch.nn.functional.pad(torch.tensor(ids), (0, -len(ids) % 77)).view(-1, 77)
    assert len(rows) > 1 and ids.count(49406) == ids.count(49407) == 1
    close(tower.encode_stretches(LONG), model.encode_text(rows))


def test_openais_weights_get_openais_activation() -> None:
    with pytest.raises(ModelError, match="activation"):
        TextTower.from_open_clip("ViT-L-14-336", "openai")
    with pytest.raises(ModelError, match="no model"):
        TextTower.from_open_clip("ViT-L-14-336-quickgelu", "nobody")


def test_weights_that_are_not_here_say_what_to_do() -> None:
    """Tests run offline."""
    with pytest.raises(ModelError, match=r"timm/vit_large_patch14_clip_336\.openai is not on this"):
        TextTower.from_open_clip(*OPENAI_CLIP)


def damaged(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    copy = tmp_path / "clip"
    shutil.copytree(folder, copy)
    return copy, copy / "open_clip_model.safetensors"


def test_missing_and_truncated_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    copy, weights = damaged(folder, tmp_path)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cut off"):
        TextTower.from_folder(copy)
    weights.unlink()
    with pytest.raises(ModelError, match="missing"):
        TextTower.from_folder(copy)


@pytest.mark.parametrize(
    "lost", ["visual.proj", "visual.ln_post.bias", "ln_final.weight", "text_projection"]
)
def test_a_lost_part_is_refused(folder: Path, tmp_path: Path, lost: str) -> None:
    copy, weights = damaged(folder, tmp_path)
    state = load_file(weights)
    del state[lost]
    save_file(state, weights)
    with pytest.raises(ModelError, match="parts are missing"):
        TextTower.from_folder(copy)


def test_a_tokenizer_without_an_end_mark_is_refused(folder: Path, tmp_path: Path) -> None:
    copy, _ = damaged(folder, tmp_path)
    state = json.loads((copy / "tokenizer.json").read_text())
    state["post_processor"] = None
    (copy / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(ModelError, match="not pooled"):
        TextTower.from_folder(copy)


def test_unreadable_settings_are_refused(folder: Path, tmp_path: Path) -> None:
    copy, _ = damaged(folder, tmp_path)
    (copy / "open_clip_config.json").write_text("{")
    with pytest.raises(ModelError, match="settings or the tokenizer") as refusal:
        TextTower.from_folder(copy)
    assert str(tmp_path) not in str(refusal.value)


@pytest.mark.parametrize("typed", ["<end_of_text>", "<START_OF_TEXT>", "&lt;end_of_text&gt;"])
def test_a_typed_control_token_ends_nothing(tiny_model: Any, typed: str) -> None:
    tower = tiny_model.text_tower
    plain, with_token = tower._ids("a red cat"), tower._ids(f"a red {typed} cat")
    for number in (plain[0], plain[-1]):
        assert with_token.count(number) == plain.count(number)
