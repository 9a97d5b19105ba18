"""Which tokens the answer needs, by search: what can be reached by knowing the model.

Backward elimination (`search`): of the tokens still there, each is left out in turn, and the one is
dropped whose loss changes the first token's distribution least, as KL(all tokens || those left).
While many are left, a share of them is dropped at a time, because each trial is a prefill.

The elimination is greedy, and at some budgets a method comes below it. `bound` therefore takes the
best of its set and of those that methods keep, and exchanges tokens of that while it helps. So no
set that was given to it can come below; of all sets it is no proven bound, for a better one may
exist that nothing here tried. Both read the model's answer to this very question, which no method
may.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spare_demo.measures import kl_divergence
from spare_demo.models import Model, View
from spare_demo.tokens import Selection

ONE_BY_ONE = 64
"""From so many tokens on they are dropped one at a time."""
SHARE = 0.25
"""Of the tokens left, dropped at a time before."""
EXCHANGES = 2
"""The most tokens that `bound` exchanges."""
_AT_ONCE = 32  # sets in a batch


def search(model: Model, view: View) -> Selection:
    """All n tokens of a view, those that the answer needs most first; prefixes are its sets.

    Of equal losses the higher index is dropped first. About 3 n prefills of up to n tokens.

    Raises:
        ValueError: a model without its language model.
    """
    left = list(range(view.tokens.n))
    dropped: list[int] = []
    while len(left) > 1:
        count = 1
        if len(left) > ONE_BY_ONE:
            count = min(len(left) - ONE_BY_ONE, max(1, int(SHARE * len(left))))
        losses = first_token_kl(model, view, [_without(left, out) for out in left])
        ranked = sorted(zip(losses, left, strict=True), key=lambda pair: (pair[0], -pair[1]))
        gone = [token for _, token in ranked[:count]]
        dropped += gone
        left = [token for token in left if token not in gone]
    return _set([*left, *reversed(dropped)])


def bound(
    model: Model, view: View, sets: Sequence[Selection], losses: Sequence[float]
) -> tuple[Selection, float]:
    """The set of least KL that is known of a size, and its KL: at most each of the losses.

    The best given set, or what became of the best one without merged rows by exchanges: the token
    whose loss costs least goes, and the one comes that helps most, while the KL falls, at most
    `EXCHANGES` times. About n prefills of k tokens each.

    Args:
        sets: of one size k, with merged rows or without.
        losses: of each set its KL, as `first_token_kl` gives it.

    Raises:
        ValueError: no set at all, or a model without its language model.
    """
    if not sets:
        raise ValueError("There is no set to start from. Give at least one.")
    known = list(zip(sets, losses, strict=True))
    plain = [pair for pair in known if not pair[0].merged]
    if plain:
        kept, least = min(plain, key=lambda pair: pair[1])
        for _ in range(EXCHANGES):
            exchanged, loss = _exchange(model, view, kept)
            if loss >= least:
                break
            kept, least = exchanged, loss
        known.append((kept, least))
    return min(known, key=lambda pair: pair[1])


def _exchange(model: Model, view: View, selection: Selection) -> tuple[Selection, float]:
    """The set after one exchange, which may have lost by it, and its KL."""
    kept = selection.order.tolist()
    others = [token for token in range(view.tokens.n) if token not in kept]
    if len(kept) > 1:
        losses = first_token_kl(model, view, [_without(kept, out) for out in kept])
        gone = kept[losses.index(min(losses))]
    else:
        (gone,) = kept
    candidates = [_set([*(i for i in kept if i != gone), token]) for token in [gone, *others]]
    losses = first_token_kl(model, view, candidates)
    best = losses.index(min(losses))
    return candidates[best], losses[best]


def first_token_kl(model: Model, view: View, sets: Sequence[Selection]) -> list[float]:
    """KL of the first token, in nats, from all tokens to each set of kept ones."""
    full = model.answer_many([(view, None)], 1)[0].first_logits
    kl: list[float] = []
    for start in range(0, len(sets), _AT_ONCE):
        asked = [(view, kept) for kept in sets[start : start + _AT_ONCE]]
        logits = torch.stack([reply.first_logits for reply in model.answer_many(asked, 1)])
        kl += kl_divergence(full.expand_as(logits), logits).tolist()
    return kl


def _without(tokens: list[int], out: int) -> Selection:
    return _set([token for token in tokens if token != out])


def _set(tokens: list[int]) -> Selection:
    return Selection(torch.tensor(tokens))
