"""What `prune` takes beside the path of `compare`, up to the embeddings of the pruned prompt.

    python benchmarks/prune.py [--device auto] [--runs 9] [--json FILE]

Vision tower, projector, words and CLIP's text side in LLaVA-1.5-7B's true shape with random
weights, and a language model without layers, since neither path has run it by then. The floor is
`compare`'s path in the same run: the photo fitted and encoded, the question read, the tokens chosen
and put into the prompt. On a CPU the seconds are the processor's own, which other programs on the
machine change less than the wall's. Take one thread (`OMP_NUM_THREADS=1`): waiting ones count.
"""

from __future__ import annotations

import argparse
import time

import open_clip
import torch
from full_size import CLIP, llava_processor
from measuring import ROOT, Figure, finish, in_turns, read_arguments, where
from open_clip.model import _build_text_tower
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration

from spare_demo import Selection, prune
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import explore
from spare_demo.images.load import open_picture
from spare_demo.models import LlavaModel, TextTower
from spare_demo.models.generate.rows import kept_rows, prompt_embeddings
from spare_demo.models.loading.catalogue import published_config

METHODS = ("spare", "divprune")
BUDGET = 64
QUESTION = "What animal is in the picture, and what is it looking at?"
PHOTO = ROOT / "assets" / "examples" / "photo-chelsea.jpg"


def random_model(device: torch.device) -> LlavaModel:
    """LLaVA-1.5-7B up to its language model, float32."""
    config = published_config("llava-1.5-7b")
    config.text_config.num_hidden_layers = 0
    torch.manual_seed(0)
    with device:
        hf = LlavaForConditionalGeneration(config).eval()
    return LlavaModel(hf, llava_processor(), random_text_side(), name="LLaVA-1.5-7B's shape")


def random_text_side() -> TextTower:
    """The text side of LLaVA's tower."""
    config = open_clip.get_model_config(CLIP[0])
    assert config is not None
    text = _build_text_tower(config["embed_dim"], config["text_cfg"], quick_gelu=True)
    width = config["vision_cfg"]["width"]
    proj = torch.randn(width, config["embed_dim"]) / width**0.5
    return TextTower(text, nn.LayerNorm(width), proj, open_clip.get_tokenizer(CLIP[0]))


def measure(model: LlavaModel, device: torch.device, runs: int) -> list[Figure]:
    """Both paths by every method; ValueError where they do not keep the same tokens."""
    photo = open_picture(PHOTO)
    prompt = model.encode(photo, QUESTION, "crop").prompt

    def of_compare(method: str) -> tuple[Selection, Tensor]:
        view = model.encode(photo, QUESTION, "crop")
        kept = explore(view, choose(method), BUDGET).selections(BUDGET)[method]
        rows = kept_rows(view.picture, kept)
        with torch.no_grad():
            return kept, prompt_embeddings(model.hf, view.input_ids, rows.values)

    def of_prune(method: str) -> tuple[Selection, Tensor]:
        inputs = model.processor(images=photo, text=prompt, return_tensors="pt").to(device)
        pruned = prune(
            model.hf,
            model.processor,
            inputs,
            method=method,
            budget=BUDGET,
            question=QUESTION,
            text=model.text_tower,
        )
        return pruned.selections[0], pruned["inputs_embeds"][0]

    figures = []
    for method in METHODS:
        kept, embeddings = of_compare(method)
        same, pruned = of_prune(method)
        common = len({*kept.order.tolist()} & {*same.order.tolist()})
        if embeddings.shape != pruned.shape:
            raise ValueError(f"{method} gives prompts of different lengths.")
        seconds = in_turns(
            runs,
            device,
            time.process_time if device.type == "cpu" else time.perf_counter,
            compare=lambda m=method: of_compare(m),
            prune=lambda m=method: of_prune(m),
        )
        figures.append(
            Figure(
                f"processor and prune, {method}",
                *where(device, model.dtype),
                f"{model.most_tokens} visual tokens, {BUDGET} kept",
                seconds["prune"],
                "compare's path",
                seconds["compare"],
                f"{common} of {BUDGET} kept tokens in common; the processor scales photos by "
                "torchvision, compare by Pillow",
            )
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args, device = read_arguments(parser, runs=9)
    figures = measure(random_model(device), device, args.runs)
    clock = "the processor's own, of all threads" if device.type == "cpu" else "the wall's"
    finish("Pruning a stock model's inputs", figures, args.json, seconds=clock)


if __name__ == "__main__":
    main()
