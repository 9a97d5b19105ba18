"""Other wordings of the questions, as people put them: in training, and held out from it.

A question is made in one wording, which its kind is recognised by, and reworded: as its kind can be
asked, with other names for an object, and politely, tersely or in lower case.
"""

from __future__ import annotations

import re

from spare_demo.scenes.question import pick
from spare_demo.scenes.world import Rng

_ONE, _OTHER, _SIDE = r"(?P<a>the .+?)", r"(?P<b>the .+)", r"(?P<s>left of|right of|above|below)"
# Of each kind: its pattern, wordings in training, and wordings held out. {a} and {b} are as the
# question has them; {an} is {a} with its article, or "any words"; {p} is a plural.
FORMS: tuple[tuple[str, str, str], ...] = (
    (
        rf"What colou?r is {_ONE}\?",
        "What colour is {a}? / What colour does {a} have? / Which colour is {a}? / Colour of {a}?"
        " / What is the colour of {a}? / Tell me the colour of {a}. / What colour do you see on"
        " {a}? / {a}, what colour is it?",
        "Which colour does {a} have? / Name the colour of {a}. / {a} is what colour?",
    ),
    (
        rf"What shape is {_ONE}\?",
        "What shape is {a}? / What shape does {a} have? / Which shape is {a}? / Shape of {a}?"
        " / What is the shape of {a}? / Name the shape of {a}. / What kind of shape is {a}?"
        " / What is {a}? / {a} is what shape?",
        "Tell me the shape of {a}. / Which shape does {a} have? / {a}, what shape is it?",
    ),
    (
        rf"(?:What|Which) number is on {_ONE}\?",
        "What number is on {a}? / Which number is on {a}? / What is the number on {a}? / What is"
        " written on {a}? / What number is written on {a}? / What number does {a} show? / What"
        " digit is on {a}? / Read the number on {a}. / What is printed on {a}? / What does {a}"
        " say? / Number on {a}? / Which number do you see on {a}? / What is on {a}?",
        "Which digit is written on {a}? / What number is printed on {a}? / Tell me the number on"
        " {a}. / What number can you see on {a}?",
    ),
    (
        rf"What word is on {_ONE}\?",
        "What word is on {a}? / What is written on {a}? / What is printed on {a}? / What text is"
        " on {a}? / What does {a} say? / Read the word on {a}. / Which word is written on {a}?"
        " / What is the word on {a}? / Text on {a}? / What is on {a}?",
        "What is the text on {a}? / Which word is printed on {a}? / Read the text on {a}. / Tell"
        " me the word on {a}.",
    ),
    (
        r"Is there a number (?P<a>\d)\?",
        "Is there a number {a}? / Do you see the number {a}? / Can you see a number {a}? / Is the"
        " number {a} in the picture? / Does the picture have a number {a}? / Is the number {a}"
        " there? / Is there the number {a}? / Does the picture show the number {a}?",
        "Can you see the number {a} in the picture? / Is a number {a} there? / Does the picture"
        " show a number {a}?",
    ),
    (
        r"Is there an? (?P<a>.+)\?",
        "Is there {an}? / Is there {an} in the picture? / Do you see {an}? / Are there any {p}?"
        " / Can you see {an}? / Does the picture have {an}? / Is {an} there? / Is there any {a}?"
        " / Do you see any {p} in the image?",
        "Are there any {p} in the picture? / Can you see any {p}? / Does the picture show {an}?"
        " / Is {an} in the picture?",
    ),
    (
        r"How many (?P<p>.+) are there\?",
        "How many {p} are there? / How many {p} do you see? / How many {p} can you see? / Count"
        " the {p}. / What is the number of {p}? / How many {p} are in the picture? / Number of"
        " {p}? / How many {p} does the picture have? / How many {p}?",
        "How many {p} can you count? / In the picture, how many {p} are there? / Tell me the number"
        " of {p}. / Can you count the {p}?",
    ),
    (
        rf"How many objects are {_SIDE} {_ONE}\?",
        "How many objects are {s} {a}? / How many objects lie {s} {a}? / How many objects do you"
        " see {s} {a}? / Count the objects {s} {a}. / What is the number of objects {s} {a}? / How"
        " many objects are there {s} {a}? / {s} {a}, how many objects are there?",
        "How many objects can you see {s} {a}? / Can you count the objects {s} {a}? / Tell me the"
        " number of objects {s} {a}.",
    ),
    (
        rf"Where is {_ONE}\?",
        "Where is {a}? / Where do you see {a}? / In which part of the picture is {a}? / Where in"
        " the picture is {a}? / Where can you see {a}? / Tell me where {a} is. / In what part of"
        " the image is {a}?",
        "Where does {a} lie? / In which part of the picture do you see {a}? / Where is {a}"
        " in the picture?",
    ),
    (
        rf"Is {_ONE} left or right of {_OTHER}\?",
        "Is {a} left or right of {b}? / Is {a} to the left or to the right of {b}? / Is {a} on the"
        " left or on the right of {b}? / On which side of {b} is {a}, left or right? / {a}: left or"
        " right of {b}? / Does {a} lie left or right of {b}? / Is {a} right or left of {b}?",
        "On what side of {b} is {a}, left or right? / Does {a} lie to the left or to the right of"
        " {b}? / Do you see {a} left or right of {b}?",
    ),
    (
        rf"Is {_ONE} above or below {_OTHER}\?",
        "Is {a} above or below {b}? / Is {a} over or under {b}? / Does {a} lie above or below {b}?"
        " / Is {a} below or above {b}? / {a}: above or below {b}? / Where is {a}, above or below"
        " {b}? / Do you see {a} above or below {b}?",
        "Does {a} lie below or above {b}? / Where do you see {a}, above or below {b}? / Can you see"
        " {a} above or below {b}?",
    ),
    (
        rf"Is {_ONE} in the (?P<b>left|top) or the (?P<s>right|bottom) half\?",
        "Is {a} in the {b} or the {s} half? / Is {a} in the {b} or {s} half of the picture? / In"
        " which half is {a}, {b} or {s}? / Which half is {a} in, {b} or {s}? / Is {a} in the {s} or"
        " the {b} half? / Does {a} lie in the {b} or the {s} half? / {a}: {b} or {s} half?",
        "In which half of the picture is {a}, {b} or {s}? / Does {a} lie in the {s} or the {b}"
        " half? / Where is {a}, in the {b} or the {s} half?",
    ),
    (
        r"What is the (?P<a>\w+) number\?",
        "What is the {a} number? / Which number is the {a}? / What is the {a} digit? / Read the {a}"
        " number. / Which is the {a} number? / Tell me the {a} number. / {a} number?",
        "Which digit is the {a}? / Which is the {a} digit? / Name the {a} number.",
    ),
    (
        r"What (?P<a>number) is shown\?",
        "What number is shown? / What number is in the picture? / Which number do you see? / What"
        " number is there? / Read the number. / What number is written in the picture? / Which"
        " number is printed? / What is the number?",
        "Which number is shown? / What number can you see? / Tell me the number.",
    ),
    (
        r"What (?P<a>word) is written\?",
        "What word is written? / What word is in the picture? / Which word do you see? / What word"
        " is there? / Read the word. / What does the word say? / Which word is printed? / What is"
        " the word? / What word is shown?",
        "Which word is written? / What word can you see? / Tell me the word.",
    ),
    (
        r"What is the sum of the numbers\?",
        "What is the sum of the numbers? / What do the numbers add up to? / Add up the numbers."
        " / What is the sum of all the numbers? / Sum of the numbers? / How much do the numbers add"
        " up to? / Add all the numbers.",
        "Add up all the numbers. / What do all the numbers add up to? / Tell me the sum of the"
        " numbers.",
    ),
    (
        rf"What is the number on {_ONE} plus the number on {_OTHER}\?",
        "What is the number on {a} plus the number on {b}? / What is the sum of the numbers on {a}"
        " and {b}? / Add the number on {a} to the number on {b}. / What do the numbers on {a} and"
        " {b} add up to? / Add up the numbers on {a} and {b}. / How much is the number on {a} plus"
        " the number on {b}?",
        "How much do the numbers on {a} and {b} add up to? / What is the sum of the number on {a}"
        " and the number on {b}?",
    ),
    (
        rf"Is {_ONE} {_SIDE} {_OTHER}\?",
        "Is {a} {s} {b}? / Does {a} lie {s} {b}? / Do you see {a} {s} {b}? / Is it true that {a} is"
        " {s} {b}? / Would you say {a} is {s} {b}? / {a} is {s} {b}, right?",
        "Is it right that {a} is {s} {b}? / Can you see {a} {s} {b}?",
    ),
    (
        rf"Is {_ONE} (?P<b>\w+)\?",
        "Is {a} {b}? / Is the colour of {a} {b}? / Does {a} have the colour {b}? / Would you say"
        " {a} is {b}? / Is it right that {a} is {b}? / {a} is {b}, right?",
        "Would you say that {a} is {b}? / Is {b} the colour of {a}? / Is it true that {a} is {b}?",
    ),
    (
        r"Describe the picture\.",
        "Describe the picture. / What is in the picture? / What do you see? / What can you see?"
        " / What objects are there? / Which objects are in the picture? / What does the picture"
        " show? / Name the objects in the image.",
        "What can you see in the picture? / What is there in the picture? / Which"
        " objects do you see?",
    ),
    (
        r"Which (?P<b>row|column) is (?P<a>.+) in\?",
        "Which {b} is {a} in?", "",
    ),
    (
        rf"How many objects are {_SIDE} (?P<a>(?:row|column) \d+)\?",
        "How many objects are {s} {a}?", "",
    ),
)  # fmt: skip
_AS_MADE = 0.3  # how often training asks a question as it was made
_OBJECTS = ("object", "thing", "shape", "symbol", "item")
_OTHER_WORDS = (
    (r"\bleft of\b", ("left of", "to the left of", "on the left of")),
    (r"\bright of\b", ("right of", "to the right of", "on the right of")),
    (r"\babove\b(?! or)", ("above", "over", "higher than")),
    (r"\bbelow\b(?! or)", ("below", "under", "lower than")),
    (r"\blargest\b", ("largest", "biggest")),
    (r"\btopmost (?=object)", ("topmost ", "uppermost ")),
    (r"\bwith the number (?=\d)", ("with the number ", "with number ", "that shows ")),
    (r"\bwith the word (?=[A-Z]{3})", ("with the word ", "that says ", "with the text ")),
    (r"\bpicture\b", ("picture", "image", "scene")),
)  # fmt: skip
_POLITE = (
    "Please tell me: {q}", "Can you tell me: {q}", "Hello, {q}", "{Q} Thank you.",
    "{Q} Please.", "I would like to know: {q}", "Could you help me? {Q}",
)  # fmt: skip
_POLITE_HELD_OUT = ("Could you tell me: {q}", "Please help me: {q}", "Hello. {Q} Thank you.")


