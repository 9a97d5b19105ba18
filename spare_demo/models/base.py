"""What a model returns: the encoded picture, the picture with a question, and the answer.

The three are separate because their costs are: a `Picture` is one vision pass and serves every
question, a `View` adds one text pass and serves every method and budget, an `Answer` is one run of
the language model. `PictureInputs` is what a vision pass reads and `Encoding` what it makes: all
there is of a picture that came as a processor's inputs, without its photo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import torch
from PIL import Image
from torch import Tensor

from spare_demo import measures
from spare_demo.images.geometry import Grid, MultiGrid
from spare_demo.pruners.plan import LayerSet
from spare_demo.relevance import aggregate, raw_cosine
from spare_demo.tokens import Selection, VisualTokens, where_float64_is
from spare_demo.tokens.arrays import NOT_STORED


class LongQuestion(ValueError):
    """A question too long for the language model; the message may be shown as it is."""


class ModelError(RuntimeError):
    """A model that cannot be loaded or used; the message says what to do next and may be shown."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Where the n visual tokens of one picture lie.

    Attributes:
        grid: where each token looks on the photo; where only a processor's inputs are known, on a
            photo of the size that they tell.
        breaks: (m,) LongTensor, CPU: how many tokens come before each of the m newline rows.
    """

    grid: Grid | MultiGrid
    breaks: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long), repr=False)

    @property
    def slots(self) -> int:
        """Placeholders of the unpruned prompt: visual tokens and newline rows."""
        return self.grid.n + len(self.breaks)


@dataclass(frozen=True, eq=False, kw_only=True)
class PictureInputs(Layout):
    """What the vision tower reads of one picture.

    Attributes, beside those of `Layout`:
        pixel_values: normalised: (1, 3, S, S), or with tiles (1, 1 + tiles, 3, S, S), or Qwen's
            (patches, 3 * 2 * 14 * 14).
    """

    pixel_values: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoding(Layout):
    """What the vision tower makes of one picture, whatever the question. n tokens, w tower width.

    Attributes, beside those of `Layout`:
        features: (n, d) projector output, the rows the language model gets; the model's dtype.
        hidden: {layer: (n, w)} tower states that relevance can use, class token dropped: -2 is the
            output of the last block but one, -1 that of the last, both before the final norm.
        encode_seconds: wall time of tower and projector; on a GPU also of the question's text,
            which `Model.encode` reads at the same time.
        reads: further fields of `VisualTokens`, by name, that this tower can fill.
        newline: (d,) the row that closes each row of LLaVA-NeXT's tiles, None where there is none.
    """

    features: Tensor = field(repr=False)
    hidden: Mapping[int, Tensor] = field(repr=False)
    encode_seconds: float
    reads: Mapping[str, Any] = field(default_factory=dict, repr=False)
    newline: Tensor | None = field(default=None, repr=False)

    def to(self, device: torch.device) -> Self:
        """A copy with all that methods and the model read on a device; itself where it is there."""
        if self.features.device == device:
            return self
        return replace(
            self,
            features=self.features.to(device),
            hidden={layer: states.to(device) for layer, states in self.hidden.items()},
            reads={name: _to_device(value, device) for name, value in self.reads.items()},
            newline=_to_device(self.newline, device),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Picture(Encoding):
    """A photo with its `Encoding`.

    Attributes:
        photo: the upright RGB picture.
        encoded_by: name and revision of the model, whose language model alone can read it.
        pixel_values: as of `PictureInputs`, float32, CPU.
    """

    photo: Image.Image
    encoded_by: tuple[str, str]
    pixel_values: Tensor = field(repr=False)

    @cached_property
    def compact_features(self) -> Tensor:
        """(n, min(n, d)) float64, where the features lie: `measures.compact`, made once."""
        return measures.compact(where_float64_is(self.features))

    @cached_property
    def random_errors(self) -> measures.Spread:
        """Relative reconstruction errors of random picks, at `measures.curve_budgets`."""
        budgets = measures.curve_budgets(self.grid.n)
        return measures.random_spread(self.compact_features, budgets, measures.RANDOM_SEEDS)

    @cached_property
    def least_errors(self) -> Tensor:
        """The relative error that no picks can be below, at `measures.curve_budgets`."""
        return measures.svd_bound(self._singular_squares, measures.curve_budgets(self.grid.n))

    @cached_property
    def rank(self) -> int:
        """The rank of the features: picks beyond it add nothing to what is rebuilt."""
        return measures.rank(self._singular_squares)

    def error(self, selection: Selection) -> float:
        """What a selection fails to rebuild of the features: `measures.reconstruction_error`, or
        `measures.merged_error` where rows were merged."""
        x = self.compact_features
        if not selection.merged:
            return measures.reconstruction_error(x, selection.order)
        assert selection.features is not None  # only a file leaves them out
        return measures.merged_error(
            where_float64_is(self.features), selection.features.to(x.device)
        )

    @cached_property
    def _singular_squares(self) -> Tensor:
        return measures.singular_squares(self.compact_features)


def _to_device(value: Any, device: torch.device) -> Any:
    """A tensor moved to a device, or a function whose results are; other values as they are."""
    if isinstance(value, Tensor):
        return value.to(device)
    if callable(value):
        return lambda *arguments, **named: value(*arguments, **named).to(device)
    return value


@dataclass(frozen=True, eq=False)
class View:
    """A picture with a question: everything a method needs to choose, and the model to answer.

    Attributes:
        picture, question: as given; the picture may lie on another device than `tokens`.
        prompt: the exact text given to the language model, with one image token where the n visual
            tokens go.
        input_ids: (1, T) its tokens, CPU, with an image placeholder for each of
            `picture.slots`.
        tokens: what the pruning methods get.
        relevance_seconds: wall time of the text pass and of projecting the patches.
        text_stretches: how many 77-token stretches the question filled; above 1 only the last is
            pooled at the text's end (see text_tower.py). 0 without a question or text tower.
        text_words: with `RelevanceOptions(text="tokens")`, or by words, the m token strings; else
            empty.
        layers: how many the language model has that will answer.
        system: the system sentence of the prompt, by name.
    """

    picture: Picture
    question: str
    prompt: str
    input_ids: Tensor
    tokens: VisualTokens
    relevance_seconds: float
    text_stretches: int
    text_words: tuple[str, ...]
    layers: int
    system: str = "none"

    def __repr__(self) -> str:
        """The question and the number of tokens: all fields would fill many pages."""
        return f"<View of {self.tokens.n} visual tokens: {self.question!r}>"

    def to(self, device: torch.device) -> View:
        """A copy with all that methods read on a device; itself where it is there."""
        tokens = self.tokens
        if tokens.features.device == device:
            return self
        picture = self.picture.to(device)
        text_side = ("clip_image", "clip_text", "clip_sentence", "clip_prompt", "words")
        moved = {name: _to_device(getattr(tokens, name), device) for name in text_side}
        tokens = replace(tokens, features=picture.features, **moved, **picture.reads)
        return replace(self, picture=picture, tokens=tokens)

    @property
    def pixel_values(self) -> Tensor:
        """What the vision tower was given; see `Picture`."""
        return self.picture.pixel_values

    @property
    def grid(self) -> Grid | MultiGrid:
        """Where each token looks on the photo."""
        return self.picture.grid

    @property
    def photo(self) -> Image.Image:
        """The upright RGB picture."""
        return self.picture.photo

    @cached_property
    def relevance(self) -> Tensor | None:
        """(n,) raw mean cosine of each token with the question, CPU; None without a question."""
        if not self.tokens.has_text:
            return None
        return aggregate(raw_cosine(*self.tokens.image_and_text()), "mean").cpu()


@dataclass(frozen=True, eq=False)
class Answer:
    """One run of the language model. All seconds are wall time with the device synchronised.

    Attributes:
        text: the answer, without surrounding blanks and special tokens.
        token_ids: the new tokens, the end-of-text one included when it came.
        prompt_tokens: tokens given to the language model in all, text and visual.
        visual_tokens: how many of them look at a place of the picture: the rows that entered.
        newline_tokens: how many are LLaVA-NeXT's row ends, kept whatever the budget.
        prefill_seconds: the pass over the prompt.
        prefill_operations: of that pass, with the tokens that each layer got; what a method itself
            computes between layers is not in it (prefill_floor.py).
        decode_seconds: all later passes together, without waiting for other visitors' passes.
        kv_cache_bytes: occupied entries right after the prefill, read from the cache itself.
        allocated_bytes: what its keys and values took on the device when decoding began, with room
            for the answer (together.py) and the copy that a captured prefill keeps. 0 where
            that is not known.
        kept_per_layer: visual tokens in each layer of the language model, read from the cache.
        ended: "end" the model closed its answer, "length" it reached the limit.
        log_probabilities: of each new token after those before it, in nats; the model's own, also
            where the tokens were given.
        layer_sets: which visual tokens each layer got, where they leave on the way (a LayerPlan):
            one set for layer 0 and one for each stop. Empty where all layers get the same.
        first_logits: (vocab,) float32, CPU: the scores of the first new token; (0,) of an answer
            read back from a file.
    """

    text: str
    token_ids: tuple[int, ...]
    prompt_tokens: int
    visual_tokens: int
    prefill_seconds: float
    decode_seconds: float
    kv_cache_bytes: int
    kept_per_layer: tuple[int, ...]
    ended: Literal["end", "length"]
    newline_tokens: int = 0
    prefill_operations: int = 0
    allocated_bytes: int = 0
    log_probabilities: tuple[float, ...] = ()
    layer_sets: tuple[LayerSet, ...] = field(default=(), repr=False)
    first_logits: Annotated[Tensor, NOT_STORED] = field(
        default_factory=lambda: torch.empty(0), repr=False
    )

    @property
    def word_count(self) -> int:
        """How many of the new tokens are words: without the one that ends them, unless it is the
        only one."""
        count = len(self.token_ids)
        return count - 1 if self.ended == "end" and count > 1 else count

    @property
    def first_probabilities(self) -> Tensor:
        """(vocab,) float64, CPU: of the first new token; (0,) of an answer read from a file."""
        return self.first_logits.double().softmax(dim=-1)

    @property
    def average_visual_tokens(self) -> float:
        """Mean over layers of the visual tokens that were really processed."""
        return sum(self.kept_per_layer) / len(self.kept_per_layer)

    def set_at(self, layer: int) -> LayerSet | None:
        """Which visual tokens a layer got; None where all layers got the same."""
        return next(
            (layer_set for layer_set in self.layer_sets[::-1] if layer_set.layer <= layer), None
        )
