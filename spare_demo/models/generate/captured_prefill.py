"""A prefill that is captured once per length and then replayed, with caches of fixed size.

Run as usual, a pass over a short prompt takes as long as the host needs to launch its kernels,
however few tokens are left: pruning then saves little. Here a prompt is padded on the right to the
next multiple of `BUCKET`, the pass over that length is captured once as a CUDA graph, and every
prompt of the bucket is one replay. The mask is causal, so what stands after the last token changes
nothing before it; its keys and values are cut off before decoding starts.

The padded pass is the same without a GPU, only not captured, which is how it is tested.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from spare_demo.cuda_graphs import capture_graph, is_out_of_memory
from spare_demo.models.generate.cache import CACHE

BUCKET = 64
"""Prompt lengths are rounded up to a multiple of this."""

_KEPT_BYTES = 2 * 1024**3
"""What the keys and values of captured lengths may take together; the latest used stay."""

_FREE_SHARE = 4
"""And no more than this part of the memory that is free when the model is there."""

_log = logging.getLogger(__name__)


def reason_against(hf: Any) -> str | None:
    """Why a model's prefill cannot be captured, as a sentence; None if it can."""
    if len(set(getattr(hf, "hf_device_map", {}).values())) > 1:
        return "A prefill is captured on one GPU only, and this model is spread over several."
    # Their layers wait for the CPU, and a capture that fails leaves torch's allocator harmed.
    if getattr(hf, "is_loaded_in_8bit", False):
        return "A prefill with 8-bit weights cannot be captured."
    if hf.device.type != "cuda":
        return f"A prefill is captured on a CUDA device only, and this model is on {hf.device}."
    return None


def difference(captured: Tensor, eager: Tensor, dtype: torch.dtype) -> str | None:
    """How the first scores after a captured prefill contradict those after the eager one, as a
    sentence; None where both choose the same token and differ by no more than rounding.

    Other kernels run over a padded prompt, and each layer rounds to `dtype`: together some units
    of its last place, as a share of the scores' norm, and 16 are allowed (12 % in bfloat16, 1.6 %
    in float16). A wrong mask or a stale buffer changes them by as much as their whole size.

    Args:
        captured, eager: (vocab,) logits.
        dtype: of the weights.
    """
    allowed = max(16 * torch.finfo(dtype).eps, 1e-4)
    captured, eager = captured.double(), eager.double()
    share = float((captured - eager).norm() / eager.norm())
    if captured.argmax() != eager.argmax():
        return "On a test prompt it chose another first token than the usual prefill."
    if not share <= allowed:  # also where it is not a number
        return (
            f"On a test prompt its scores differed from the usual prefill's by {share:.2g} of "
            f"their size, and {allowed:.2g} is allowed."
        )
    return None


