"""How few tokens are enough: from which budget on the answer stays the unpruned one.

The answer can change more than once as the budget grows: it may be the unpruned one at 24 and at 40
tokens and another one at 32. So nothing is claimed about budgets that were not tried. The result is
the smallest budget tried such that the answer was the unpruned one there and at every larger budget
tried. It is sharp: one token fewer was tried too and gave another answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spare_demo.models import Answer, Model, View
from spare_demo.table import counted, listed, with_full_stop
from spare_demo.tokens import Positions, Selection


@dataclass(frozen=True)
class Trial:
    """The answer at one budget, and whether its text is the unpruned one."""

    budget: int
    text: str
    same: bool


@dataclass(frozen=True)
class Sufficiency:
    """What is known so far.

    trials: by budget, ascending; the last is n, which is the unpruned answer itself.
    left: how many more budgets are about to be tried.
    """

    trials: tuple[Trial, ...]
    left: int = 0

    @property
    def smallest(self) -> int:
        """The smallest budget tried from which on all budgets tried gave the unpruned answer."""
        budget = self.trials[-1].budget
        for trial in reversed(self.trials):
            if not trial.same:
                break
            budget = trial.budget
        return budget

    @property
    def below(self) -> int:
        """The largest budget tried at which the answer was another; 0 if at none."""
        return max((trial.budget for trial in self.trials if not trial.same), default=0)

    @property
    def done(self) -> bool:
        """Whether the budget just below `smallest` has been tried, or there is none."""
        return not self.left and self.smallest - self.below <= 1

    @property
    def returns(self) -> tuple[int, ...]:
        """Budgets below `smallest` that gave the unpruned answer all the same, ascending."""
        return tuple(t.budget for t in self.trials if t.same and t.budget < self.smallest)

    def sentence(self, title: str) -> str:
        """What was found, in words. title: the method's."""
        if not self.done:
            more = f", {self.left} more under way" if self.left else ""
            return f"{title}: {counted(len(self.trials), 'budget')} tried{more} …"
        answer = _quoted(self.trials[-1].text)
        above = [trial for trial in self.trials if trial.budget >= self.smallest]
        n = self.trials[-1].budget
        start = (
            f"{title}: the answer is {answer} {'' if self.returns else 'only '}with all {n} tokens"
            if self.smallest == n
            else f"{title}: with {self.smallest} or more of {n} tokens the answer stays {answer}, "
            f"as with all tokens, at each of the {len(above)} budgets tried"
        )
        if not self.below:
            return with_full_stop(start)
        other = next(trial.text for trial in self.trials if trial.budget == self.below)
        ending = with_full_stop(f"{start}; with {self.below} it is {_quoted(other)}")
        if self.returns:
            ending += f" Below that it returns at {listed(self.returns)}."
        return ending + " Budgets that were not tried may differ."


def find_sufficient(
    model: Model,
    view: View,
    orders: Mapping[str, Selection],
    whole: Answer,
    max_new_tokens: int,
    positions: Positions | None = None,
    known_answers: Mapping[str, Mapping[int, Answer]] | None = None,
) -> Iterator[dict[str, Sufficiency]]:
    """Try budgets along nested orders: powers of two, then bisection.

    Answers are decoded together: those at the largest power of two, then those at all smaller ones,
    which have fewer visual tokens in all, then one of each order at a time.

    orders: by label, all n picks of a method whose budgets are nested, first pick first.
    whole: the answer with all tokens, made with the same `max_new_tokens` and `positions`.
    known_answers: answers of these picks that are there already, by label and budget.

    Yields what is known, at first and after every pass, also where no answer has ended; of the last
    one all are `done`.
    """
    n, known = view.tokens.n, known_answers or {}
    answers = {label: {**known.get(label, {}), n: whole} for label in orders}
    powers = [2**e for e in range(n.bit_length(), -1, -1) if 2**e < n]
    left: dict[tuple[str, int], Selection] = {}

    def add(label: str, budgets: Sequence[int]) -> None:
        new = (k for k in budgets if k not in answers[label])
        left.update(((label, k), orders[label].prefix(k)) for k in new)

    def results() -> dict[str, Sufficiency]:
        waiting = Counter(label for label, _ in left)
        return {
            label: Sufficiency(
                tuple(Trial(k, a.text, a.text == whole.text) for k, a in sorted(tried.items())),
                waiting[label],
            )
            for label, tried in answers.items()
        }

    def ask(selections: dict[tuple[str, int], Selection]) -> Iterator[dict[str, Sufficiency]]:
        yield results()
        for pieces in model.stream_together(view, selections, max_new_tokens, positions):
            for (label, k), piece in pieces.items():
                if not isinstance(piece, str):
                    answers[label][k] = piece
                    del left[label, k]
            yield results()

    for label in orders:
        add(label, powers)
    yield from ask({(label, k): picks for (label, k), picks in left.items() if k == powers[0]})
    yield from ask(dict(left))
    while open_results := {label: r for label, r in results().items() if not r.done}:
        for label, result in open_results.items():
            add(label, [(result.below + result.smallest) // 2])
        yield from ask(dict(left))


def _quoted(text: str) -> str:
    return f"“{text}”" if text else "empty"
