"""An open_clip vision transformer as Hugging Face's ``CLIPVisionModel``, weight for weight.

LLaVA needs the Hugging Face class, open_clip trains and ships its own. Both compute the same
function, so after the conversion one vision pass of LLaVA serves the language model *and* CLIP
relevance: ``ln_post(last_hidden_state) @ proj`` is then CLIP's own patch embedding.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import CLIPVisionConfig, CLIPVisionModel

# (Hugging Face name, open_clip name), both with `.weight` and `.bias`, inside one block.
_BLOCK_PARTS = (
    ("layer_norm1", "ln_1"),
    ("self_attn.out_proj", "attn.out_proj"),
    ("layer_norm2", "ln_2"),
    ("mlp.fc1", "mlp.c_fc"),
    ("mlp.fc2", "mlp.c_proj"),
)


def clip_vision_from_open_clip(
    open_clip_model: nn.Module,
) -> tuple[CLIPVisionConfig, CLIPVisionModel]:
    """Convert the vision side of an open_clip model.

    Args:
        open_clip_model: an ``open_clip.CLIP`` (its ``.visual`` is taken) or that
            ``open_clip.transformer.VisionTransformer`` itself. Left unchanged, no weights shared.

    Returns:
        The configuration and the model, float32, on the CPU, in ``eval`` mode. ``visual.proj`` has
        no place in a ``CLIPVisionModel`` and stays with the caller.

    Raises:
        ValueError: the tower is not the plain CLIP vision transformer (LayerScale, average
            pooling, no ``ln_pre``, timm or ResNet towers, an unknown activation, …), so the two
            classes would not compute the same.
    """
    visual: Any = getattr(open_clip_model, "visual", open_clip_model)
    state = {name: value.detach().float().cpu() for name, value in visual.state_dict().items()}
    if "conv1.weight" not in state or "class_embedding" not in state:
        raise ValueError("Only open_clip's plain vision transformer can be converted.")
    if visual.pool_type != "tok" or visual.attn_pool is not None:
        raise ValueError("Only a vision transformer pooled at its class token can be converted.")
    blocks = visual.transformer.resblocks
    if not isinstance(visual.ln_pre, nn.LayerNorm) or any(
        type(block).__name__ != "ResidualAttentionBlock" for block in blocks
    ):
        raise ValueError("Only CLIP's own blocks, with a norm before them, can be converted.")

    config = _config(visual)
    proj = state.pop("proj", None)
    state_of_copy = _rename(state, config.num_hidden_layers)
    if state:
        raise ValueError(
            "This vision transformer has parts that Hugging Face's CLIP has not: "
            + ", ".join(sorted(state)[:5])
        )
    if proj is not None:
        config.projection_dim = proj.shape[1]
    model = CLIPVisionModel(config)
    model.load_state_dict(state_of_copy)  # strict: a name or shape that does not fit raises
    return config, model.eval()


def _config(visual: Any) -> CLIPVisionConfig:
    """Read every size from the modules themselves, so that no open_clip config is needed."""
    block = visual.transformer.resblocks[0]
    image_height, image_width = visual.image_size
    patch_height, patch_width = visual.patch_size
    if image_height != image_width or patch_height != patch_width:
        raise ValueError("Only square pictures with square patches can be converted.")
    return CLIPVisionConfig(
        hidden_size=visual.conv1.out_channels,
        intermediate_size=block.mlp.c_fc.out_features,
        num_hidden_layers=len(visual.transformer.resblocks),
        num_attention_heads=block.attn.num_heads,
        image_size=image_height,
        patch_size=patch_height,
        hidden_act=_activation_name(block.mlp.gelu),
        layer_norm_eps=visual.ln_post.eps,  # 1e-5 in every published CLIP
    )


def _activation_name(activation: nn.Module) -> str:
    """The name transformers knows an open_clip activation by; the wrong one is silently wrong."""
    if type(activation).__name__ == "QuickGELU":
        return "quick_gelu"
    if isinstance(activation, nn.GELU):
        return "gelu_pytorch_tanh" if activation.approximate == "tanh" else "gelu"
    raise ValueError(f"The activation {type(activation).__name__} has no counterpart.")


def _rename(state: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Move every tensor of `state` that has a counterpart; what is left in `state` has none."""
    out = {
        "embeddings.class_embedding": state.pop("class_embedding"),
        "embeddings.patch_embedding.weight": state.pop("conv1.weight"),
        "embeddings.position_embedding.weight": state.pop("positional_embedding"),
    }
    pairs = [("pre_layrnorm", "ln_pre"), ("post_layernorm", "ln_post")]  # HF's own spelling
    for i in range(layers):
        ours, theirs = f"encoder.layers.{i}", f"transformer.resblocks.{i}"
        pairs += [(f"{ours}.{a}", f"{theirs}.{b}") for a, b in _BLOCK_PARTS]
        for kind in ("weight", "bias"):
            packed = state.pop(f"{theirs}.attn.in_proj_{kind}")
            for name, part in zip("qkv", packed.chunk(3), strict=True):
                out[f"{ours}.self_attn.{name}_proj.{kind}"] = part.clone()
    for ours, theirs in pairs:
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" in state:
                out[f"{ours}.{kind}"] = state.pop(f"{theirs}.{kind}")
    return out
