"""The settings of a comparison as the query part of an address, and back.

    ?a=spare&b=cdpruner&k=32&q=What+number+…&scene=wide-1025.png&seed=0&model=built-in@1a2b3c

Only settings travel, and the name of one of the shipped examples: never a visitor's picture, nor
anything that says which it was. Whoever reads one back may have another version of the program, so
every part is judged by itself: what holds is used, and what does not is named in a sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import urlencode

from spare_demo.images.geometry import Aspect
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.options import read_method
from spare_demo.relevance import RelevanceOptions, TextPieces

MOST_CHARACTERS = 8_000
"""Longer addresses are cut off on their way by some servers."""

Views = Literal["shares", "together"]
"""Whether each view of a picture gets an equal share of the budget, or it is spent over all."""


@dataclass(frozen=True)
class State:
    """What a link holds; None for what it leaves to the page.

    Attributes:
        method_a, method_b: names of the table, with their settings as `read_method` reads them.
        budget: tokens kept, >= 1.
        question: as asked, not blank.
        example: name of a shipped example's picture.
        seed: of methods that draw at random.
        aspect: how the picture was fitted.
        relevance_layer, relevance_text: see `RelevanceOptions`.
        views: how several views of a picture get the budget, "shares" or "together".
        depth: the layer of the language model looked at, from 1; the page's script sets it.
        model: "name@revision" of the model that ran.
    """

    method_a: str | None = None
    method_b: str | None = None
    budget: int | None = None
    question: str | None = None
    example: str | None = None
    seed: int | None = None
    aspect: Aspect | None = None
    relevance_layer: int | None = None
    relevance_text: TextPieces | None = None
    views: Views | None = None
    depth: int | None = None
    model: str | None = None


_KEYS = {
    "a": "method_a",
    "b": "method_b",
    "k": "budget",
    "q": "question",
    "scene": "example",
    "seed": "seed",
    "fit": "aspect",
    "layer": "relevance_layer",
    "text": "relevance_text",
    "views": "views",
    "depth": "depth",
    "model": "model",
}


def encode(state: State) -> str:
    """The query part, without "?". What is None is left out."""
    values = dataclasses.asdict(state)
    told = {key: values[name] for key, name in _KEYS.items() if values[name] is not None}
    return urlencode(told)


def decode(
    query: Mapping[str, str],
    *,
    tokens: int,
    layers: int | None = None,
    question: Callable[[str], str] = str.strip,
    examples: Collection[str] = (),
    aspects: Collection[str] = get_args(Aspect),
    views: Collection[str] = get_args(Views),
    model: str | None = None,
) -> tuple[State, list[str]]:
    """A query's keys and values -> what holds here, and what is stale, in sentences.

    Args:
        query: keys that are not a link's (a Space adds some) and empty values do not count.
        tokens: visual tokens of a picture here, the largest budget.
        layers: of the language model; None to take any.
        question: makes a question fit or raises ValueError with a sentence, as
            `Settings.check_question`.
        examples, aspects, views: the names there are here.
        model: "name@revision" of the model that runs; None to say nothing of another one.
    """
    given = {_KEYS[key]: value for key, value in query.items() if key in _KEYS and value}
    found: dict[str, Any] = {}
    stale: list[str] = []

    def take(name: str, read: Callable[[str], Any], sentence: str) -> None:
        if name not in given:
            return
        try:
            found[name] = read(given[name])
        except ValueError:
            stale.append(sentence.format(_shown(given[name])))

    for slot, name in (("A", "method_a"), ("B", "method_b")):
        take(
            name,
            _method,
            f"{slot}: there is no method {{}} here, or not with these settings; the page's own is "
            "set.",
        )
    take(
        "budget", _whole(1, tokens), f"A budget of {{}} does not fit this model's {tokens} tokens."
    )
    take("seed", _whole(0, 2**32 - 1), "The seed {} is not a whole number this page takes.")
    take("example", _one_of(examples), "The example {} is not among this page's; choose another.")
    take("aspect", _one_of(aspects), "This model cannot fit a picture by {}.")
    take("relevance_layer", _layer, "Relevance cannot be read from layer {}.")
    take("relevance_text", _one_of(get_args(TextPieces)), "Relevance cannot read the text by {}.")
    take("views", _one_of(views), "A budget cannot be shared by {} among this model's views.")
    take(
        "depth",
        _whole(1, 10**6 if layers is None else layers),
        "This language model has no layer {}; its last one is shown.",
    )
    if "question" in given:
        try:
            found["question"] = question(given["question"]) or None
        except ValueError as error:
            stale.append(str(error))
    if "model" in given:
        found["model"] = given["model"]
        if model is not None and given["model"] != model:
            stale.append(
                f"The link was made with the model {_shown(given['model'])}; this is {model}, so "
                "picks and answers may differ."
            )
    return State(**found), stale


def _method(text: str) -> str:
    read_method(text, PRUNERS)
    return text


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise ValueError
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return read


def _layer(text: str) -> int:
    return RelevanceOptions({"-1": -1, "-2": -2}.get(text, 0)).layer


def _shown(text: str) -> str:
    """A stranger's words, short enough to be shown in a sentence."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return repr(plain if len(plain) <= 40 else plain[:39] + "…")
