"""LLaVA 1.5 and its like: the stock Hugging Face model, looked into between tower and decoder.

Pruning is an argument: the kept rows of the projector's output stand in the image placeholders'
place, in raster order, and the text after them follows at once (compact positions). Nothing is
patched, so one loaded model gives the unpruned and every pruned answer.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import LlavaForConditionalGeneration

from spare_demo.geometry import Aspect, fit
from spare_demo.models.base import Answer, ModelError, Picture, View
from spare_demo.models.clip_reads import CLIP_READS, INPUTS, clip_reads, remembered
from spare_demo.models.decoding import decode
from spare_demo.models.passes import Passes
from spare_demo.models.prompt import build_prompt
from spare_demo.models.text_tower import TextTower
from spare_demo.pictures import Source, open_picture
from spare_demo.relevance import RelevanceOptions, patch_embeddings
from spare_demo.tokens import Selection, VisualTokens

RELEVANCE_LAYERS = (-2, -1)
AS_RELEASED = RelevanceOptions()


class LlavaModel:
    """Sees and answers. Safe to share between threads: one pass runs at a time.

    Attributes:
        hf: the stock ``LlavaForConditionalGeneration``.
        name, title, description: who it is, in the page's words.
        revision: commit of the hub, or a short hash of a local folder's weights.
        notes: sentences about how it was chosen or what it lacks.
        text_tower: None where no CLIP text side is known; then there is no relevance.
    """

    def __init__(
        self,
        hf: LlavaForConditionalGeneration,
        processor: Any,
        text_tower: TextTower | None,
        *,
        name: str,
        title: str = "",
        description: str = "",
        revision: str = "",
        notes: Sequence[str] = (),
    ):
        """Wrap a loaded model; `load_model` is the usual way here.

        Raises:
            ModelError: the checkpoint is of a kind whose tokens have no known place on the picture,
                or its processor does not know the image token, or the text tower is another CLIP's.
        """
        self.hf = hf.eval()
        self.processor, self.tokenizer, self.text_tower = processor, processor.tokenizer, text_tower
        self.name, self.title, self.description = name, title or name, description
        self.revision, self.notes = revision, tuple(notes)
        self._config: Any = hf.config
        self._check()
        vision: Any = hf.config.vision_config
        images = processor.image_processor
        self.size: int = vision.image_size
        self.patch: int = vision.patch_size
        self._mean = torch.tensor(images.image_mean).view(3, 1, 1)
        self._std = torch.tensor(images.image_std).view(3, 1, 1)
        # The original LLaVA pads with the mean colour, rounded down.
        self._fill = tuple(int(255 * share) for share in images.image_mean)
        self._passes = Passes(self.device)
        if text_tower is not None:
            text_tower.to(self.device)  # stays float32: relevance is computed in float32

    @property
    def device(self) -> torch.device:
        return self.hf.device

    @property
    def dtype(self) -> torch.dtype:
        return self.hf.dtype

    @property
    def supplies(self) -> frozenset[str]:
        """The optional fields of VisualTokens that `ask` can fill; see `Pruner.reason_against`."""
        text = {"clip_image", "clip_text", "clip_sentence"} if self.text_tower else set()
        return frozenset(CLIP_READS | text)

    def look(self, image: Source, aspect: Aspect = "pad") -> Picture:
        """One vision pass: all that a picture gives, whatever will be asked about it.

        Args:
            image: anything `open_picture` takes.
            aspect: "pad" to a square as the original LLaVA-1.5, or "crop" the central square.

        Raises:
            PictureError: the picture cannot be used.
        """
        photo = open_picture(image)
        fitted, grid = fit(photo, self.size, self.patch, aspect, self._fill)  # type: ignore[arg-type]
        pixel_values = self._normalise(fitted)
        layer = self._config.vision_feature_layer
        chosen = [layer] if isinstance(layer, int) else list(layer)

        tower, projector = self.hf.model.vision_tower, self.hf.model.multi_modal_projector
        layers = {*chosen, *RELEVANCE_LAYERS, *INPUTS}

        def see() -> tuple[Tensor, dict[int, Tensor]]:
            hidden = tower(
                pixel_values.to(self.device, self.dtype), output_hidden_states=sorted(layers)
            ).hidden_states
            states = torch.cat([hidden[i][0] for i in chosen], dim=-1)  # (1 + n, w)
            return projector(states[1:]), {i: hidden[i] for i in layers}

        (features, hidden), seconds = self._passes.run(see)
        # Cloned outside the pass: plain tensors, which others may do any arithmetic with.
        hidden = {i: states.clone() for i, states in hidden.items()}
        states = torch.cat([hidden[i][0] for i in chosen], dim=-1)
        return Picture(
            photo=photo,
            pixel_values=pixel_values,
            grid=grid,
            features=features.clone(),
            hidden={i: hidden[i][0, 1:] for i in RELEVANCE_LAYERS},  # no class token
            encode_seconds=seconds,
            reads=clip_reads(tower, projector, self._passes, hidden, states[1:], states[:1]),
        )

    def ask(
        self, picture: Picture, question: str, relevance: RelevanceOptions = AS_RELEASED
    ) -> View:
        """One text pass: the prompt, and what the pruning methods need to choose.

        Args:
            picture: from this model's `look`.
            question: of any length the language model has room for; blank means no relevance.
            relevance: which tower layer and which text embeddings relevance comes from.

        Raises:
            ValueError: a question longer than the language model's memory, or another layer.
        """
        if relevance.layer not in picture.hidden:
            raise ValueError(f"Relevance can use layer -2 or -1, not {relevance.layer}.")
        prompt, input_ids = build_prompt(self.processor, question, picture.grid.n)
        room = self._config.text_config.max_position_embeddings
        if input_ids.shape[1] >= room:
            raise ValueError(
                f"The question is too long: with the picture it makes {input_ids.shape[1]} tokens, "
                f"and this model has room for {room}. Shorten it."
            )
        tower = self.text_tower
        if tower is None:
            tokens = VisualTokens(features=picture.features, **picture.reads)
            return View(picture, question, prompt, input_ids, tokens, 0.0, 0, ())

        def relate() -> tuple[Tensor, Tensor | None, int, list[str]]:
            image = patch_embeddings(picture.hidden[relevance.layer], tower.ln_post, tower.proj)
            if not question.strip():
                return image, None, 0, []
            if relevance.text == "stretches":
                text = tower.encode_stretches(question)
                return image, text, len(text), []
            text, words = tower.encode_tokens(question)
            stretches = -(-(len(words) + 2) // tower.context)  # with BOS and EOS
            return image, text if words else None, stretches, words

        def sentence() -> Tensor:
            return self._passes.run(lambda: tower.encode_sentence(question))[0].clone()

        (image, text, stretches, words), seconds = self._passes.run(relate)
        tokens = VisualTokens(
            features=picture.features,
            clip_image=image.clone(),
            clip_text=None if text is None else text.clone(),
            clip_sentence=None if text is None else remembered(sentence),
            **picture.reads,
        )
        return View(picture, question, prompt, input_ids, tokens, seconds, stretches, tuple(words))

    def encode(
        self,
        image: Source,
        question: str,
        aspect: Aspect = "pad",
        relevance: RelevanceOptions = AS_RELEASED,
    ) -> View:
        """`look`, then `ask`."""
        return self.ask(self.look(image, aspect), question, relevance)

    def stream(
        self,
        view: View,
        selection: Selection | None = None,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 0,
        stop: threading.Event | None = None,
    ) -> Generator[str, None, Answer]:
        """Answer piece by piece; the generator's return value is the `Answer`.

        Args:
            view: from this model's `ask` or `encode`.
            selection: the tokens to keep, None for all.
            max_new_tokens: at least 1.
            temperature: 0 is greedy; above, samples with `seed`.
            stop: set it to end the answer after the token being made.

        Raises:
            ValueError: at once, not at the first piece: indices out of range, rows of another
                width, `max_new_tokens` below 1, negative temperature.
        """
        if max_new_tokens < 1:
            raise ValueError("max_new_tokens must be at least 1.")
        if not temperature >= 0:
            raise ValueError("temperature must be 0 (greedy) or above.")
        visual = _kept_rows(view.tokens.features, selection)
        return decode(
            self.hf,
            self.tokenizer,
            self._passes,
            view.input_ids,
            visual,
            max_new_tokens,
            temperature,
            seed,
            stop,
        )

    def answer(
        self,
        view: View,
        selection: Selection | None = None,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 0,
        stop: threading.Event | None = None,
    ) -> Answer:
        """`stream`, run to its end."""
        pieces = self.stream(view, selection, max_new_tokens, temperature, seed, stop)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                answer: Answer = end.value
                return answer

    def warm_up(self) -> None:
        """One whole round on a grey square, so that later timings are of a warmed model."""
        grey = Image.new("RGB", (self.size, self.size), (128, 128, 128))
        self.answer(self.encode(grey, "What is this?"), max_new_tokens=2)

    def _check(self) -> None:
        config, processor, tower = self._config, self.processor, self.text_tower
        if config.vision_config.model_type != "clip_vision_model":
            raise ModelError(
                "This checkpoint's vision tower is not CLIP's. Choose a LLaVA-1.5 checkpoint."
            )
        if config.vision_feature_select_strategy != "default":
            raise ModelError(
                "This checkpoint gives the class token to the language model too, which has no "
                "place on the picture. Choose a LLaVA-1.5 checkpoint."
            )
        token = self.tokenizer.convert_tokens_to_ids(processor.image_token)
        if token != config.image_token_id:
            raise ModelError(
                "This checkpoint's processor does not know the model's image token. Get the whole "
                "checkpoint again, tokenizer and processor files included."
            )
        if tower is not None and tower.proj.shape[0] != config.vision_config.hidden_size:
            raise ModelError(
                "This checkpoint's CLIP folder belongs to another vision tower: the widths differ "
                f"({tower.proj.shape[0]} and {config.vision_config.hidden_size}). Get both from "
                "one source, or remove clip/ to go without relevance."
            )

    def _normalise(self, fitted: Image.Image) -> Tensor:
        """S x S RGB -> (1, 3, S, S) float32, as CLIPImageProcessor treats one of that size."""
        pixels = torch.from_numpy(np.array(fitted)).permute(2, 0, 1).float() / 255
        return ((pixels - self._mean) / self._std)[None]


def _kept_rows(features: Tensor, selection: Selection | None) -> Tensor:
    """(n, d) -> (r, d) what the language model gets, in its order."""
    if selection is None:
        return features
    n, width = features.shape
    if selection.features is not None:
        if selection.features.ndim != 2 or selection.features.shape[1] != width:
            raise ValueError(
                f"The merged tokens have shape {tuple(selection.features.shape)}; this model takes "
                f"rows of {width} numbers."
            )
        return selection.features
    kept = selection.check(n).kept
    return features[kept.to(features.device)]
