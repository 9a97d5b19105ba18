"""A caller's own model and what its processor made of pictures and prompts, checked and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from spare_demo.models.base import PictureInputs
from spare_demo.models.families import FAMILIES, supported_classes
from spare_demo.models.generate.prompt import knows_image_token
from spare_demo.models.model import Model
from spare_demo.table import listed

_OTHER_PROCESSOR = (
    "The processor, or what it made of the picture, belongs to another model. Pass "
    "AutoProcessor.from_pretrained(…) of this model's own checkpoint, and the inputs it makes."
)


def family_of_model(model: Any) -> type[Model]:
    """The family that reads a stock model.

    Raises ValueError, with a sentence to show, for one of another class, partly in training
    mode or without vision tower and projector in memory.
    """
    family = FAMILIES.get(getattr(getattr(model, "config", None), "model_type", ""))
    if family is None or family.hf_class not in {base.__name__ for base in type(model).__mro__}:
        raise ValueError(
            f"A model of the class {type(model).__name__} cannot be pruned. Pass one of these "
            f"classes of transformers: {supported_classes()}. If torch.compile or PEFT wrapped it, "
            "pass the model inside; of a model of load_model that is model.hf."
        )
    weights = model.model.named_parameters()
    if any(weight.is_meta for name, weight in weights if name.startswith(family.vision_modules)):
        raise ValueError(
            "Weights of the vision tower or the projector are on no device: a device map has "
            "offloaded them. Load the model with a device map that keeps both on a device."
        )
    if any(part.training for part in model.modules()):  # it would draw at random
        raise ValueError("The model or a part of it is in training mode. Call model.eval() first.")
    return family


def read_inputs(
    family: type[Model], model: Any, processor: Any, inputs: Mapping[str, Any]
) -> tuple[list[Tensor], list[PictureInputs]]:
    """Of each prompt its (1, T) ids, CPU, without padding; and of each its picture.

    family: of the model. The other arguments as of `spare_demo.prune`.

    Raises ValueError, with a sentence to show: no picture or prompt, a video, no tensors or of
    shapes that do not go together, not one picture for each prompt, a token that the model does
    not embed, or a processor of another model.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"The inputs must be what the processor made of pictures and prompts, not "
            f'{type(inputs).__name__}. Pass processor(images=…, text=…, return_tensors="pt").'
        )
    if not knows_image_token(processor, model.config):
        raise ValueError(_OTHER_PROCESSOR)
    missing = family.picture_inputs - {key for key, value in inputs.items() if value is not None}
    if "pixel_values" in missing:
        raise ValueError(
            "These inputs hold no picture. Pass images=… to the processor; a prompt without a "
            "picture goes to generate as it is."
        )
    if missing:
        raise ValueError(_OTHER_PROCESSOR)
    if inputs.get("pixel_values_videos") is not None:
        raise ValueError("These inputs hold a video, which cannot be pruned. Pass pictures alone.")
    if inputs.get("input_ids") is None:
        raise ValueError("These inputs hold no prompt. Pass text=… to the processor.")
    for name in ("input_ids", "attention_mask", *sorted(family.picture_inputs)):
        if not isinstance(inputs.get(name), Tensor | None):
            raise ValueError(
                f'{name} of these inputs is not a tensor. Pass return_tensors="pt" to the '
                "processor."
            )
    ids, mask = inputs["input_ids"].cpu(), inputs.get("attention_mask")
    real = torch.ones_like(ids) if mask is None else mask.cpu()
    if ids.ndim != 2 or not len(ids) or real.shape != ids.shape:
        raise ValueError(
            f"input_ids has shape {tuple(ids.shape)} and attention_mask {tuple(real.shape)}. Both "
            "must be (prompts, tokens), as the processor makes them."
        )
    prompts = [row[there.bool()][None] for row, there in zip(ids, real, strict=True)]
    # Without a text side, which need not be read for inputs that are refused.
    encoder = family(model, processor, None, name=type(model).__name__)
    try:
        pictures = encoder.split(inputs)
    except Exception as error:  # of other shapes than the processor's
        names = sorted(family.picture_inputs)
        shapes = listed([f"{name} of shape {tuple(inputs[name].shape)}" for name in names])
        raise ValueError(
            f"No pictures can be made of {shapes}. Pass these as the processor makes them of all "
            "pictures together."
        ) from error
    _check_pictures(prompts, pictures, model.config.image_token_id)
    largest, table = max(int(ids.max()) for ids in prompts), model.get_input_embeddings()
    if largest >= getattr(table, "num_embeddings", largest + 1):  # PEFT's wrappers may not say it
        raise ValueError(
            f"A prompt has the token {largest}, and this model only those below "
            f"{table.num_embeddings}. Pass its own processor, load it with its language model or, "
            "if you added tokens, call model.resize_token_embeddings(len(processor.tokenizer))."
        )
    return prompts, pictures


def _check_pictures(
    prompts: Sequence[Tensor], pictures: Sequence[PictureInputs], image_token: int
) -> None:
    """Raise ValueError unless each prompt has one unbroken run of its picture's placeholders."""
    if len(pictures) != len(prompts):
        raise ValueError(
            f"The number of pictures, {len(pictures)}, is not that of the prompts, {len(prompts)}. "
            "Pass one picture for each prompt."
        )
    for number, (ids, picture) in enumerate(zip(prompts, pictures, strict=True), 1):
        places = (ids[0] == image_token).nonzero().flatten()
        if not len(places):
            raise ValueError(
                f"Prompt {number} has no picture in it. Put one image token into each prompt; a "
                "prompt without a picture goes to generate as it is."
            )
        count, whole = len(places), int(places[-1] - places[0]) < len(places)
        if whole and count == picture.slots:
            continue
        # Pictures side by side are one run: of LLaVA's several equal ones, else of the next ones.
        several = accumulate(each.slots for each in pictures[number - 1 :])
        if not whole or count % picture.slots == 0 or count in several:
            raise ValueError(
                f"Prompt {number} has several pictures in it. Put one image token into each prompt."
            )
        raise ValueError(_OTHER_PROCESSOR)
