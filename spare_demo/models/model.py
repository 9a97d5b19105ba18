"""What every family of models shares: encoding a picture, taking a question, and its own facts.

A family is one file in families/. It says how a photo becomes visual tokens (`fit`, `see`), what
its checkpoints must be (`_check`) and, where it has its own, which rotary positions the rows keep.
How a model answers is in `generate/answering.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr as brief
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source, open_local_picture
from spare_demo.models.base import Encoding, LongQuestion, ModelError, Picture, PictureInputs, View
from spare_demo.models.generate import layerwise
from spare_demo.models.generate.passes import ConcurrentPass, Passes, plain_tensor
from spare_demo.models.generate.prompt import build_prompt, keywords, knows_image_token, word_ids
from spare_demo.models.loading.text_tower import TextEmbedding, TextTower
from spare_demo.models.resident import Resident
from spare_demo.pruners import Method
from spare_demo.pruners.fields import missing_reason
from spare_demo.relevance import GuidanceText, RelevanceOptions, patch_embeddings
from spare_demo.settings import check_characters
from spare_demo.threads import memoize
from spare_demo.tokens import VisualTokens, cpu_by_default

TextPass = Callable[[], TextEmbedding]
"""What CLIP's text side makes of one question, in a pass that runs once: with the vision pass or
after it, in inference mode the first time."""


class Model(Resident):
    """Encodes pictures and answers questions. Safe to share between threads: passes take turns.

    Attributes:
        hf: the stock transformers model.
        name, title, description: as the page shows them.
        revision: commit of the hub, or a short hash of a local folder's weights; with the bits
            where they were quantised.
        notes: sentences about how it was chosen or what it lacks.
        text_tower: None where no CLIP text side is known; then there is no relevance.
        has_language_model: whether it can answer; without, all else works.
        system: the system sentence of its prompts, as of `build_prompt`.
        warm_up_seconds: about those of a short answer with all visual tokens; 0 before `warm_up`.
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
        if not knows_image_token(processor, self._config):
            raise ModelError(
                "This checkpoint's processor does not know the model's image token. Get the whole "
                "checkpoint again, tokenizer and processor files included."
            )
        self._passes = Passes(self.device)
        if text_tower is not None:
            text_tower.to(self.device)  # stays float32: relevance is computed in float32

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name} {self.revision}>"

    @property
    def supplies(self) -> frozenset[str]:
        """The optional fields of VisualTokens that `ask` can fill; see `Method.reason_against`."""
        text = {"clip_image", "clip_text", "clip_sentence"} if self.text_tower else set()
        words = {"words"} if self.has_language_model else set()
        return frozenset(self.reads | text | words)

    @property
    def tower_blocks(self) -> int | None:
        """How many blocks the vision tower has; None where methods read none of them."""
        return self._config.vision_config.num_hidden_layers if self.clip_tower else None

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
        layers = 0 if layerwise.reason_against(self.hf.model.language_model) else self.layers
        supplies = self.supplies
        if guidance_text == "words" and method.reads_relevance:
            if "words" not in supplies:
                return missing_reason("words", supplies)
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

    @cpu_by_default()
    def look(
        self, image: Source, aspect: Aspect | None = None, concurrent: ConcurrentPass | None = None
    ) -> Picture:
        """One vision pass: all that a picture gives, whatever will be asked about it.

        Args:
            image: anything `open_picture` takes.
            aspect: one of `aspects`; None is the first of them.
            concurrent: what `encode` runs during the vision pass on a GPU: the text pass, since the
                two towers need nothing of each other.

        Raises:
            PictureError: the picture cannot be used.
            ValueError: an aspect this family has not.
        """
        photo = open_local_picture(image)
        inputs = self.fit(photo, self.aspect(aspect))
        encoding = self.see(inputs, concurrent)
        return Picture(
            photo=photo,
            encoded_by=(self.name, self.revision),
            pixel_values=inputs.pixel_values,
            **vars(encoding),
        )

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
        """`wanted`, or this family's usual way of fitting for None; ValueError for others."""
        aspect = next(iter(self.aspects)) if wanted is None else wanted
        if aspect not in self.aspects:
            raise ValueError(
                f"{self.title} cannot fit a picture by {brief(aspect)}. Choose one of: "
                f"{', '.join(self.aspects)}."
            )
        return aspect

    @cpu_by_default()
    def ask(
        self,
        picture: Picture,
        question: str,
        relevance: RelevanceOptions = RelevanceOptions(),
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
            ValueError: a picture of another model, a question that is no text or longer than the
                language model's memory, another layer than -2 and -1, or guidance by words without
                the language model.
        """
        self._check_own(picture)
        prompt, input_ids = build_prompt(self.processor, question, picture.slots, self.system)
        room = self._config.text_config.max_position_embeddings
        if input_ids.shape[1] >= room:
            raise LongQuestion(
                f"The question is too long: with the picture it makes {input_ids.shape[1]} tokens, "
                f"and this model has room for {room}. Shorten it."
            )
        text_pass = text_pass or self.read(question, relevance)
        tokens, seconds = self.relate(picture, question, relevance, together, text_pass)
        embedding = TextEmbedding() if text_pass is None else text_pass()
        if tokens.by_words:
            ids = word_ids(self.tokenizer, keywords(question))
            names = tuple(self.tokenizer.decode([token]).strip() for token in ids)
            embedding = TextEmbedding(words=names)
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

    def read(
        self, question: str, relevance: RelevanceOptions = RelevanceOptions()
    ) -> TextPass | None:
        """The text pass of a question, not run yet; None without a text tower, or by words.

        Raises ValueError for a question that is no text.
        """
        check_characters("question", question)
        tower = None if relevance.guidance_text == "words" else self.text_tower
        return None if tower is None else memoize(lambda: tower.read(question, relevance.text))

    def relate(
        self,
        encoding: Encoding,
        question: str,
        relevance: RelevanceOptions = RelevanceOptions(),
        together: bool = False,
        text_pass: TextPass | None = None,
    ) -> tuple[VisualTokens, float]:
        """What the pruning methods get of a picture and a question, and the seconds it took.

        encoding: from this model's `see` or `look`.
        text_pass: the question's; None where `read` gives none. All else, and errors, as of `ask`.
        """
        by_words = relevance.guidance_text == "words"
        if by_words and not self.has_language_model:
            raise ValueError(
                "guidance_text=words reads words of the language model, which was not loaded. "
                "Choose guidance_text=clip, or load the model whole."
            )
        if self.clip_tower and relevance.layer not in encoding.hidden:
            raise ValueError(f"Relevance can use layer -2 or -1, not {relevance.layer}.")
        # The picture of a comparison that stayed open lies on the CPU.
        far = self.device.type == "cuda" and encoding.features.device.type == "cpu"
        near = encoding.to(self.device) if far else encoding
        clip, seconds = self._clip_sides(near, question, relevance.layer, text_pass)
        tokens = VisualTokens(
            features=near.features,
            words=self._words(question),
            by_words=by_words,
            together=together,
            **clip,
            **near.reads,
        )
        return tokens, seconds

    def _clip_sides(
        self, encoding: Encoding, question: str, layer: int, text_pass: TextPass | None
    ) -> tuple[dict[str, Any], float]:
        """The fields of `VisualTokens` that CLIP's text side makes, and the seconds it took."""
        tower = self.text_tower
        if tower is None or text_pass is None:
            return {}, 0.0
        # With the model spread over several GPUs the tower may lie on another one.
        states = encoding.hidden[layer].to(self.device)

        def project() -> tuple[Tensor, Tensor | None]:
            return patch_embeddings(states, tower.ln_post, tower.proj), text_pass().text

        def sentence() -> Tensor:
            return plain_tensor(self._passes.run(lambda: tower.encode_sentence(question))[0])

        (image, text), seconds = self._passes.run(project)
        fields: dict[str, Any] = {"clip_image": plain_tensor(image)}
        if text is not None:
            fields |= {"clip_text": plain_tensor(text), "clip_sentence": memoize(sentence)}
        return fields, seconds

    def _words(self, question: str) -> Callable[[], Tensor] | None:
        """`VisualTokens.words` of a question; None where it is blank or nothing embeds it."""
        words = keywords(question)
        if not words or not self.has_language_model:
            return None

        def embed() -> Tensor:
            ids = torch.tensor(word_ids(self.tokenizer, words), device=self.device)
            rows = self._passes.run(lambda: self.hf.get_input_embeddings()(ids))[0]
            return plain_tensor(rows).float().to(self.device)

        return memoize(embed)

    def encode(
        self,
        image: Source,
        question: str,
        aspect: Aspect | None = None,
        relevance: RelevanceOptions = RelevanceOptions(),
        together: bool = False,
    ) -> View:
        """`look`, then `ask`; on a GPU the question is read during the vision pass."""
        text_pass = self.read(question, relevance)
        picture = self.look(image, aspect, text_pass)
        return self.ask(picture, question, relevance, together, text_pass)

    @abstractmethod
    def _check(self) -> None:
        """Raise ModelError for a checkpoint whose tokens have no known place, or half a one."""
