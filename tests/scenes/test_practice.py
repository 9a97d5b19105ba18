"""What training asks besides what is measured, worked out again from the scene."""

from __future__ import annotations

import re
from collections import Counter

from spare_demo.scenes import practice, questions
from spare_demo.scenes.practice import ADDED, CANNOT_TELL, HARD, MADE_FOR
from spare_demo.scenes.questions import Question, plural
from spare_demo.scenes.sets import samples
from spare_demo.scenes.world import (
    COLOURS,
    HELD_OUT_COLOUR_SHAPE,
    SHAPES,
    Scene,
    Thing,
    World,
    rng_of,
    sample_scene,
)


def asked(seeds: int) -> list[tuple[Scene, Question]]:
    """Questions of the added kinds as they are made, before they are reworded."""
    found = []
    for seed in range(seeds):
        rng = rng_of("train", seed)
        scene = sample_scene(World(tint_share=0.2, blob_share=0.1), rng)
        found += [(scene, q) for q in questions.ask(scene, rng, 12, {**ADDED, **HARD})]
    return found


def named(scene: Scene, words: str) -> list[Thing]:
    """The things that "red star", "object with the number 3" and the like fit."""
    if match := re.fullmatch(r"(?:the )?object with the (?:number|word) (\w+)", words):
        return [t for t in scene.things if t.print == match[1]]
    parts = set(words.removeprefix("the ").split()) - {"object", "objects"}
    singular = {plural(shape): shape for shape in SHAPES} | {"numbers": "number", "words": "word"}
    parts = {singular.get(part, part) for part in parts}
    kinds = parts & {"number", "word"}
    return [
        t
        for t in scene.things
        if parts - kinds <= {t.colour, t.shape} and all(getattr(t, kind) for kind in kinds)
    ]


BEYOND = {
    "left of": lambda t: (-t.x, "x"), "right of": lambda t: (t.x, "x"),
    "above": lambda t: (-t.y, "y"), "below": lambda t: (t.y, "y"),
}  # fmt: skip


def test_answers_follow_from_the_scene() -> None:
    kinds: Counter[str] = Counter()
    for scene, question in asked(150):
        text, answer = question.text, question.answer
        if answer == CANNOT_TELL:
            match = re.search(r"(?:is|on) (the .+)\?", text)
            assert match
            things = named(scene, match[1])
            assert not things or ("is on" in text and [t.print for t in things] == [None]), text
            kinds["absent"] += 1
        elif match := re.fullmatch(r"Is (the .+) (left of|right of|above|below) (the .+)\?", text):
            (one,), (two,) = named(scene, match[1]), named(scene, match[3])
            further = BEYOND[match[2]](one)[0] > BEYOND[match[2]](two)[0]
            assert answer == ("yes" if further else "no"), text
            kinds["side"] += 1
        elif match := re.fullmatch(rf"Is (the .+) ({'|'.join(COLOURS)})\?", text):
            (thing,) = named(scene, match[1])
            assert answer == ("yes" if thing.colour == match[2] else "no"), text
            assert (match[2], thing.shape) not in HELD_OUT_COLOUR_SHAPE
            kinds["colour"] += 1
        elif match := re.fullmatch(r"Is there a (.+)\?", text):
            if answer != MADE_FOR:
                assert answer == ("yes" if named(scene, match[1]) else "no"), text
                kinds["exists"] += 1
        elif (match := re.fullmatch(r"How many (.+) are there\?", text)) and answer != MADE_FOR:
            assert answer == str(len(named(scene, match[1]))), text
            kinds["how many"] += 1
        elif match := re.fullmatch(r"Which (row|column) is (the .+) in\?", text):
            (thing,) = named(scene, match[2])
            at = thing.y if match[1] == "row" else thing.x
            assert answer == str(int(at // (scene.side / 24)))
            kinds["place"] += 1
        elif match := re.fullmatch(r"How many objects are (.+) (?:row|column) (\d+)\?", text):
            line = (int(match[2]) + 0.5) * scene.side / 24
            sides = [BEYOND[match[1]](thing)[0] for thing in scene.things]
            there = [at > (-line if match[1] in ("left of", "above") else line) for at in sides]
            assert answer == str(sum(there)), text
            kinds["beyond a line"] += 1
        elif text == "Describe the picture.":
            listed = [part.removesuffix(" and more") for part in answer.split(", ")]
            order = sorted(scene.things, key=lambda t: t.x)
            assert len(listed) == min(4, len(order)) and (len(order) > 4) == ("more" in answer)
            for words, thing in zip(listed, order, strict=False):
                assert thing in named(scene, words)
            kinds["describe"] += 1
        kinds["off topic"] += answer == MADE_FOR
    wanted = {"absent", "side", "colour", "exists", "how many", "place", "beyond a line",
              "describe", "off topic"}  # fmt: skip
    assert set(kinds) == wanted and min(kinds.values()) > 20, kinds


def test_yes_and_no_are_as_likely() -> None:
    counts: Counter[str] = Counter()
    for seed in range(300):
        rng = rng_of("train", seed)
        for question in practice.practise(sample_scene(World(), rng), rng, 16):
            counts[question.answer] += 1
    assert 0.45 < counts["yes"] / (counts["yes"] + counts["no"]) < 0.55
    assert counts[CANNOT_TELL] > 100 and counts[MADE_FOR] > 50


def test_nothing_kept_back_is_said_not_to_be_there() -> None:
    pairs = {f"{colour} {shape}" for colour, shape in HELD_OUT_COLOUR_SHAPE}
    for _, question in asked(200):
        there = re.sub(r"crosses\b", "cross", question.text)
        assert not [pair for pair in pairs if re.search(rf"\b{pair}s?\b", there)], question


def test_the_set_of_held_out_wordings_asks_of_everything() -> None:
    asked = [q for s in samples("held-out-wordings", 1200) for q in s.questions]
    counts = Counter(skill for q in asked for skill in q.skills)
    assert len(counts) == 6 and min(counts.values()) > 15, counts
    assert 60 < counts["absence"] < 200
    answers = Counter(q.answer for q in asked)
    assert answers.most_common(1)[0][1] < 0.2 * len(asked), answers.most_common(3)
