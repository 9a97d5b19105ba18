"""Which tokens the answer needs, by search: what can be reached by knowing the model.

Backward elimination: of the tokens still there, each is left out in turn, and the one is dropped
whose loss changes the first token's distribution least, as KL(all tokens || those left). While many
are left, a share of them is dropped at a time, because each trial is a prefill.

The search is greedy, so a better set may exist; and it reads the model's answer to this very
question, which no method may. It shows how few tokens can be enough; it is no proven bound, and at
some budgets a method comes below it (`benchmarks/oracle.py` counts where).
"""

from __future__ import annotations

import torch

from spare_demo.measures import kl_divergence
from spare_demo.models import Model, View
from spare_demo.tokens import Selection

ONE_BY_ONE = 64
"""From so many tokens on they are dropped one at a time."""
SHARE = 0.25
"""Of the tokens left, dropped at a time before."""
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
        losses = first_token_kl(model, view, [[i for i in left if i != out] for out in left])
        ranked = sorted(zip(losses, left, strict=True), key=lambda pair: (pair[0], -pair[1]))
        gone = [token for _, token in ranked[:count]]
        dropped += gone
        left = [token for token in left if token not in gone]
    return Selection([*left, *reversed(dropped)])  # type: ignore[arg-type]


def first_token_kl(model: Model, view: View, sets: list[list[int]]) -> list[float]:
    """KL of the first token, in nats, from all tokens to each set of kept ones."""
    full = model.answer_many([(view, None)], 1)[0].first_logits
    kl: list[float] = []
    for start in range(0, len(sets), _AT_ONCE):
        asked = [(view, Selection(kept)) for kept in sets[start : start + _AT_ONCE]]  # type: ignore[arg-type]
        logits = torch.stack([reply.first_logits for reply in model.answer_many(asked, 1)])
        kl += kl_divergence(full.expand_as(logits), logits).tolist()
    return kl
