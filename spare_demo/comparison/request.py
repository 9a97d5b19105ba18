"""What is asked for, checked once: a picture, a question, methods by label, and a budget."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import Any, get_args

import numpy as np

from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source
from spare_demo.models import Model
from spare_demo.pruners import PRUNERS, LayerPlan, Method
from spare_demo.pruners.base import check_budget
from spare_demo.pruners.by_hand import PlanByHand, SetByHand
from spare_demo.pruners.options import (
    Changes,
    changes_of,
    check_settings,
    read_method,
    seeds_of,
    write_method,
)
from spare_demo.pruners.plan import Pruning
from spare_demo.relevance import GuidanceText, RelevanceOptions
from spare_demo.settings import check_characters
from spare_demo.tokens import Positions, Selection

UNPRUNED = "unpruned"
"""Label of the answer made with all visual tokens."""

LabelledMethods = dict[str, Method]
"""What is compared, by the label it carries on the page and in result.json."""
MethodsArgument = Sequence[str] | Mapping[str, Method | Pruning]
"""What can be given to compare: names of the table, or methods and sets by label."""


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """How a question is asked, whatever the picture, the methods and the budget.

    Attributes:
        max_new_tokens: longest answer.
        aspect: one of `model.aspects`, None for the first.
        relevance: where the text weight comes from.
        together: spend the budget over all views of the picture, instead of equal shares.
        positions: that kept tokens carry, one of `model.position_options`, None for the first.
    """

    max_new_tokens: int = 64
    aspect: Aspect | None = None
    relevance: RelevanceOptions = RelevanceOptions()
    together: bool = False
    positions: Positions | None = None


@dataclass(frozen=True, kw_only=True)
class RequestOptions(QuestionOptions):
    """How a question is asked of every method.

    Attributes, beside those of `QuestionOptions`:
        budget: visual tokens kept, or a share of them such as "10%"; of methods inside the
            language model the average over its layers, or what `counting_note` says.
        seed: for methods given by name that draw at random, 0 to 2^32 - 1.

    Raises:
        ValueError: with a sentence to show, for a number, a budget or an aspect that can be meant
            for no picture and no model.
    """

    budget: int | float | str = 64
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", read_seed(self.seed))
        check_any_budget(self.budget)
        longest = _python_int(self.max_new_tokens)
        if type(longest) is not int:
            raise ValueError(f"max_new_tokens must be a whole number, not {brief(longest)}.")
        if longest < 1:
            raise ValueError("max_new_tokens must be at least 1.")
        object.__setattr__(self, "max_new_tokens", longest)
        if not isinstance(self.together, bool | np.bool_):
            raise ValueError(f"together must be True or False, not {brief(self.together)}.")
        object.__setattr__(self, "together", bool(self.together))
        if not isinstance(self.relevance, RelevanceOptions):
            raise ValueError(
                "relevance must be spare_demo.relevance.RelevanceOptions, such as "
                'RelevanceOptions(guidance_text="words"). Leave it out for CLIP.'
            )
        if self.aspect not in (None, *get_args(Aspect)):
            raise ValueError(
                f"No model fits a picture by {brief(self.aspect)}. Leave aspect out, or choose one "
                f"of: {', '.join(get_args(Aspect))}."
            )

    def budget_of(self, n: int) -> int:
        """The budget as a number of a picture's n tokens, 1..n; ValueError for any other."""
        return read_budget(self.budget, n)

    def options(self, **changes: Any) -> RequestOptions:
        """The options alone, some of them changed."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(RequestOptions)}
        return RequestOptions(**(values | changes))


@dataclass(frozen=True, eq=False)
class Request(RequestOptions):
    """One question about one picture, for every method.

    Attributes, besides those of `RequestOptions`:
        image: anything `open_picture` takes.
        question: blank for none; methods that need text then run in their text-free form, or are
            refused if they have none.
        methods: names of the table, or {label: Method | Selection | LayerPlan} for settings, for
            one method twice, or for hand-made sets.
        labelled: the same as methods and sets by label; see `choose`.

    Raises:
        ValueError: also for an unknown method, and a question that is not text.
    """

    image: Source = field(repr=False)
    question: str = ""
    methods: MethodsArgument = ("spare", "cdpruner")
    labelled: LabelledMethods = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        question = check_characters("question", self.question)
        object.__setattr__(self, "question", question.strip())
        object.__setattr__(self, "labelled", choose(self.methods, self.seed))


def choose(
    pruners: MethodsArgument, seed: int = 0, changes: Changes | None = None
) -> LabelledMethods:
    """Names or ready-made methods and sets -> what to compare, by label.

    A name may say how the method is set: "divprune:metric=euclidean".

    A name's label is the name; a name given twice gets "spare" and "spare (2)". A method given by
    name takes `seed` if it draws at random and the name says none, and `changes` of its settings
    (`read_options` reads them); one given ready-made keeps its own.

    Raises ValueError for an unknown name (listing the known ones), a label that is taken or no
    text, changes of a method that is not among the names, no seed, or nothing at all.
    """
    seed = read_seed(seed)
    if isinstance(pruners, str):
        pruners = (pruners,)
    unused = [name for name in changes or {} if isinstance(pruners, Mapping) or name not in pruners]
    if unused:
        raise ValueError(
            f"{unused[0]!r} has settings but is not compared. Add it to the methods, or leave its "
            "settings out."
        )
    if not isinstance(pruners, Sequence | Mapping | None):  # an array of names has no truth value
        raise ValueError(
            f"Methods are a list of names or {{label: method}}, not {type(pruners).__name__}. Put "
            f"names into a list, of: {', '.join(PRUNERS)}."
        )
    if not pruners:
        raise ValueError(f"Choose at least one method: {', '.join(PRUNERS)}.")
    if isinstance(pruners, Mapping):
        if UNPRUNED in pruners:
            raise ValueError(f'The label "{UNPRUNED}" is the answer with all tokens. Use another.')
        return {label: _method_of(label, entry) for label, entry in pruners.items()}
    chosen: LabelledMethods = {}
    for name in pruners:
        method = read_method(name)
        if method.seeded and not seeds_of(name):
            method = dataclasses.replace(method, seed=seed)
        method = dataclasses.replace(method, **(changes or {}).get(name, {}))
        turn = sum(other == name for other in pruners[: len(chosen)]) + 1
        chosen[name if turn == 1 else f"{name} ({turn})"] = method
    return chosen


def able_methods(
    model: Model, n: int, budget: int, with_text: bool, guidance_text: GuidanceText = "clip"
) -> tuple[tuple[str, ...], dict[str, str]]:
    """All methods of the table that a model can run at a budget, and why it cannot run the others.

    Without a question a method that needs one would run as another of the table, so it is left out.

    n: visual tokens of the picture. budget: from 1 to n. with_text: whether there is a question.
    guidance_text: as of `RelevanceOptions`.

    Returns the names in the table's order, and a reason in words that follow "…: " by name.
    """
    names, reasons = [], {}
    for name, method in PRUNERS.items():
        reason = model.reason_against(method, guidance_text)
        if reason is None and method.needs_text and not with_text:
            reason = "it needs a question"
        if reason is None and budget < (least := method.lowest(n, model.layers)):
            reason = f"its schedule needs a budget of at least {least} of {n} tokens"
        if reason is None:
            names.append(name)
        else:
            reasons[name] = reason
    return tuple(names), reasons


def _method_of(label: object, entry: object) -> Method:
    """A method as it is; a set or a plan made by hand in the place of one."""
    if not isinstance(label, str):
        raise ValueError(f"A label must be text, and {brief(label)} is {type(label).__name__}.")
    check_characters("label", label)  # or no file could be written
    if isinstance(entry, Selection):
        return SetByHand(entry)
    if isinstance(entry, LayerPlan):
        return PlanByHand(entry)
    if isinstance(entry, Method):
        check_settings(entry)
        return entry
    if isinstance(entry, type):
        raise ValueError(f"{label!r} must be a method, not its class. Write {entry.__name__}().")
    raise ValueError(
        f"{label!r} must be a method, a Selection or a LayerPlan, not {type(entry).__name__}. "
        f"Methods are PRUNERS[name], with one of: {', '.join(PRUNERS)}."
    )


def name_of(method: Method) -> str:
    """The method's name with its settings where not the defaults, without a seed, for `choose`."""
    return write_method(method.name, changes_of(method))


