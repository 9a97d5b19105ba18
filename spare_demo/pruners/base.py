"""The contract of a pruning method; checks, settings and ranking that all methods share.

A method is a frozen dataclass in a file of its own. Its fields are its settings, described by
`setting` so that the page and the command line can list them; `dataclasses.replace` changes them.
"""

from __future__ import annotations

import dataclasses
import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from reprlib import repr as brief
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.pruners.blocks import too_few_blocks
from spare_demo.pruners.fields import FIELDS, missing_reason
from spare_demo.pruners.plan import LayerPlan, PlanInput
from spare_demo.tokens import Selection, VisualTokens, cpu_by_default

GROUPS = {  # group of a method: its heading
    "before": "Before the language model",
    "merging": "Merging tokens before it",
    "inside": "Inside the language model",
    "controls": "Controls",
}


def _abstract() -> Any:
    """An attribute that every class has to say; a class attribute can take its place."""
    return property(abstractmethod(lambda method: None))


class Method(ABC):
    """What every method has; it is a `Pruner`, or a `LayerPruner` inside the language model."""

    name: str = _abstract()
    """The name in the table, lower case, stable."""
    title: str = _abstract()
    """The name on the page."""
    summary: str = _abstract()
    """One line: what is kept and why."""
    inside: bool = False
    """Whether it chooses inside the language model, layer by layer: `plan` instead of `select`."""
    by_hand: bool = False
    """Whether it is a set or a plan made by hand, which is itself at every budget."""

    paper: str = ""
    """Where the method comes from, in words."""
    link: str = ""
    """Address of the paper, or empty."""
    nested: bool = False
    """Whether the first j picks of a larger budget are the selection for budget j, which is then
    not asked for by itself."""
    sizes_itself: bool = False
    """Whether it keeps as many tokens as stand out in a picture, whatever the budget."""
    seeded: bool = False
    """Whether the picks depend on a field called `seed`."""
    acts: str = "after the projector"
    """Where the choice is made, on the way from the picture to the language model."""
    reads_features: bool = True
    """Whether the choice looks at the features, not only at what goes with them."""
    cost: str = ""
    """What a selection costs, in big-O: n tokens d wide, k kept."""
    deviations: str = ""
    """Where this differs from the paper or the released code, in sentences."""
    merges: bool = False
    """Whether the language model gets rows that are mixed from several tokens."""
    counting_note: str = ""
    """How its paper counts a budget, where that is not the mean over layers: a clause."""
    needs_text: bool = False
    """Whether `select` needs a question, in the field `text_field`."""
    text_free: str | None = None
    """Name of the method to offer when there is no question; None if there is no such form."""
    text_field: str = "clip_text"
    """The field of VisualTokens that holds the question, for methods that need text: one of the
    first two `FIELDS`."""
    needs: frozenset[str] = frozenset()
    """The optional fields of VisualTokens, beyond the text, that `select` cannot do without."""
    blocks: tuple[int, ...] = ()
    """The blocks of the vision tower that `select` reads, as `blocks.block_place` counts them."""

    @property
    def merging_note(self) -> str:
        """What a visitor should know of its merged rows: a sentence, empty where none are made."""
        if not self.merges:
            return ""
        if self.inside:
            return (
                f"{self.title} mixes some of the tokens it drops into rows of their own, which go "
                "on beside those it keeps."
            )
        return (
            f"{self.title} merges tokens: its rows hold parts of several patches. Picks, order and "
            "overlap are of the patches that the rows grew from."
        )

    @property
    def reads_relevance(self) -> bool:
        """Whether the question enters by `VisualTokens.image_and_text`: CLIP's space, or words."""
        return self.needs_text and self.text_field == "clip_text"

    @property
    def reads(self) -> tuple[str, ...]:
        """All that the choice depends on, in words."""
        features = ["features"] if self.reads_features else []
        text = [FIELDS[self.text_field].label] if self.needs_text else []
        fields = [field.label for name, field in FIELDS.items() if name in self.needs]
        return (*features, *text, *fields)

    @property
    def group(self) -> str:
        """What kind of choice it makes: a key of `GROUPS`."""
        if self.inside:
            return "inside"
        if self.merges:
            return "merging"
        return "before" if self.reads else "controls"

    @property
    def budget_is_average(self) -> bool:
        """Whether a budget is the mean over layers here; else it is what `counting_note` says."""
        return not self.counting_note

    def reason_against(
        self, supplies: Collection[str], layers: int | None = None, tower: int | None = None
    ) -> str | None:
        """Why the method cannot run on a model, in words that follow "…: "; None if it can.

        supplies: the optional fields of VisualTokens that the model can fill (`model.supplies`).
        layers: how many its language model has, 0 where it cannot be run one after the other, None
            to leave that open. `model.reason_against` gives all.
        tower: how many blocks its vision tower has, None to leave that open.
        """
        wanted = [self.text_field] if self.needs_text else []
        for field in (*wanted, *sorted(self.needs)):
            if field not in supplies:
                return missing_reason(field, supplies)
        return None if tower is None else too_few_blocks(self.blocks, tower)

    def check(self, tokens: VisualTokens) -> None:
        """Raise ValueError if the method needs text, another field, or more blocks of the tower
        than the tokens come with.
        """
        present = {field for field in self.needs if getattr(tokens, field, None) is not None}
        present.add(self.text_field)  # its absence has a sentence of its own
        if reason := self.reason_against(present, tower=tokens.tower_blocks):
            raise ValueError(f"The method {self.name!r} cannot run here: {reason}.")
        if self.reads_relevance:
            has_text = tokens.has_text
        else:
            has_text = getattr(tokens, self.text_field) is not None
        if self.needs_text and not has_text:
            instead = f" or use the method {self.text_free!r}" if self.text_free else ""
            raise ValueError(f"The method {self.name!r} needs text. Ask a question{instead}.")

    def lowest(self, n: int, depth: int) -> int:
        """The least budget it can meet of n tokens; ValueError for a model too shallow for it.

        depth: layers of the language model.
        """
        return 1

    def weight(self, tokens: VisualTokens) -> Tensor | None:
        """(n,) the text weight the choice uses for these tokens, or None where it uses none."""
        return None

    def factors(self, tokens: VisualTokens) -> tuple[Tensor, Tensor] | None:
        """What a greedy method multiplies each token's novelty u with: magnitude and text weight.

        Two (n,) float64 tensors >= 0, on the device of the features. u is the squared sine of the
        angle between a token and the span of those picked so far in its view (`greedy.py`); every
        pick is the largest u times both. None for a method that picks in another way.
        """
        return None

    @abstractmethod
    def select(self, tokens: VisualTokens, budget: int) -> Selection:
        """Which tokens the language model receives; ValueError for a method inside it."""

    @abstractmethod
    def plan(self, view: PlanInput, budget: int) -> LayerPlan:
        """Where tokens leave inside the language model; ValueError for a method before it."""

    def __post_init__(self) -> None:
        method: Any = self  # every method is a dataclass, which the type of this class cannot say
        for field in dataclasses.fields(method):
            choices = field.metadata.get("choices")
            value = getattr(self, field.name)
            problem = f"{field.name} of {type(self).__name__} cannot be {brief(value)}."
            if choices and value not in choices:
                raise ValueError(f"{problem} Choose one of: {', '.join(choices)}.")
            if field.metadata.get("limits"):
                low, high = field.metadata["limits"]
                whole = isinstance(low, int)
                number = isinstance(value, int if whole else int | float)
                if isinstance(value, bool) or not number or not low <= value <= high:
                    kind = "whole number" if whole else "number"
                    raise ValueError(f"{problem} Choose a {kind} from {low} to {high}.")
        for need in self.needs:
            if need not in FIELDS:
                raise ValueError(
                    f"The method {self.name!r} cannot need {brief(need)}. In its needs, name "
                    f"fields of: {', '.join(FIELDS)}."
                )
            if need in ("clip_text", "words") and not self.needs_text:
                raise ValueError(
                    f"The method {self.name!r} reads the question. In the place of {need!r} in its "
                    f'needs, write needs_text = True and text_field = "{need}".'
                )


