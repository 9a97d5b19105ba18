"""Which token carries the answer: each kept token is left out in turn.

Measured is how likely the answer's own words are without the token (teacher forcing), and what the
model answers then. Nothing is sampled. Tokens that say the same cover for each other: where none
carries the answer, several may carry it together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spare_demo.analysis.first_words import share_text
from spare_demo.models import Answer, Model, View
from spare_demo.models.generate.rows import kept_rows
from spare_demo.table import shortened, with_full_stop
from spare_demo.tokens import Positions, Selection

_AT_ONCE = 8  # sets in a batch: large enough to gain, small enough to be stopped soon


@dataclass(frozen=True)
class Removal:
    """What happens without one row.

    Attributes:
        token: the patch; of a merged row the one that gave most to it, None where none did.
        log_loss: log probability of the answer's words with all rows minus that without this one,
            in nats: positive where the answer becomes less likely.
        answer: what the model says then.
    """

    token: int | None
    log_loss: float
    answer: str


@dataclass(frozen=True)
class LeaveOneOut:
    """What is known so far.

    Attributes:
        answer: with all rows.
        log_probability: of its words, the token that ends it left out, in nats.
        rows: how many there are to leave out.
        merged: whether they are mixed from several patches.
        removals: in the order of the rows, raster order; at most `rows`.
    """

    answer: str
    log_probability: float
    rows: int
    merged: bool
    removals: tuple[Removal, ...] = ()

    @property
    def done(self) -> bool:
        return len(self.removals) == self.rows

    @property
    def turning(self) -> tuple[Removal, ...]:
        """The removals that turn the answer into another one."""
        return tuple(removal for removal in self.removals if removal.answer != self.answer)

    @property
    def carrier(self) -> Removal:
        """Of those that turn the answer, the removal that costs it most; of all where none does."""
        return max(self.turning or self.removals, key=lambda removal: removal.log_loss)

    def sentence(self, title: str, where: Callable[[int], str]) -> str:
        """What was found, in words. title: the method's. where: a patch -> its place in words."""
        noun = f"{self.rows} {'merged rows' if self.merged else 'tokens'}"
        if not self.done:
            return f"{title}: {len(self.removals)} of {noun} left out …"
        carrier, answer = self.carrier, _quoted(self.answer)
        before, now = (
            share_text(math.exp(value), decimals=3)
            for value in (self.log_probability, self.log_probability - carrier.log_loss)
        )
        shares = f"probability of {_quoted(shortened(self.answer, 40))} {before} → {now}"
        row = self._row_text(carrier, where)
        if self.turning:
            others = len(self.turning) - 1
            also = {0: "no other", 1: "1 other"}.get(others, f"{others} others")
            return (
                f"{title}: without {row} the answer changes from {answer} to "
                f"{_quoted(carrier.answer)} ({shares}). Of its {noun}, {also} would change it "
                "alone."
            )
        kept = f"{title}: no single one of its {noun} carries the answer: whichever is left out, "
        kept += f"it stays {answer}"
        if carrier.log_loss <= 0:
            return f"{kept}, and none makes it less likely."
        return f"{with_full_stop(kept)} The largest loss is without {row} ({shares})."

    def _row_text(self, removal: Removal, where: Callable[[int], str]) -> str:
        if removal.token is None:
            return "the row that holds no patch"
        patch = f"the patch in {where(removal.token)}"
        return f"the merged row whose largest part is {patch}" if self.merged else patch


def leave_one_out(
    model: Model,
    view: View,
    selection: Selection,
    answer: Answer,
    max_new_tokens: int,
    positions: Positions | None = None,
) -> Iterator[LeaveOneOut]:
    """Leave out every row of a selection by itself; yields what is known after each batch of rows.

    selection: the tokens kept before the language model, or merged rows.
    answer: the finished one from this selection, with the same `max_new_tokens` and `positions`.

    Raises ValueError for a single row, an answer without a token, or a selection that does not fit.
    """
    if selection.size < 2:
        raise ValueError(
            "With one token kept there is nothing left without it. Choose a budget of 2 or more."
        )
    if not answer.token_ids:
        raise ValueError("The answer has no words to lose. Ask another question.")
    kept_rows(view.picture, selection)  # refuses merged rows that a file has left without features
    sets, ids = _without_each(selection), answer.token_ids
    words = answer.word_count
    result = LeaveOneOut(answer.text, math.nan, len(sets), selection.merged)
    for start in range(0, len(sets), _AT_ONCE):
        part = sets[start : start + _AT_ONCE]
        # All rows run with the first of them, so that the arithmetic is the same.
        asked = [(view, selection)] * (start == 0) + [(view, without) for _, without in part]
        scores = model.score_many(asked, ids, positions)
        sums = [math.fsum(score.log_probabilities[:words]) for score in scores]
        if start == 0:
            result = dataclasses.replace(result, log_probability=sums[0])
            scores, sums, asked = scores[1:], sums[1:], asked[1:]
        turned = [i for i, score in enumerate(scores) if not score.by_itself]
        others = [asked[i] for i in turned]
        replies = model.answer_many(others, max_new_tokens, positions) if turned else []
        texts = {i: reply.text for i, reply in zip(turned, replies, strict=True)}
        removals = tuple(
            Removal(token, result.log_probability - total, texts.get(i, answer.text))
            for i, ((token, _), total) in enumerate(zip(part, sums, strict=True))
        )
        result = dataclasses.replace(result, removals=result.removals + removals)
        yield result


def _without_each(selection: Selection) -> list[tuple[int | None, Selection]]:
    """Each row's patch, and the selection without that row, in the order of the rows."""
    kept, features, sources = selection.kept, selection.features, selection.sources
    if features is None:
        return [
            (int(token), Selection(selection.order[selection.order != token])) for token in kept
        ]
    row_tokens = selection.row_tokens
    sets: list[tuple[int | None, Selection]] = []
    for row in range(len(features)):
        stays = [i for i in range(len(features)) if i != row]
        token, picks, shares = None, selection.order, None
        if sources is not None and row_tokens is not None:
            shares, largest = sources[stays], int(row_tokens[row])
            token = largest if sources[row, largest] > 0 else None
        elif len(kept) == len(features):  # each row stands at its own pick's place
            token, picks = int(kept[row]), kept[stays]
        bias = None if selection.bias is None else selection.bias[stays]
        sets.append((token, Selection(picks, features=features[stays], sources=shares, bias=bias)))
    return sets


def _quoted(text: str) -> str:
    return f"“{text}”" if text else "no words"
