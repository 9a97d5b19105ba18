"""Where a GPU's time goes in choosing tokens and in the captured prefill, by kind of kernel.

    python benchmarks/gpu_kernels.py [--runs 5] [--json FILE]

The same tasks as in `selection.py` and, at LLaVA-1.5-7B's shape, `prefill.py`. The ratio is a
kind's share of all kernels; what is missing to the task's own time is the host's.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from measuring import Figure, finish, in_turns, read_arguments, where
from prefill import TEXT, random_model
from selection import SHAPES, features, in_words
from torch.profiler import ProfilerActivity, profile

from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.pruners.greedy import greedy

KINDS = {
    "the greedy steps": "^_step$",
    "attention": "sdpa|flash|fmha",
    "matrix products": "gemm|nvjet|cutlass",
    "joining tensors": "CatArray",
    "reductions": "reduce_kernel",
    "element by element": "elementwise_kernel",
    "copies": "Memcpy|Memset",
}
"""Kinds of kernels, and what their names look like; the first that fits."""

IN_WORDS = (
    "a greedy step is bound by waiting, not by work: it finds its pick from all values, then reads "
    "a row of cosines and the earlier rows of the factor, each after the other. Three fifths of "
    "the captured prefill are the model's matrix products; the rest are its norms, rotations and "
    "activations, which transformers computes as many small kernels, each over all of the states"
)


def kind_of(kernel: str) -> str:
    """One of `KINDS`, or "others"."""
    return next((kind for kind, name in KINDS.items() if re.search(name, kernel)), "others")


def profiled(run: Callable[[], Any], runs: int) -> Counter[str]:
    """Seconds of a run that a GPU spends on each kind of kernel."""
    with profile(activities=[ProfilerActivity.CUDA]) as told:
        for _ in range(runs):
            run()
        torch.cuda.synchronize()
    seconds: Counter[str] = Counter()
    for event in told.key_averages():
        if event.self_device_time_total:
            seconds[kind_of(event.key)] += event.self_device_time_total / runs / 1e6
    return seconds


def measure(
    what: str, shape: str, dtype: torch.dtype, run: Callable[[], Any], runs: int
) -> Iterator[Figure]:
    """A task's own time, then that of each kind of kernel, the longest first."""
    device = torch.device("cuda")
    run()  # what comes again is captured
    whole = in_turns(runs, device, whole=run)["whole"]
    kinds = profiled(run, runs)
    yield Figure(what, *where(device, dtype), shape, whole)
    for kind, seconds in kinds.most_common():
        yield Figure(
            f"{what}: {kind}",
            *where(device, dtype),
            shape,
            [seconds],
            "all kernels",
            [kinds.total()],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    args, device = read_arguments(parser, runs=5)
    if device.type != "cuda":
        sys.exit("Kernels are those of a CUDA device, and there is none here.")
    figures: list[Figure] = []
    for b, n, d, k in SHAPES[:3]:
        x = features(b, n, d).to(device, torch.float16)
        merit = torch.rand(b, n, device=device) + 0.1
        choose = lambda x=x, merit=merit, k=k: greedy(x, merit, k)  # noqa: E731
        figures += measure("greedy loop", in_words(b, n, d, k), x.dtype, choose, args.runs)
    torch.backends.cuda.enable_cudnn_sdp(False)  # as in the program's own passes
    hf = random_model("7b", None, device, torch.bfloat16)
    captured = CapturedPrefill(hf)
    with torch.inference_mode():
        for visual in (64, 576):
            size = (1, visual + TEXT, hf.config.hidden_size)
            embeds = 0.02 * torch.randn(size, device=device, dtype=hf.dtype)
            shape = f"{visual} visual + {TEXT} text"
            read = lambda embeds=embeds: captured(embeds)  # noqa: E731
            figures += measure("captured prefill", shape, hf.dtype, read, args.runs)
    finish("Kernels", figures, args.json, **{"in words": IN_WORDS})


if __name__ == "__main__":
    main()