class Pruner(Method):
    """Chooses which visual tokens of a picture the language model receives."""

    def select(self, tokens: VisualTokens, budget: int) -> Selection:
        """Pick `budget` distinct tokens (the total over views), in the order of preference.

        A method that merges makes `budget` rows; its `order` holds the tokens that they grew from.

        Raises ValueError if tokens are no VisualTokens, if budget is not a whole number from 1 to
        tokens.n, as `check`, and, naming the method, where its `_select` fails or keeps
        another number of tokens. The tokens are not modified.
        """
        if not isinstance(tokens, VisualTokens):
            raise ValueError(
                f"Visual tokens are needed, not {type(tokens).__name__}. Pass "
                "VisualTokens(features), or view.tokens of a model."
            )
        k = check_budget(budget, tokens.n)
        self.check(tokens)
        if not self.needs_text:  # such picks serve every question of a picture
            tokens = tokens.without_question()
        before = _state(tokens.features)
        problem = f"The method {self.name!r} was asked for {k} visual tokens and"
        with blamed_on(self, problem):
            with torch.no_grad(), cpu_by_default():
                selection = self._select(tokens, k)
            if isinstance(selection, Selection):
                selection.check(tokens.n)
        if _state(tokens.features) != before:  # others, and the model's answers, read them too
            raise ValueError(f"{problem} changed their features. Let its _select change a clone.")
        if not isinstance(selection, Selection):
            raise ValueError(f"{problem} its _select returned no Selection. Let it return one.")
        if selection.size != k and not (self.by_hand or self.sizes_itself):
            raise ValueError(f"{problem} kept {selection.size}. Let its _select return {k}.")
        return selection

    def plan(self, view: PlanInput, budget: int) -> LayerPlan:
        """Raises ValueError: it chooses before the language model, by `select`."""
        raise ValueError(
            f"The method {self.name!r} chooses before the language model and has no plan. Pass "
            "what its select(view.tokens, budget) returns to model.answer."
        )

    @abstractmethod
    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        """`select` with everything checked: 1 <= k <= n, and text where it is needed."""