def read_budget(value: object, n: int) -> int:
    """What a visitor typed or a slider sent -> a budget from 1 to n.

    Takes 32, 32.0, "32", and "10%" for that share of n, rounded, at least 1. Raises ValueError,
    with a sentence to show, for anything else.
    """
    if value is None or value == "":  # an empty box
        raise ValueError(f"Type a whole number from 1 to {n}.")
    if isinstance(value, str) and value.strip().endswith("%"):
        return _read_share(value, n)
    # `check_budget` refuses whatever is not a whole number, so the type need not be known here.
    return check_budget(_number(value), n)  # type: ignore[arg-type]


def _number(value: object) -> object:
    """A text or a float as the number that it is; anything else as it is."""
    number = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e9:
        number = int(number)
    return number


def check_any_budget(value: object) -> None:
    """ValueError, with a sentence to show, for a budget that no picture can meet."""
    try:
        read_budget(value, sys.maxsize)
    except ValueError:
        if isinstance(value, str) and "%" in value:
            raise  # of a share its own sentence
        raise ValueError(
            f"A budget of {brief(_number(value))} visual tokens is not possible. Choose a whole "
            'number of tokens above 0, or a share such as "12.5%".'
        ) from None


def read_seed(value: object) -> int:
    """What a number field sends -> a seed; empty is 0."""
    if value is None or value == "":
        return 0
    value = int(value) if isinstance(value, float) and value.is_integer() else _python_int(value)
    if type(value) is not int or not 0 <= value < 2**32:
        raise ValueError("The seed must be a whole number from 0 to 4294967295.")
    return value


def _python_int(value: object) -> object:
    """NumPy's whole numbers as Python's, which files can hold; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def _read_share(value: str, n: int) -> int:
    try:
        percent = float(value.strip()[:-1])
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise ValueError(
            f"A budget of {brief(value)} is not possible. Choose a share above 0% and up to 100%."
        )
    return max(1, round(n * percent / 100))
