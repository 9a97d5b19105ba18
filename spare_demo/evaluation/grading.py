"""Whether an answer is right. No model judges: the words are the right ones, or they are not.

A free answer is right if it equals one of the right answers, whatever the case of its letters,
blanks around and between its words, quotes around it or a full stop at its end. That is for short
answers; long ones need a judge, which this is not. With choices it is right if it names the right
one, by letter (B, (b), B., B. blue) or by its text. Either may be in quotes, or begin in Markdown's
bold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spare_demo.evaluation.sheets import LETTERS, SheetQuestion
from spare_demo.scenes.practice import CANNOT_TELL

_YES_NO = ("yes", "no")
_QUOTES = "\"'“”‘’"
_QUOTED = re.compile(rf"\s*[{_QUOTES}](.+)[{_QUOTES}]\.?\s*", re.DOTALL)
_LETTER = re.compile(r"\(?([A-Za-z])(?:\)|[.:)].*)?", re.DOTALL)
_BOLD = re.compile(r"\s*\*\*(.+?)\*\*", re.DOTALL)


def is_right(prediction: str, asked: SheetQuestion) -> bool:
    """Whether the prediction answers the question."""
    if bold := _BOLD.match(prediction):  # a star alone can belong to the answer: "A*"
        prediction = bold[1] + prediction[bold.end() :]
    if quoted := _QUOTED.fullmatch(prediction):
        prediction = quoted[1]
    prediction_text = _plain(prediction)
    right = {_plain(answer) for answer in asked.answers}
    choices = [_plain(choice) for choice in asked.choices]
    letter = _LETTER.fullmatch(prediction.strip())
    place = LETTERS.index(letter[1].upper()) if letter else len(choices)
    # The letter was asked for, so "A" is the first choice also where another one's text is "A".
    if place < len(choices) and (len(prediction_text) == 1 or prediction_text not in choices):
        return choices[place] in right
    return prediction_text in right


def grade(prediction: str, truth: str) -> bool | None:
    """Whether a free answer is the true one; None where that needs a judge, or it declines.

    A judge is for an answer with more words than the true one, unless these are surely others: a
    word of the true one is missing, or another number, or "no" for "yes", comes first.
    """
    if is_right(prediction, SheetQuestion("", (truth,))):
        return True
    words, true_words = _words(prediction), _words(truth)
    if len(words) <= len(true_words):
        return False
    if words[:3] == _words(CANNOT_TELL):
        return None
    true = _plain(truth)
    if true.isdigit() or true in _YES_NO:  # these can be said in other words too
        other = words[0] != true and (words[0].isdigit() or words[0] in _YES_NO)
        return False if other else None
    return None if set(true_words) <= set(words) else False


def grade_all(texts: Mapping[str, str], truth: str | None) -> dict[str, bool | None]:
    """Of each label's answer, `grade`; empty where the true one is not known."""
    return {} if truth is None else {label: grade(text, truth) for label, text in texts.items()}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _plain(text: str) -> str:
    words = " ".join(text.split())
    if words.endswith(tuple(f"{quote}." for quote in _QUOTES)):  # the stop behind them
        words = words.removesuffix(".")
    # An answer that is a mark alone stays one: nothing was not said in its place.
    words = words.strip(f"{_QUOTES} ") or words
    return (words.removesuffix(".").rstrip() or words).casefold()
