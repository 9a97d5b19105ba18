"""What every family of models shares: encoding a picture, taking a question, and its own facts.

A family is one file in families/. It says how a photo becomes visual tokens (`look`), what its
checkpoints must be (`_check`) and, where it has its own, which rotary positions the rows keep. How
a model answers is in `generate/answering.py`.
"""

from __future__ import annotations

import itertools
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor, nn

from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source, open_picture
from spare_demo.models.base import Answer, Encoding, ModelError, Picture, PictureInputs, View
from spare_demo.models.families.clip_tower import memoize
from spare_demo.models.generate import layerwise
from spare_demo.models.generate.answering import Answering
from spare_demo.models.generate.captured_prefill import (
    CapturedPrefill,
    difference,
    reason_against,
)
from spare_demo.models.generate.passes import ConcurrentPass, OutOfMemory, Passes, plain_tensor
from spare_demo.models.generate.prefill_floor import Rates, measure_rates, prefill_floor
from spare_demo.models.generate.prompt import build_prompt, knows_image_token
from spare_demo.models.generate.repetition import unsupported_settings
from spare_demo.models.generate.rows import kept_rows
from spare_demo.models.keywords import keywords, word_ids
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.models.text_pass import TextEmbedding, TextPass
from spare_demo.pruners.base import MISSING_REASONS, Method
from spare_demo.relevance import GuidanceText, RelevanceOptions, patch_embeddings
from spare_demo.tokens import Selection, VisualTokens

AS_RELEASED = RelevanceOptions()

_log = logging.getLogger(__name__)


def _grey() -> Image.Image:
    return Image.new("RGB", (336, 336), (128, 128, 128))


