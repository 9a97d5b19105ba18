"""What pruning saves in the prefill: from kept embeddings to the logits of the first new token.

    python benchmarks/prefill.py [--device auto] [--shapes 7b 13b] [--layers N] [--dtype NAME]
                                 [--runs 50] [--model NAME] [--json FILE]

The language models of LLaVA-1.5 at their true widths with random weights, which are as fast as
trained ones; `--model` measures one that is there instead. 120 tokens of text stand beside the
visual ones, inferred from the caches of SPARE's Table 7, which gives no prompt: 696 positions
unpruned and 184 with 64 kept.
The floor is the larger of weights read once over the measured copy bandwidth, and floating point
operations over the measured rate of a square matrix product.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from measuring import Figure, finish, in_turns, read_arguments, where
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from spare_demo.analysis.cost import bytes_text
from spare_demo.models.generate.cache import CACHE, cache_bytes
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.prefill_floor import measure_rates, prefill_bytes, prefill_floor
from spare_demo.models.loading.memory import free_bytes

TEXT = 120
VISUAL = (576, 192, 128, 64)
SHAPES = {
    "7b": {"hidden_size": 4096, "intermediate_size": 11008, "layers": 32, "heads": 32},
    "13b": {"hidden_size": 5120, "intermediate_size": 13824, "layers": 40, "heads": 40},
}


def random_model(shape: str, layers: int | None, device: torch.device, dtype: torch.dtype) -> Any:
    """The language model of LLaVA-1.5 of that size, or ValueError where it does not fit."""
    told = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=32064,
        hidden_size=told["hidden_size"],
        intermediate_size=told["intermediate_size"],
        num_hidden_layers=layers or told["layers"],
        num_attention_heads=told["heads"],
        num_key_value_heads=told["heads"],
        max_position_embeddings=4096,
    )
    with torch.device("meta"):
        count = sum(p.numel() for p in LlamaForCausalLM(config).parameters())
    needed, there = count * dtype.itemsize, free_bytes(device)
    if needed > 0.6 * there:
        raise ValueError(
            f"not measured: its weights take {bytes_text(needed)}, of {bytes_text(there)} free here"
        )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def measure(
    name: str, hf: Any, device: torch.device, runs: int, about: dict[str, Any]
) -> list[Figure]:
    """Eager, and on CUDA captured too, at every number of visual tokens."""
    dtype = hf.dtype
    rates = measure_rates(device, dtype)
    about[f"{name}: copy"] = f"{rates.bandwidth / 1e9:.1f} GB/s"
    about[f"{name}: product"] = f"{rates.product / 1e12:.3f} Tflop/s in {dtype}"
    width = hf.config.get_text_config().hidden_size
    captured = CapturedPrefill(hf)
    steps: dict[str, Callable[[], Any]] = {}
    caches: dict[int, int] = {}

    def eager(embeds: torch.Tensor) -> DynamicCache:
        cache = DynamicCache(config=hf.config)
        hf(inputs_embeds=embeds, use_cache=True, logits_to_keep=1, **{CACHE: cache})
        return cache

    with torch.inference_mode():
        for visual in VISUAL:
            embeds = 0.02 * torch.randn(1, visual + TEXT, width, device=device, dtype=dtype)
            caches[visual] = cache_bytes(eager(embeds))
            steps[f"eager {visual}"] = lambda e=embeds: eager(e)
            if device.type == "cuda":
                steps[f"captured {visual}"] = lambda e=embeds: captured(e)
        seconds = in_turns(runs, device, **steps)
    figures = []
    for step, times in seconds.items():
        kind, visual = step.split()
        lengths = [int(visual) + TEXT] * hf.config.get_text_config().num_hidden_layers
        floor = prefill_floor(hf, rates, lengths)
        reading = floor == prefill_bytes(hf) / rates.bandwidth
        figures.append(
            Figure(
                f"{name}, {kind}",
                *where(device, dtype),
                f"{visual} visual + {TEXT} text",
                times,
                "weights read" if reading else "operations",
                [floor],
                f"KV cache {caches[int(visual)]} bytes",
            )
        )
    whole, few = caches[VISUAL[0]], caches[VISUAL[-1]]
    if whole * (VISUAL[-1] + TEXT) != few * (VISUAL[0] + TEXT):
        raise AssertionError("The caches are not as large as their tokens.")
    about[f"{name}: KV cache"] = f"{whole} to {few} bytes, {whole / few:.2f} × smaller"
    for kind in dict.fromkeys(step.split()[0] for step in seconds):
        pairs = zip(seconds[f"{kind} {VISUAL[0]}"], seconds[f"{kind} {VISUAL[-1]}"], strict=True)
        gain = statistics.median(a / b for a, b in pairs)
        about[f"{name}: prefill, {kind}"] = f"{gain:.2f} × faster with 64 kept"
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", nargs="*", default=["7b", "13b"], choices=sorted(SHAPES))
    parser.add_argument("--layers", type=int, help="so many layers only; the row says so")
    names = ("float32", "bfloat16", "float16")
    parser.add_argument("--dtype", choices=names, help="of random weights; bfloat16 on a GPU")
    parser.add_argument("--model", help="a model that is there, instead of random weights")
    args, device = read_arguments(parser, runs=50)
    torch.backends.cuda.enable_cudnn_sdp(False)  # as in the program's own passes
    dtype = getattr(torch, args.dtype or ("bfloat16" if device.type == "cuda" else "float32"))
    figures: list[Figure] = []
    about: dict[str, Any] = {}
    if args.model:
        from spare_demo.models import load_model

        model = load_model(args.model, str(device))
        figures += measure(model.name, model.hf, device, args.runs, about)
    else:
        for shape in args.shapes:
            whole = SHAPES[shape]["layers"]
            name = f"{shape} shape" + (f", {args.layers} of {whole} layers" if args.layers else "")
            try:
                hf = random_model(shape, args.layers, device, dtype)
            except ValueError as refused:
                figures.append(Figure(name, *where(device, dtype), "", (), note=str(refused)))
                continue
            figures += measure(name, hf, device, args.runs, about)
            del hf
    finish("Prefill", figures, args.json, **about)


if __name__ == "__main__":
    main()
