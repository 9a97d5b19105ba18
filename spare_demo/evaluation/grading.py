"""Whether an answer is right. No model judges: the words are the right ones, or they are not.

A free answer is right if it equals one of the right answers, whatever the case of its letters,
blanks around and between its words, quotes around it or a full stop at its end. That is for short
answers; long ones need a judge, which this is not. With choices it is right if it names the right
one, by letter ("B", "(b)", "B.", "B. blue") or by its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spare_demo.evaluation.sheets import LETTERS, SheetQuestion

_LETTER = re.compile(r"\(?([A-Za-z])(?:\)|[.:)].*)?", re.DOTALL)


def is_right(prediction: str, asked: SheetQuestion) -> bool:
    """Whether the prediction answers the question."""
    prediction_text = _plain(prediction)
    right = {_plain(answer) for answer in asked.answers}
    if not asked.choices:
        return prediction_text in right
    choices = [_plain(choice) for choice in asked.choices]
    if prediction_text in choices:
        return prediction_text in right
    letter = _LETTER.fullmatch(prediction.strip())
    if letter is None:
        return False
    place = LETTERS.index(letter[1].upper())
    return place < len(choices) and choices[place] in right


def grade(prediction: str, truth: str) -> bool | None:
    """Whether a free answer is the true one; None where it has more words, which needs a judge."""
    if is_right(prediction, SheetQuestion("", (truth,))):
        return True
    return None if len(prediction.split()) > len(truth.split()) else False


def grade_all(texts: Mapping[str, str], truth: str | None) -> dict[str, bool | None]:
    """Of each label's answer, `grade`; empty where the true one is not known."""
    return {} if truth is None else {label: grade(text, truth) for label, text in texts.items()}


def _plain(text: str) -> str:
    words = " ".join(text.split()).strip("\"'“”‘’ ")
    return words.removesuffix(".").rstrip().casefold()
