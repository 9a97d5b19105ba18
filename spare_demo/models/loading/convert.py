"""An open_clip vision transformer as Hugging Face's ``CLIPVisionModel``, weight for weight.

LLaVA needs the Hugging Face class, open_clip trains and ships its own. Both compute the same
function, so after the conversion one vision pass of LLaVA serves the language model *and* CLIP
relevance: ``ln_post(last_hidden_state) @ proj`` is then CLIP's own patch embedding.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import CLIPVisionConfig, CLIPVisionModel

# (Hugging Face name, open_clip name), both with `.weight` and `.bias`, inside one block.
_BLOCK_PARTS = (
    ("layer_norm1", "ln_1"),
    ("self_attn.out_proj", "attn.out_proj"),
    ("layer_norm2", "ln_2"),
    ("mlp.fc1", "mlp.c_fc"),
    ("mlp.fc2", "mlp.c_proj"),
)


def clip_vision_from_open_clip(clip: Any) -> tuple[CLIPVisionConfig, CLIPVisionModel]:
    """Convert the vision side of an ``open_clip.CLIP`` whose tower is the plain transformer.

    It is left unchanged, and no weights are shared.

    Returns:
        The configuration and the model, float32, on the CPU, in ``eval`` mode. ``visual.proj`` has
        no place in a ``CLIPVisionModel`` and stays with the caller.

    Raises:
        ValueError, RuntimeError: the tower has parts that the other class has not, or lacks some.
    """
    visual = clip.visual
    block = visual.transformer.resblocks[0]
    state = {name: value.detach().float().cpu() for name, value in visual.state_dict().items()}
    config = CLIPVisionConfig(
        hidden_size=visual.conv1.out_channels,
        intermediate_size=block.mlp.c_fc.out_features,
        num_hidden_layers=len(visual.transformer.resblocks),
        num_attention_heads=block.attn.num_heads,
        image_size=visual.image_size[0],
        patch_size=visual.patch_size[0],
        hidden_act="quick_gelu" if type(block.mlp.gelu).__name__ == "QuickGELU" else "gelu",
        layer_norm_eps=visual.ln_post.eps,  # 1e-5 in every published CLIP
        projection_dim=state.pop("proj").shape[1],
    )
    state_of_copy = _rename(state, config.num_hidden_layers)
    if state:
        raise ValueError(
            "This vision transformer has parts that Hugging Face's CLIP has not: "
            + ", ".join(sorted(state)[:5])
        )
    model = CLIPVisionModel(config)
    model.load_state_dict(state_of_copy)  # strict: a name or shape that does not fit raises
    return config, model.eval()


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