def plural(words: str) -> str:
    """The plural of a name such as "red cross"."""
    return f"{words}es" if words.endswith("cross") else f"{words}s"


def _article(words: str) -> str:
    return f"an {words}" if words[0] in "aeio" else f"a {words}"


def _names(text: str, rng: Rng) -> str:
    """The question with one other name for an object throughout, and other words of place."""
    noun = pick(rng, _OBJECTS)
    for pattern, options in _OTHER_WORDS:
        text = re.sub(pattern, pick(rng, options), text)
    return re.sub(r"\bobject(s?)\b", rf"{noun}\1", text).replace("a item", "an item")


def style(text: str, rng: Rng, held_out: bool) -> str:
    """Plain, polite, terse or in lower case, in British or American spelling."""
    if rng.random() < 0.5:
        text = text.replace("olour", "olor")
    roll = rng.random()
    if roll < 0.15:
        polite = pick(rng, _POLITE_HELD_OUT if held_out else _POLITE)
        return str(polite.format(q=text[0].lower() + text[1:], Q=text))
    if roll < 0.25 and not re.match(r"(Is|Are|Do|Does|Can|Would) ", text):
        terse = re.sub(r"\b(the|an?|of the) (?!left|right)", "", text.rstrip("?."))
        return terse[0].upper() + terse[1:]
    return text.rstrip("?.").lower() if roll < 0.35 else text.lower() if roll < 0.45 else text


def wordings(text: str, held_out: bool = False) -> list[str]:
    """All forms that a question can be asked in, in training or held out from it.

    Raises:
        ValueError: a question of no kind in `FORMS`.
    """
    for pattern, *forms in FORMS:
        if match := re.fullmatch(pattern, text):
            slots = match.groupdict()
            if "a" in slots:
                slots |= {"an": _article(slots["a"]), "p": plural(slots["a"])}
            filled = [form.format(**slots) for form in forms[held_out].split(" / ") if form]
            return [form[0].upper() + form[1:] for form in filled]
    raise ValueError(f"There is no other wording of {text!r}. Add its kind to FORMS.")


def reword(text: str, rng: Rng, held_out: bool = False) -> str:
    """A question in other words that mean the same.

    Args:
        text: as `questions` and `practice` make it.
        held_out: whether in one of the wordings that training never uses.
    """
    if not held_out and rng.random() < _AS_MADE:
        return text
    return style(_names(pick(rng, wordings(text, held_out)), rng), rng, held_out)
