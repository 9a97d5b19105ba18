"""How close methods come to the best tokens that are known: KL of the first token, by budget.

    python benchmarks/oracle.py [--model built-in] [--device auto] [--budgets 16 32 64 128]
                                [--questions 6]

The example questions of the page, every method before the language model. Each row is the mean
over the questions, in nats. The row "search" is backward elimination: of the tokens still there,
each is left out in turn, and the one is dropped whose loss changes the first token's distribution
least, as KL(all tokens || those left). While many are left, a share of them is dropped at a time,
because each trial is a prefill. It knows the model's own answer to this very question; methods do
not.

The elimination is greedy, and at some budgets a method comes below it. The row "oracle" is the best
of all rows at each question and budget, further improved by exchanging tokens: none of them can
come below it, though a set that nobody tried may. About ten minutes a question on one busy core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import torch
from measuring import ROOT

from spare_demo.measures import kl_divergence
from spare_demo.models import Model, View, load_model
from spare_demo.pruners import PRUNERS
from spare_demo.table import markdown_table
from spare_demo.tokens import Selection

EXAMPLES = ROOT / "assets" / "examples"

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


def divergences(model: Model, view: View, budgets: list[int]) -> dict[str, list[float]]:
    """KL in nats at each budget, by method; beside them "oracle" and "search"."""
    found = search(model, view)
    selections = {"search": [found.prefix(k) for k in budgets]}
    for name, method in PRUNERS.items():
        if not method.inside and not model.reason_against(method):
            selections[name] = [method.select(view.tokens, k) for k in budgets]
    kl = {name: first_token_kl(model, view, sets) for name, sets in selections.items()}
    best = []
    for i in range(len(budgets)):
        sets, losses = [s[i] for s in selections.values()], [values[i] for values in kl.values()]
        best.append(bound(model, view, sets, losses)[1])
    return {"oracle": best, **kl}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--budgets", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--questions", type=int, default=6, help="how many of the examples")
    args = parser.parse_args()
    model = load_model(args.model, args.device)
    runs = []
    examples = json.loads((EXAMPLES / "examples.json").read_text(encoding="utf-8"))
    for example in examples[: args.questions]:
        view = model.encode(EXAMPLES / example["picture"], example["question"])
        runs.append(divergences(model, view, args.budgets))
        print(f"{len(runs)}: {example['question']}", file=sys.stderr)
    rows = []
    for name in runs[0]:
        columns = zip(*(run[name] for run in runs), strict=True)
        rows.append((name, *(f"{sum(column) / len(runs):.3f}" for column in columns)))
    rows.sort(key=lambda row: float(row[-1]))
    print(f"Mean KL in nats over {len(runs)} questions, model {model.name}.\n")
    print(markdown_table(("method", *map(str, args.budgets)), rows))


if __name__ == "__main__":
    main()
