"""The converted vision tower computes what open_clip's computes."""

from __future__ import annotations

from typing import Any

import open_clip
import pytest
import torch

from spare_demo.models.loading.convert import clip_vision_from_open_clip

TEXT = {"context_length": 8, "vocab_size": 40, "width": 16, "heads": 2, "layers": 1}


def clip(quick_gelu: bool = True, **vision: Any) -> open_clip.CLIP:
    sizes = {"image_size": 42, "patch_size": 14, "width": 48, "layers": 3, "head_width": 16}
    torch.manual_seed(0)
    model = open_clip.CLIP(12, {**sizes, **vision}, TEXT, quick_gelu=quick_gelu).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize(
    ("quick_gelu", "vision", "activation"),
    [(True, {}, "quick_gelu"), (False, {"mlp_ratio": 3.0}, "gelu")],
)
def test_every_layer_agrees(quick_gelu: bool, vision: dict[str, Any], activation: str) -> None:
    model = clip(quick_gelu, **vision)
    config, tower = clip_vision_from_open_clip(model)
    assert config.hidden_act == activation
    assert (config.num_attention_heads, config.layer_norm_eps) == (3, 1e-5)
    assert config.intermediate_size == int(48 * vision.get("mlp_ratio", 4.0))
    assert config.projection_dim == 12

    pixels = torch.randn(2, 3, 42, 42)
    with torch.inference_mode():
        ours = tower(pixels, output_hidden_states=[-2, -1])
        theirs = model.visual.forward_intermediates(pixels, output_fmt="NLC")
        for layer in (-2, -1):
            expected = theirs["image_intermediates"][layer]
            torch.testing.assert_close(
                ours.hidden_states[layer][:, 1:], expected, atol=1e-5, rtol=0
            )
        pooled = ours.pooler_output @ model.visual.proj
        torch.testing.assert_close(pooled, model.encode_image(pixels), atol=1e-5, rtol=0)


def test_the_wrong_activation_would_be_seen() -> None:
    """The test above can tell quick_gelu from gelu: the two differ by more than its tolerance."""
    model = clip(quick_gelu=True)
    _, tower = clip_vision_from_open_clip(model)
    _, plain = clip_vision_from_open_clip(clip(quick_gelu=False))
    pixels = torch.randn(1, 3, 42, 42)
    with torch.inference_mode():
        assert (tower(pixels).pooler_output - plain(pixels).pooler_output).abs().max() > 1e-3


def test_shares_no_weights() -> None:
    model = clip()
    _, tower = clip_vision_from_open_clip(model)
    before = model.visual.ln_post.weight.clone()
    tower.post_layernorm.weight.data.zero_()
    tower.encoder.layers[0].self_attn.q_proj.weight.data.zero_()
    assert torch.equal(model.visual.ln_post.weight, before)
    assert model.visual.transformer.resblocks[0].attn.in_proj_weight.abs().min() > 0


@pytest.mark.parametrize(
    "vision",
    [
        {"ls_init_value": 0.1},
        {"no_ln_pre": True},
        {"qk_norm": True},
        {"attentional_pool": True, "attn_pooler_heads": 2},
        {"image_size": (42, 28)},
    ],
    ids=lambda vision: next(iter(vision)),
)
def test_refuses_what_the_other_class_cannot_compute(vision: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading"):
        clip_vision_from_open_clip(clip(**vision))
