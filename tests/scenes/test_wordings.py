"""Other wordings mean the same: every name, number and place of a question is in each of them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from spare_demo.scenes.practice import MADE_FOR, practise
from spare_demo.scenes.questions import ask, plural
from spare_demo.scenes.sets import sample_of, samples
from spare_demo.scenes.wordings import TEXTS, is_familiar, reword, wordings
from spare_demo.scenes.world import COLOURS, SHAPES, WORDS, World, rng_of, sample_scene

KINDS = TEXTS["kinds"]


def words_of(texts: list[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}


def test_every_kind_has_six_wordings_and_others_held_out() -> None:
    asked = [kind for kind in KINDS if kind["held_out"]]
    assert len(KINDS) - len(asked) == 2  # practice, which nobody asks
    for kind in asked:
        trained, held_out = kind["training"], kind["held_out"]
        assert len(set(trained)) == len(trained) >= 6, kind
        assert len(set(held_out)) == len(held_out) >= 2, kind
        assert not set(trained) & set(held_out), kind


def test_wordings_held_out_are_of_words_that_training_uses() -> None:
    trained, held_out = (
        words_of([form for kind in KINDS for form in kind[part]])
        for part in ("training", "held_out")
    )
    assert held_out <= trained


NAMES = (*COLOURS, *SHAPES, *(word.lower() for word in WORDS))


def names_in(text: str) -> Counter[str]:
    """Colours, shapes, words and numbers, without the noun "shape" and plurals."""
    text = text.lower().replace("crosses", "cross")
    found = re.findall(rf"\b({'|'.join(NAMES)})s?\b|\b(\d+)\b", text)
    return Counter(word or number for word, number in found)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_wording_names_what_the_question_names(held_out: bool) -> None:
    for seed in range(60):
        rng = rng_of("train", seed)
        for question in ask(sample_scene(World(), rng), rng, 12):
            text = reword(question.text, rng, held_out)
            assert names_in(text) == names_in(question.text), (question.text, text)
            counted = re.match(r"How many (objects|numbers)", question.text)
            assert not counted or re.search(
                r"objects|things|shapes|symbols|items|numbers", text.lower()
            )


def test_what_is_asked_for_is_in_every_wording() -> None:
    for held_out in (False, True):
        for text in wordings("What colour is the star on the left?", held_out):
            assert "olour" in text and "the star on the left" in text.replace("The", "the")
        for text in wordings("How many objects are left of the red cross?", held_out):
            assert re.search(r"ow many|ount|umber", text) and "eft of the red cross" in text
        assert all("?" in text or "." in text for text in wordings("Where is the star?", held_out))


def test_names_have_articles_and_plurals() -> None:
    texts = wordings("Is there a orange cross?")
    assert "Is there an orange cross?" in texts and "Are there any orange crosses?" in texts
    assert plural("blue star") == "blue stars"


def test_a_question_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="Add its kind"):
        wordings("Which is nicer?")


def bare(text: str) -> str:
    """The wording alone: without names of things, style and spelling."""
    text = re.sub(r"\b(object|thing|shape|symbol|item)(s?)\b", r"object\2", text.lower())
    text = re.sub(r"\b(image|scene)\b", "picture", text).replace("olor", "olour")
    return re.sub(r"[.?]", "", text)


def test_training_never_uses_a_wording_of_the_set_of_held_out_ones() -> None:
    asked = set()
    for seed in range(400):
        rng = rng_of("train", seed)
        asked |= {bare(q.text) for q in practise(sample_scene(World(), rng), rng, 12)}
    for form in ("name the colour of", "tell me the shape of", "can you count the", "does lie in"):
        assert not [text for text in asked if text.startswith(form)]
    held_out = {bare(q.text) for s in samples("held-out-wordings", 400) for q in s.questions}
    assert len(asked & held_out) == 0


def test_people_are_polite_terse_or_write_in_lower_case_and_american() -> None:
    texts = []
    for seed in range(120):
        rng = rng_of("train", seed)
        texts += [q.text for q in practise(sample_scene(World(), rng), rng, 12)]
    for share, pattern in ((0.05, r"[Pp]lease|Thank|Hello|[Cc]ould|[Cc]an you tell"),
                           (0.05, r"^[a-z]"), (0.04, "color"), (0.04, "colour"),
                           (0.03, r"^[^?.]*$")):  # fmt: skip
        assert sum(bool(re.search(pattern, text)) for text in texts) > share * len(texts), pattern
    assert len({text.lower() for text in texts}) > 0.6 * len(texts)


@pytest.mark.parametrize("split", ["held-out", "held-out-wordings"])
def test_what_is_asked_of_a_scene_is_familiar_however_it_is_put(split: str) -> None:
    asked = [q for seed in range(20) for q in sample_of(split, seed).questions]
    unfamiliar = [q.text for q in asked if q.answer != MADE_FOR and not is_familiar(q.text)]
    assert len(asked) > 50 and not unfamiliar
