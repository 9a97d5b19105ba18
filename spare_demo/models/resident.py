"""How a loaded model lives on its device: memory, speed, captured prefills, and its end."""

from __future__ import annotations

import contextlib
import itertools
import logging
from abc import abstractmethod
from collections.abc import Iterator

import torch
from PIL import Image
from torch import nn

from spare_demo.models.base import Answer, ModelError, View
from spare_demo.models.generate.answering import Answering
from spare_demo.models.generate.captured_prefill import CapturedPrefill, difference, reason_against
from spare_demo.models.generate.passes import OutOfMemory
from spare_demo.models.generate.prefill_floor import (
    Rates,
    measure_rates,
    prefill_floor,
    tensors_beside_parameters,
    weight_bytes,
)
from spare_demo.models.generate.repetition import unsupported_settings
from spare_demo.models.generate.rows import kept_rows
from spare_demo.models.loading.packed_weights import PackedLinear
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

_log = logging.getLogger(__name__)


def _grey() -> Image.Image:
    return Image.new("RGB", (336, 336), (128, 128, 128))


class Resident(Answering):
    """The weights of a model on their device, from the check after loading to `close`."""

    text_tower: TextTower | None
    notes: tuple[str, ...]
    warm_up_seconds: float = 0.0
    _rates: Rates | None = None

    @abstractmethod
    def encode(self, image: Image.Image, question: str) -> View:
        """A picture and a question, ready to be answered."""

    @property
    def device(self) -> torch.device:
        """Where it runs; of a model spread over several GPUs, the first."""
        return self.hf.device

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights that are not quantised."""
        return self.hf.dtype

    @property
    def closed(self) -> bool:
        """Whether it was unloaded; see `close`."""
        return bool(self._passes.closed)

    @property
    def bytes(self) -> int:
        """Memory that the weights take, the CLIP text side and quantised weights' scales
        included."""
        return self.bytes_on(None)

    def bytes_on(self, device: torch.device | None) -> int:
        """The same on one device; None for all."""
        return weight_bytes(self._parts, device)

    def stop(self, why: str) -> None:
        """Let no pass begin any more, at once: the process is about to end.

        why: the message of every later call, and of the answer being written.
        """
        self._passes.closed = why

    def close(self, why: str) -> None:
        """Give the memory back for good, whoever still holds this model; why: as of `stop`."""
        self._passes.close(why)
        for part in self._parts:
            for tensor in itertools.chain(part.parameters(), part.buffers()):
                tensor.data = tensor.new_empty(0)
        for module in self.hf.modules():
            for holder, name, _ in list(tensors_beside_parameters(module)):
                setattr(holder, name, None)  # not emptied: some tables are shared by all models
            if isinstance(module, PackedLinear):
                module.packed, module.packed_bytes = None, 0
        self._captured = None
        self._passes.release()

    def detach_device(self) -> None:
        """From now on each pass raises DeviceElsewhere: a process forked from this one has it."""
        self._passes.elsewhere = True

    def attach_device(self) -> None:
        """In a process that has the device: passes run here."""
        self._passes.elsewhere = False

    @property
    def _parts(self) -> list[nn.Module]:
        return [self.hf] if self.text_tower is None else [self.hf, self.text_tower]

    def warm_up(self) -> None:
        """One whole round on a grey square, so that later timings are of a warmed model."""
        view = self.encode(_grey(), "What is this?")
        n = view.tokens.n
        if view.tokens.features.is_cuda:  # choosing compiles its kernel for each size of view
            PRUNERS["spare-reconstruction"].select(view.tokens, 1)
        if not self.has_language_model:
            return
        # A CPU gets nothing ready that depends on the length, and may take many seconds for all.
        few = Selection(torch.arange(0, n, 9)) if self.device.type == "cpu" else None
        answer = self.answer(view, few, max_new_tokens=2)
        longer = 1 + (n - answer.visual_tokens) / answer.prompt_tokens
        self.warm_up_seconds = longer * answer.prefill_seconds + answer.decode_seconds
        with contextlib.suppress(OutOfMemory):  # more than a small model's answers may take
            self._rates = self.measure_rates(self.dtype)

    def measure_rates(self, dtype: torch.dtype) -> Rates:
        """How fast its device is in a number format; raises OutOfMemory."""
        return self._passes.run(lambda: measure_rates(self.device, dtype))[0]

    def capture_prefill(self, when: str = "auto") -> None:
        """From now on run prefills as CUDA graphs, one per prompt length (captured_prefill.py).

        They are compared with the usual prefills first, at three lengths.

        Args:
            when: of `settings.CAPTURES`. "auto" captures on one CUDA GPU with weights that are not
                quantised; where it does not on CUDA, one of `notes` says why.

        Raises:
            ModelError: "on", and it cannot be or gives other results.
        """
        if when == "off" or not self.has_language_model:
            return
        if when == "auto" and self.device.type != "cuda":  # where nobody expects it
            return
        reason = reason_against(self.hf)
        if reason is None and when == "auto" and getattr(self.hf, "is_loaded_in_4bit", False):
            reason = "With 4-bit weights it is only where that is asked for (--capture-prefill on)."
        if reason is None:
            reason = self._try_capture()
        if reason is None:
            return
        if when == "on":
            raise ModelError(
                f"{reason} Load the model with capture_prefill (--capture-prefill) off."
            )
        self.notes += (f"The prefill is not captured as a CUDA graph. {reason}",)

    def _try_capture(self) -> str | None:
        """Capture prefills if they give the usual results; else a sentence that says why not."""
        view = self.encode(_grey(), "What is this?")
        n = view.tokens.n
        kept = [None, *(Selection(torch.arange(0, n, step)) for step in (2, 9))]
        if self._positions(view, kept_rows(view.picture, kept[-1]), None) is not None:
            return "This model's visual tokens keep positions of their own."
        eager = [self.answer(view, each, 1).first_logits for each in kept]
        reason = None
        try:
            self._captured = CapturedPrefill(self.hf)
            for each, expected in zip(kept, eager, strict=True):
                logits = self.answer(view, each, 1).first_logits
                reason = reason or difference(logits, expected, self.dtype)
            if not self._captured.captures:
                reason = "Some layer of this model cannot be captured."
        except OutOfMemory:
            reason = "There is not enough memory for it next to the model."
        except Exception as error:
            _log.exception("A captured prefill failed")
            reason = f"Capturing it failed ({type(error).__name__})."
        if reason is not None:
            self._captured = None
        self._passes.release()
        return reason

    def prefill_floor(self, answer: Answer) -> float | None:
        """Seconds: the least this device could have taken for the answer's prefill.

        None before `warm_up`, which measures the device where there is memory for that, and once
        the weights are gone.
        """
        if self._rates is None or self.closed:
            return None
        others = answer.prompt_tokens - answer.visual_tokens
        return prefill_floor(self.hf, self._rates, [others + k for k in answer.kept_per_layer])

    def check_answers(self) -> None:
        """Raise ModelError for weights or generation settings that make answers not the model's.

        A weight that is no number makes noise of what it meets, which nobody could tell.
        """
        if unsupported := unsupported_settings(getattr(self.hf, "generation_config", None)):
            raise ModelError(
                f"This checkpoint's generation settings ask for {unsupported[0]}, which this "
                "program does not apply, so its answers would not be the model's. Choose another "
                "checkpoint, or take that setting out of its generation_config.json."
            )
        for name in self._weights_that_are_no_numbers():
            raise ModelError(
                f"The weights of {self.title} hold NaN or infinity, in {name}, so its answers "
                "would be noise. The files are damaged: get the whole checkpoint again."
            )

    def _weights_that_are_no_numbers(self) -> Iterator[str]:
        """Their names."""
        for name, module in self.hf.named_modules():
            if isinstance(module, PackedLinear):
                yield from (f"{name}.{part}" for part in module.damaged)
        for part in self._parts:
            for name, weight in part.named_parameters():
                if weight.is_meta or not weight.is_floating_point():  # elsewhere, or quantised
                    continue
                if not all(bound.isfinite() for bound in weight.detach().aminmax()):
                    yield name
