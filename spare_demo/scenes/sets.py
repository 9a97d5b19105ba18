"""The sets of scenes that are measured on: from streams that training never draws from, and always
in the same order, so that two runs ask the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spare_demo.scenes.practice import ask_in_held_out_wordings
from spare_demo.scenes.question import Question
from spare_demo.scenes.questions import ask
from spare_demo.scenes.world import Pairs, Rng, Scene, World, rng_of, sample_scene

SETS: dict[str, Pairs] = {
    "held-out": "seen",
    "unseen-pairs": "unseen",
    "held-out-wordings": "seen",
}
"""The sets that can be evaluated, and which pairs of colour or number and shape each holds."""

_PER_SCENE = 6  # a picture is looked at once, and few scenes allow many more different questions


@dataclass(frozen=True)
class Sample:
    """A scene with its questions; ``seed`` is its number in the set."""

    seed: int
    scene: Scene
    questions: tuple[Question, ...]


def ask_of(which: str, scene: Scene, rng: Rng, count: int) -> list[Question]:
    """Up to ``count`` different questions about a scene of a set; where it is measured on, none
    that offers a choice."""
    if which == "held-out-wordings":
        return ask_in_held_out_wordings(scene, rng, count)
    return ask(scene, rng, count, no_choices=which in SETS)


def samples(which: str, count: int) -> Iterator[Sample]:
    """The first ``count`` questions of a set, scene by scene; always the same ones.

    Raises:
        ValueError: a set that is not in `SETS`, or a count below 1.
    """
    if which not in SETS:
        raise ValueError(f"There is no set '{which}'. Choose one of: {', '.join(SETS)}.")
    if count < 1:
        raise ValueError("Ask for at least one question.")
    world, seed = World(pairs=SETS[which]), 0
    while count:
        rng = rng_of(which, seed)
        scene = sample_scene(world, rng)
        questions = tuple(ask_of(which, scene, rng, min(_PER_SCENE, count)))
        if questions:
            yield Sample(seed, scene, questions)
        count -= len(questions)
        seed += 1
