"""How what is kept, and the answer, grow with the budget: the steps of a film."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from spare_demo.comparison.request import LabelledMethods
from spare_demo.comparison.selections import Exploration
from spare_demo.models import Model
from spare_demo.pruners import Method
from spare_demo.tokens import Positions, Selection


@dataclass(frozen=True, eq=False)
class Step:
    """What each label keeps at one budget, and the answers with that; none where not asked for."""

    budget: int
    kept: dict[str, Selection]
    answers: dict[str, str]


def growing_budgets(budget: int, marks: Collection[int]) -> tuple[int, ...]:
    """1, 2, 4, 8 … and the marks, as far as they are below `budget`, and `budget`; ascending."""
    doubled = {2**e for e in range(budget.bit_length())}
    return tuple(sorted({k for k in doubled | set(marks) if k < budget} | {budget}))


def labels_with_order(methods: LabelledMethods) -> list[str]:
    """The labels of methods that choose one set at each budget, in the order compared.

    Raises ValueError, with a sentence to show, where there is none.
    """
    reasons = {label: reason_without_order(method) for label, method in methods.items()}
    labels = [label for label, reason in reasons.items() if not reason]
    if not labels:
        why = " and ".join(sorted({*reasons.values()}))
        raise ValueError(
            f"There is no pick order to show: {why}. Choose a method that acts before the language "
            "model, such as SPARE."
        )
    return labels


def reason_without_order(method: Method) -> str:
    """Why a method has no pick order, as the end of a sentence; "" where it has one."""
    if method.inside:
        return "methods inside the language model choose layer by layer"
    return "a set made by hand has one size only" if method.by_hand else ""


def grow(
    model: Model | None,
    exploration: Exploration,
    labels: Sequence[str],
    budgets: Sequence[int],
    max_new_tokens: int,
    positions: Positions | None = None,
) -> Iterator[Step]:
    """What the labels keep at each budget, from 1 to n, and what the model then answers.

    model: None where it is not to be asked. labels: of `labels_with_order`. positions: as of
    `model.answer`.

    Raises ValueError for a budget out of range, or a model without a language model.
    """
    view = exploration.view
    for budget in budgets:
        every = exploration.selections(budget)
        kept = {label: every[label] for label in labels}
        answers: dict[str, str] = {}
        if model is not None:
            asked = [(view, s) for s in kept.values()]
            replies = model.answer_many(asked, max_new_tokens, positions)
            answers = {label: r.text for label, r in zip(kept, replies, strict=True)}
        yield Step(budget, kept, answers)