@contextmanager
def blamed_on(method: Method, problem: str) -> Iterator[None]:
    """Raises an error of the block as a ValueError that names the method and the line.

    A ValueError always; any other error only of a method of another package, whose author would
    not find it in a log. Memory that runs out, and this package's own errors, pass through.

    problem: the sentence's beginning, which names the method.
    """
    try:
        yield
    except Exception as error:
        is_refusal = isinstance(error, ValueError)
        owners = (error,) if is_refusal else (error, method)
        ours = any(type(owner).__module__.startswith("spare_demo.") for owner in owners)
        if ours or is_out_of_memory(error):
            raise
        words = error if is_refusal else f"{type(error).__name__}: {error}"
        raise ValueError(f"{problem} failed{_line_of(method, error)}: {words}") from error


def _line_of(method: Method, error: Exception) -> str:
    """Where in the method's own file an error came from, in words; "" if from nowhere in it."""
    module = type(method).__module__
    frames = walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_globals["__name__"] == module]
    return f" in line {lines[-1]} of {module}" if lines else ""


def _state(matrix: Tensor) -> tuple[int, list[float]]:
    """What changes when it is written to: PyTorch's count, and in memory that NumPy writes to
    uncounted its first column."""
    writes = 0 if matrix.is_inference() else matrix._version
    return writes, matrix[:, 0].tolist() if matrix.is_cpu else []


Limits = tuple[int, int] | tuple[float, float]


def setting(default: Any, label: str, help: str, *, limits: Limits | None = None) -> Any:
    """A dataclass field that the page and the command line can show.

    default: a number; or a tuple of the words to choose from, the first of which is the default.
    limits: the smallest and the largest number, whole ones where only whole numbers are taken.
    Words and limits are enforced.
    """
    choices = default if isinstance(default, tuple) else ()
    value = choices[0] if choices else default
    metadata = {"label": label, "help": help, "choices": choices, "limits": limits}
    return dataclasses.field(default=value, metadata=metadata)


def by_setting(field: str, table: Mapping[Any, tuple[Any, ...]]) -> Any:
    """Class attributes that depend on a setting, one for each column of a table.

    field: the setting, or a property of the method. table: what it says -> a value per attribute.
    """

    def attribute(column: int) -> property:
        return property(lambda method: table[getattr(method, field)][column])

    return tuple(attribute(column) for column in range(len(next(iter(table.values())))))


def check_budget(budget: int, n: int) -> int:
    """The budget if it is a whole number from 1 to n, else ValueError."""
    try:
        whole = 0 if isinstance(budget, bool) else operator.index(budget)
    except TypeError:
        whole = 0
    if not 1 <= whole <= n:
        plain = isinstance(budget, str | int | float) and not isinstance(budget, bool)
        what = f"A budget of {brief(budget)} visual tokens" if plain else "This budget"
        raise ValueError(f"{what} is not possible. Choose a whole number from 1 to {n}.")
    return whole


def largest(values: Tensor, count: int) -> Tensor:
    """(count,) places of the largest of (n,) values, largest first; ties to the lower place."""
    return values.sort(descending=True, stable=True).indices[:count]
