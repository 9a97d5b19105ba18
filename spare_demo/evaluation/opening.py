"""Chooses the example that the page opens on: the largest disagreement that can be checked by eye.

    python -m spare_demo.evaluation.opening

asks the built-in model about every shipped example and writes the choice to
assets/examples/opening.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spare_demo.comparison.pipeline import encode, finish
from spare_demo.comparison.request import UNPRUNED, Request
from spare_demo.evaluation.grading import grade
from spare_demo.images.load import open_picture
from spare_demo.models import Model, load_model
from spare_demo.models.loading.catalogue import ASSETS, BUILT_IN
from spare_demo.scenes.asked import asked_in
from spare_demo.scenes.sets import read_signature
from spare_demo.scenes.world import COLOURS
from spare_demo.settings import Settings
from spare_demo.table import listed

EXAMPLES = ASSETS / "examples"
FILE = EXAMPLES / "opening.json"
BUDGETS = (16, 24, 32, 48, 64)
RULE = (
    "Of the shipped examples that ask for a printed word, a printed number or a colour, at budgets "
    f"of {listed(BUDGETS)} tokens: all tokens answer right, one method answers right and the "
    "other wrong; of these the largest difference in the probability of the right answer's first "
    "word, and of equal ones the smallest budget."
)


@dataclass(frozen=True)
class Case:
    """One example at one budget, with what both methods made of it.

    Attributes:
        picture: file name; question, budget: as asked.
        right: whether all tokens, the first and the second method answered right.
        shares: probabilities of the first word of the answer with all tokens, under each method.
    """

    picture: str
    question: str
    budget: int
    right: tuple[bool, ...]
    shares: tuple[float, ...]


def choose_opening(cases: Iterable[Case]) -> Case:
    """The case that `RULE` says.

    Raises ValueError, with a sentence to show, where no case fits it.
    """
    cases = list(cases)
    fitting = [case for case in cases if case.right[0] and case.right[1] != case.right[2]]
    if not fitting:
        raise ValueError(
            f"Of {len(cases)} cases tried, none has all tokens right, one method right and one "
            "wrong. Add an example or a budget."
        )
    return min(fitting, key=lambda case: (-abs(case.shares[0] - case.shares[1]), case.budget))


def try_examples(model: Model) -> Iterator[Case]:
    """Every example whose answer can be checked by eye, at each of `BUDGETS`, with the methods that
    the page starts with."""
    for row in json.loads((EXAMPLES / "examples.json").read_text(encoding="utf-8")):
        path = EXAMPLES / row["picture"]
        photo = open_picture(path)
        request = Request(photo, row["question"], Settings().methods, max_new_tokens=16)
        view = encode(model, request)
        asked = asked_in(
            read_signature(path, photo), photo, row["question"], view.grid.boxes.numpy()
        )
        if asked is None or not (asked.kind != "things" or asked.answer in COLOURS):
            continue
        for budget in BUDGETS:
            answers = finish(model, dataclasses.replace(request, budget=budget), view).answers
            token = answers[UNPRUNED].token_ids[0]
            right = tuple(grade(a.text, row["answer"]) is True for a in answers.values())
            shares = tuple(
                float(answer.first_probabilities[token])
                for label, answer in answers.items()
                if label != UNPRUNED
            )
            yield Case(row["picture"], row["question"], budget, right, shares)


def write_opening(case: Case, file: Path) -> None:
    """Write what the page opens on, with the rule that chose it."""
    asked = {"picture": case.picture, "question": case.question, "budget": case.budget}
    file.write_text(json.dumps(asked | {"rule": RULE}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Try all cases, print each, and write the choice."""
    argparse.ArgumentParser(
        prog="python -m spare_demo.evaluation.opening",
        description=f"Choose the example that the page opens on, and write {FILE.name}.",
    ).parse_args()
    cases = []
    for case in try_examples(load_model(BUILT_IN.name, "cpu")):
        cases.append(case)
        shares = " ".join(f"{share:.3f}" for share in case.shares)
        print(f"{case.picture} at {case.budget:>2}: right {case.right}, probabilities {shares}")
    opening = choose_opening(cases)
    write_opening(opening, FILE)
    print(f"{opening.picture} at {opening.budget}, of {len(cases)} cases. Written to {FILE}.")


if __name__ == "__main__":
    main()
