"""An open_clip vision transformer as Hugging Face's ``CLIPVisionModel``, weight for weight.

LLaVA needs the Hugging Face class, open_clip trains and ships its own. Both compute the same
function, so after the conversion one vision pass of LLaVA serves the language model *and* CLIP
relevance: ``ln_post(last_hidden_state) @ proj`` is then CLIP's own patch embedding.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import CLIPVisionConfig, CLIPVisionModel

_NAMES = {  # parts of open_clip's names, and what Hugging Face calls them
    "class_embedding": "embeddings.class_embedding",
    "conv1": "embeddings.patch_embedding",
    "positional_embedding": "embeddings.position_embedding.weight",
    "ln_pre": "pre_layrnorm",  # its own spelling
    "ln_post": "post_layernorm",
    "transformer.resblocks": "encoder.layers",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn": "self_attn",
    "c_fc": "fc1",
    "c_proj": "fc2",
}


def clip_vision_from_open_clip(clip: Any) -> tuple[CLIPVisionConfig, CLIPVisionModel]:
    """Convert the vision side of an ``open_clip.CLIP`` whose tower is the plain transformer.

    It is left unchanged, and no weights are shared.

    Returns:
        The configuration and the model, float32, on the CPU, in ``eval`` mode. ``visual.proj`` has
        no place in a ``CLIPVisionModel`` and stays with the caller.

    Raises:
        RuntimeError: the tower has parts that the other class has not, or lacks some.
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
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        if "in_proj_" in name:
            for letter, part in zip("qkv", value.chunk(3), strict=True):
                renamed[name.replace("in_proj_", f"{letter}_proj.")] = part
        else:
            renamed[name] = value
    model = CLIPVisionModel(config)
    model.load_state_dict(renamed)  # copies; strict: a name or shape that does not fit raises
    return config, model.eval()