class CapturedPrefill:
    """The prefill of one language model with compact positions.

    Run it in inference mode, one call at a time, as in a pass of `Passes`: its buffers are shared.

    Attributes:
        captures: whether a capture may still be tried; no longer so once one failed.
    """

    def __init__(self, hf: Any) -> None:
        """hf: a LLaVA or a plain causal language model of transformers."""
        self._hf = hf
        self._kept_bytes = _KEPT_BYTES
        if hf.device.type == "cuda":
            self._kept_bytes = min(
                _KEPT_BYTES, torch.cuda.mem_get_info(hf.device)[0] // _FREE_SHARE
            )
        self._passes: OrderedDict[int, _Pass] = OrderedDict()
        self._pool: Any = None
        self._stream: Any = None
        self.captures = True

    def prepare(self, length: int, like: Tensor) -> None:
        """Capture what a prompt of this length needs, so that its own pass takes no time for it.

        like: (…, d), of the dtype of the embeddings to come and on their device.
        """
        self._pass_for(length, like)

    def __call__(self, embeds: Tensor) -> tuple[Tensor, DynamicCache, int]:
        """embeds: (1, L, d), L at least 1, on the model's device and in its dtype.

        Returns:
            (vocab,) logits of the token after the last; the keys and values of the prompt, without
            padding, ready to decode on; and the bytes that the padded ones take on the device,
            where they stay for the next prompt of this length.
        """
        length = embeds.shape[1]
        step = self._pass_for(length, embeds)
        logits, layers = step(embeds)
        cache: Any = DynamicCache(config=self._hf.config)
        for layer, states in zip(cache.layers, layers, strict=True):
            layer.update(*(part[:, :, :length] for part in states))  # which copies them
        return logits.clone(), cache, step.bytes

    def _pass_for(self, length: int, like: Tensor) -> _Pass:
        padded = -(-length // BUCKET) * BUCKET
        step = self._passes.pop(padded, None) or self._new(padded, like)
        self._passes[padded] = step
        while len(self._passes) > 1 and self._bytes > self._kept_bytes:
            self._passes.popitem(last=False)
        return step

    @property
    def _bytes(self) -> int:
        return sum(each.bytes for each in self._passes.values())

    def _new(self, padded: int, like: Tensor) -> _Pass:
        new_pass = _Pass(self._hf, padded, like)
        if not (like.is_cuda and self.captures):
            return new_pass
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._stream = self._stream or torch.cuda.Stream(like.device)
        try:
            new_pass.capture(self._pool, self._stream)
        except Exception as error:
            if is_out_of_memory(error):  # the next prompt finds what these held
                self._passes.clear()
                raise
            # Some layer of another model waits for the CPU.
            _log.warning(
                "This model's prefill cannot be captured; it runs as usual.", exc_info=True
            )
            self.captures = False
            return _Pass(self._hf, padded, like)
        return new_pass


class _PromptLayer(DynamicLayer):
    """A layer of a cache that keeps a whole prompt as it is; transformers' own copies it."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        self.lazy_initialization(key_states, value_states)
        self.keys, self.values = key_states, value_states
        return key_states, value_states


class _Pass:
    """The pass over one padded length, with the buffers it reads and the ones it leaves."""

    def __init__(self, hf: Any, padded: int, like: Tensor) -> None:
        self._hf = hf
        self._graph: torch.cuda.CUDAGraph | None = None
        self._embeds = like.new_zeros(1, padded, like.shape[-1])
        self._last = torch.zeros(1, dtype=torch.long, device=like.device)
        self._layers: list[tuple[Tensor, Tensor]] = []

    @property
    def bytes(self) -> int:
        """What the keys and values that it leaves take, padding included."""
        return sum(t.nbytes for layer in self._layers for t in layer)

    def __call__(self, embeds: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """-> logits (vocab,), and keys and values of each layer, padding included."""
        length = embeds.shape[1]
        self._embeds[:, :length] = embeds
        self._embeds[:, length:] = 0
        self._last.fill_(length - 1)
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()
        return self._logits, self._layers

    def capture(self, pool: Any, stream: Any) -> None:
        device = self._embeds.device
        torch.cuda.empty_cache()  # what eager passes left would lie beside this one's own
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):  # what libraries set up at first use must not be captured
            for _ in range(2):
                self._layers = []  # one run's at a time
                self._run()
        torch.cuda.current_stream(device).wait_stream(stream)
        self._layers = []  # of the warm-up, not to be kept beside the graph's
        self._graph = capture_graph(self._run, device, stream, pool)

    def _run(self) -> None:
        cache: Any = DynamicCache(config=self._hf.config)
        cache.layers = [_PromptLayer() for _ in cache.layers]
        out = self._hf(
            inputs_embeds=self._embeds,
            use_cache=True,
            logits_to_keep=self._last,
            **{CACHE: cache},
        )
        self._logits = out.logits[0, 0].float()
        self._layers = [(layer.keys, layer.values) for layer in cache.layers]