class Model(Answering):
    """Encodes pictures and answers questions. Safe to share between threads: passes take turns.

    Attributes:
        hf: the stock transformers model.
        name, title, description: as the page shows them.
        revision: commit of the hub, or a short hash of a local folder's weights; with the bits
            where they were quantised.
        notes: sentences about how it was chosen or what it lacks.
        text_tower: None where no CLIP text side is known; then there is no relevance.
        has_language_model: whether it can answer; without, all else works.
        system: the system sentence of its prompts, one of `prompt.SYSTEMS`.
        warm_up_seconds: of a short answer with all visual tokens; 0 before `warm_up`.
    """

    hf_class: ClassVar[str]
    """Name of the transformers class that its checkpoints are of."""
    aspects: ClassVar[Mapping[Aspect, str]]
    """The ways a photo can be fitted, each with its words on the page; the first is the usual."""
    kept_whole: ClassVar[tuple[str, ...]]
    """Where the names of modules start that are never quantised: what the maps come from."""
    vision_modules: ClassVar[tuple[str, ...]]
    """Where the names of the weights start, without "model.", that a picture's tokens come from."""
    clip_tower: ClassVar[bool] = False
    """Whether the vision tower is CLIP's, whose text side relevance compares it with."""
    several_views: ClassVar[bool] = False
    """Whether a photo is seen in several views, among which a budget can be shared."""
    counts_vary: ClassVar[bool] = False
    """Whether photos of different shapes or sizes can have different numbers of visual tokens."""
    picture_inputs: ClassVar[frozenset[str]] = frozenset({"pixel_values"})
    """What the stock processor makes of pictures, by name; `split` reads it."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The optional fields of VisualTokens that its vision tower fills."""

    def __init__(
        self,
        hf: Any,
        processor: Any,
        text_tower: TextTower | None,
        *,
        name: str,
        title: str = "",
        description: str = "",
        revision: str = "",
        notes: Sequence[str] = (),
        language_model: bool = True,
        system: str = "none",
    ):
        """Wrap a loaded model; `load_model` is the usual way here, and runs `check_answers` too.

        Raises:
            ModelError: the checkpoint is of a kind whose tokens have no known place on the picture,
                or its processor does not know the image token, or the text tower is another CLIP's.
        """
        self.hf = hf.eval()
        self.processor, self.tokenizer, self.text_tower = processor, processor.tokenizer, text_tower
        self.name, self.title, self.description = name, title or name, description
        self.revision, self.notes = revision, tuple(notes)
        self.has_language_model, self.system = language_model, system
        self._config: Any = hf.config
        self._check()
        self._passes = Passes(self.device)
        self._rates: Rates | None = None
        self.warm_up_seconds = 0.0
        if text_tower is not None:
            text_tower.to(self.device)  # stays float32: relevance is computed in float32

    @property
    def device(self) -> torch.device:
        """Where it runs; of a model spread over several GPUs, the first."""
        return self.hf.device

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights that are not quantised."""
        return self.hf.dtype

    @property
    def supplies(self) -> frozenset[str]:
        """The optional fields of VisualTokens that `ask` can fill; see `Method.reason_against`."""
        text = {"clip_image", "clip_text", "clip_sentence"} if self.text_tower else set()
        words = {"words"} if self.has_language_model else set()
        return frozenset(self.reads | text | words)

    @property
    def tower_blocks(self) -> int | None:
        """How many blocks the vision tower has; None where methods read none of them."""
        return None

    @property
    def layers(self) -> int:
        """How many layers the language model has; 0 where it was not loaded."""
        if not self.has_language_model:
            return 0
        return int(self._config.text_config.num_hidden_layers)

    def reason_against(self, method: Method, guidance_text: GuidanceText = "clip") -> str | None:
        """Why a method cannot run on this model, in words that follow "…: "; None if it can.

        guidance_text: what relevance compares, as of `RelevanceOptions`.
        """
        if method.inside and not self.has_language_model:
            return "this model was loaded without its language model"
        decoder = getattr(self.hf.model, "language_model", self.hf.model)
        layers = 0 if layerwise.reason_against(decoder) else self.layers
        supplies = self.supplies
        if guidance_text == "words" and method.reads_relevance:
            if "words" not in supplies:
                return MISSING_REASONS["words"]
            supplies |= {"clip_text"}  # in its place
        return method.reason_against(supplies, layers, self.tower_blocks)

    @property
    def most_tokens(self) -> int:
        """The most visual tokens a picture can have."""
        return self.most_tokens_of(self._config)

    @staticmethod
    @abstractmethod
    def most_tokens_of(config: Any) -> int:
        """The most visual tokens a picture can have with a checkpoint of this config."""

    def look(
        self,
        image: Source,
        aspect: Aspect | None = None,
        concurrent: ConcurrentPass | None = None,
    ) -> Picture:
        """One vision pass: all that a picture gives, whatever will be asked about it.

        Args:
            image: anything `open_picture` takes.
            aspect: one of `aspects`; None is the first of them.
            concurrent: what `encode` runs during the vision pass on a GPU.

        Raises:
            PictureError: the picture cannot be used.
            ValueError: an aspect this family has not.
        """
        photo = open_picture(image)
        inputs = self.fit(photo, self.aspect(aspect))
        encoding = self.see(inputs, concurrent)
        return Picture(photo=photo, pixel_values=inputs.pixel_values, **vars(encoding))

    @abstractmethod
    def fit(self, photo: Image.Image, aspect: Aspect) -> PictureInputs:
        """What the tower is given of an upright RGB photo, fitted in one of `aspects`.

        Raises:
            PictureError: this family cannot take the photo.
        """

    @abstractmethod
    def split(self, inputs: Mapping[str, Any]) -> list[PictureInputs]:
        """What the stock processor made of several pictures, one by one.

        inputs: the processor's, with all of `picture_inputs`.
        """

    @abstractmethod
    def see(self, inputs: PictureInputs, concurrent: ConcurrentPass | None = None) -> Encoding:
        """One vision pass; concurrent: as of `look`."""

    def aspect(self, wanted: Aspect | None) -> Aspect:
        """The way of fitting that is meant; ValueError for one that this family has not."""
        aspect = next(iter(self.aspects)) if wanted is None else wanted
        if aspect not in self.aspects:
            raise ValueError(
                f"{self.title} cannot fit a picture by {aspect!r}. Choose one of: "
                f"{', '.join(self.aspects)}."
            )
        return aspect

    def ask(
        self,
        picture: Picture,
        question: str,
        relevance: RelevanceOptions = AS_RELEASED,
        together: bool = False,
        text_pass: TextPass | None = None,
    ) -> View:
        """One text pass: the prompt, and what the pruning methods need to choose.

        Args:
            picture: from this model's `look`; the view's `tokens` lie on the model's GPU also where
                the picture waited on the CPU.
            question: of any length the language model has room for; blank means no relevance.
            relevance: what is compared with the question, and where both sides are read.
            together: methods spend a budget over all views of the picture at once; else each view
                gets an equal share, as CDPruner released it.
            text_pass: the question's, where `encode` has begun it.

        Raises:
            ValueError: a question longer than the language model's memory, or another layer, or
                guidance by words without the language model.
        """
        prompt, input_ids = build_prompt(self.processor, question, picture.slots, self.system)
        room = self._config.text_config.max_position_embeddings
        if input_ids.shape[1] >= room:
            raise ValueError(
                f"The question is too long: with the picture it makes {input_ids.shape[1]} tokens, "
                f"and this model has room for {room}. Shorten it."
            )
        text_pass = text_pass or self.read(question, relevance)
        tokens, seconds = self.relate(picture, question, relevance, together, text_pass)
        embedding = TextEmbedding(None) if text_pass is None else text_pass.embedding()
        if tokens.by_words:
            ids = word_ids(self.tokenizer, keywords(question))
            names = tuple(self.tokenizer.decode([token]).strip() for token in ids)
            embedding = TextEmbedding(None, words=names)
        return View(
            picture,
            question,
            prompt,
            input_ids,
            tokens,
            seconds,
            embedding.stretches,
            embedding.words,
            self.layers,
            self.system,
        )

    def read(self, question: str, relevance: RelevanceOptions = AS_RELEASED) -> TextPass | None:
        """The text pass of a question, not run yet; None without a text tower, or by words."""
        tower = None if relevance.guidance_text == "words" else self.text_tower
        return None if tower is None else TextPass(tower, question, relevance.text)

    def relate(
        self,
        encoding: Encoding,
        question: str,
        relevance: RelevanceOptions = AS_RELEASED,
        together: bool = False,
        text_pass: TextPass | None = None,
    ) -> tuple[VisualTokens, float]:
        """What the pruning methods get of a picture and a question, and the seconds it took.

        Args:
            encoding: from this model's `see` or `look`.
            question, relevance, together: as of `ask`.
            text_pass: the question's; None where `read` gives none.

        Raises:
            ValueError: another layer than -2 and -1 to read relevance from, or guidance by words
                without the language model.
        """
        by_words = relevance.guidance_text == "words"
        if by_words and not self.has_language_model:
            raise ValueError(
                "guidance_text=words reads words of the language model, which was not loaded. "
                "Choose guidance_text=clip, or start again without --without-language-model."
            )
        if self.clip_tower and relevance.layer not in encoding.hidden:
            raise ValueError(f"Relevance can use layer -2 or -1, not {relevance.layer}.")
        # The picture of a comparison that stayed open lies on the CPU.
        far = self.device.type == "cuda" and encoding.features.device.type == "cpu"
        near = encoding.to(self.device) if far else encoding
        words = self._words(question)
        tower = self.text_tower
        if tower is None or text_pass is None:
            tokens = VisualTokens(
                features=near.features,
                words=words,
                by_words=by_words,
                together=together,
                **near.reads,
            )
            return tokens, 0.0

        # With the model spread over several GPUs the tower may lie on another one.
        states = near.hidden[relevance.layer].to(self.device)

        def project() -> tuple[Tensor, TextEmbedding]:
            image = patch_embeddings(states, tower.ln_post, tower.proj)
            return image, text_pass.embedding()

        def sentence() -> Tensor:
            return plain_tensor(self._passes.run(lambda: tower.encode_sentence(question))[0])

        (image, embedding), seconds = self._passes.run(project)
        text = embedding.text
        tokens = VisualTokens(
            features=near.features,
            clip_image=plain_tensor(image),
            clip_text=None if text is None else plain_tensor(text),
            clip_sentence=None if text is None else memoize(sentence),
            words=words,
            together=together,
            **near.reads,
        )
        return tokens, seconds

    def _words(self, question: str) -> Callable[[], Tensor] | None:
        """`VisualTokens.words` of a question; None where it is blank or nothing embeds it."""
        found = keywords(question)
        if not found or not self.has_language_model:
            return None

        def embed() -> Tensor:
            embedding = self.hf.get_input_embeddings()
            ids = torch.tensor(word_ids(self.tokenizer, found), device=embedding.weight.device)
            rows = self._passes.run(lambda: embedding(ids))[0]
            return plain_tensor(rows).float().to(self.device)

        return memoize(embed)

    def encode(
        self,
        image: Source,
        question: str,
        aspect: Aspect | None = None,
        relevance: RelevanceOptions = AS_RELEASED,
        together: bool = False,
    ) -> View:
        """`look`, then `ask`; on a GPU the question is read during the vision pass."""
        text_pass = self.read(question, relevance)
        picture = self.look(image, aspect, None if text_pass is None else text_pass.run)
        return self.ask(picture, question, relevance, together, text_pass)

    @property
    def closed(self) -> bool:
        """Whether it was unloaded; see `close`."""
        return self._passes.closed

    @property
    def bytes(self) -> int:
        """Memory that the weights take, the CLIP text side and quantised weights' scales
        included."""
        tensors = [*self._weights(), *(tensor for _, _, tensor in self._quantised())]
        # bitsandbytes reaches one matrix by several names.
        sizes = {(t.device, t.data_ptr()): t.numel() * t.element_size() for t in tensors}
        return sum(sizes.values())

    def stop(self, why: str) -> None:
        """Let no pass begin any more, at once: the process is about to end.

        why: the message of every later call, and of the answer being written.
        """
        self._passes.stop(why)

    def close(self, why: str) -> None:
        """Give the memory back for good, whoever still holds this model.

        Args:
            why: the message of every later call, and of the answer being written.
        """
        self._passes.close(why)
        for tensor in self._weights():
            tensor.data = tensor.new_empty(0)
        for holder, name, _ in list(self._quantised()):
            setattr(holder, name, None)  # not emptied: some tables are shared by all models
        self._captured = None
        self._passes.release()

    def detach_device(self) -> None:
        """From now on each pass raises DeviceElsewhere: a process forked from this one has it."""
        self._passes.detach()

    def attach_device(self) -> None:
        """In a process that has the device: passes run here."""
        self._passes.attach()

    def _weights(self) -> Iterator[Tensor]:
        for part in (self.hf, self.text_tower):
            if part is not None:
                yield from itertools.chain(part.parameters(), part.buffers())

    def _quantised(self) -> Iterator[tuple[object, str, Tensor]]:
        for module in self.hf.modules():
            yield from tensors_beside_parameters(module)

    def warm_up(self) -> None:
        """One whole round on a grey square, so that later timings are of a warmed model."""
        view = self.encode(_grey(), "What is this?")
        if not self.has_language_model:
            return
        answer = self.answer(view, max_new_tokens=2)
        self.warm_up_seconds = answer.prefill_seconds + answer.decode_seconds
        self._rates = self.measure_rates(self.dtype)

    def measure_rates(self, dtype: torch.dtype) -> Rates:
        """How fast its device is in a number format; raises OutOfMemory."""
        return self._passes.run(lambda: measure_rates(self.device, dtype))[0]

    def capture_prefill(self, when: str = "auto") -> None:
        """From now on run prefills as CUDA graphs, one per prompt length (captured_prefill.py).

        They are compared with the usual prefills first, at three lengths.

        Args:
            when: one of `CAPTURES`. "auto" captures on one CUDA GPU with weights that are not
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
            reason = "With 4-bit weights it is only with --capture-prefill on."
        if reason is None:
            reason = self._try_capture()
        if reason is None:
            return
        if when == "on":
            raise ModelError(f"{reason} Start with --capture-prefill off.")
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
            reason = "There is not enough memory for it beside the model."
        except Exception as error:
            _log.exception("A captured prefill failed")
            reason = f"Capturing it failed ({type(error).__name__})."
        if reason is not None:
            self._captured = None
            self._passes.release()
        return reason

    def prefill_floor(self, answer: Answer) -> float | None:
        """Seconds: the least this device could have taken for the answer's prefill.

        None before `warm_up`, which measures the device.
        """
        if self._rates is None:
            return None
        others = answer.prompt_tokens - answer.visual_tokens
        return prefill_floor(self.hf, self._rates, [others + k for k in answer.kept_per_layer])

    @abstractmethod
    def _check(self) -> None:
        """Raise ModelError for a checkpoint whose tokens have no known place, or half a one."""

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
        towers = [] if self.text_tower is None else [self.text_tower]
        for part in (self.hf, *towers):
            for name, weight in part.named_parameters():
                if weight.is_meta or not weight.is_floating_point():  # elsewhere, or quantised
                    continue
                if not all(bound.isfinite() for bound in weight.detach().aminmax()):
                    raise ModelError(
                        f"The weights of {self.title} hold NaN or infinity, in {name}, so its "
                        "answers would be noise. The files are damaged: get the whole checkpoint "
                        "again."
                    )

    def _check_image_token(self) -> None:
        if not knows_image_token(self.processor, self._config):
            raise ModelError(
                "This checkpoint's processor does not know the model's image token. Get the whole "
                "checkpoint again, tokenizer and processor files included."
            )


def tensors_beside_parameters(module: nn.Module) -> Iterator[tuple[object, str, Tensor]]:
    """What bitsandbytes keeps of a module's weights outside its parameters and buffers: quantised
    matrices, scales and tables, each with the object and the attribute that hold it."""
    pending: list[object] = [module, *module.parameters(recurse=False)]
    while pending:
        holder = pending.pop()
        for name, value in list(vars(holder).items()):
            if isinstance(value, Tensor):
                yield holder, name, value
            elif type(value).__module__.startswith("bitsandbytes.") and not isinstance(
                value, nn.Module
            ):
                pending.append(value)
