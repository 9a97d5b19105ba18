"""How close methods come to the tokens that a search finds: KL of the first token, by budget.

    python benchmarks/oracle.py [--model built-in] [--device auto] [--budgets 16 32 64 128]
                                [--questions 6]

The example questions of the page, every method before the language model. The search
(`spare_demo/analysis/oracle.py`) knows the model's own answer; methods do not. Two minutes or so a
question on one core. What each row says: the mean over the questions, in nats, and in brackets at
how many of them the method came below the search, whose set is the best found and not proven best.
"""

from __future__ import annotations

import argparse
import json
import sys

import torch
from measuring import ROOT

sys.path.insert(0, str(ROOT))

from spare_demo.analysis.oracle import search
from spare_demo.measures import kl_divergence
from spare_demo.models import Model, View, load_model
from spare_demo.pruners import PRUNERS
from spare_demo.table import markdown_table

EXAMPLES = ROOT / "assets" / "examples"


def divergences(model: Model, view: View, budgets: list[int]) -> dict[str, list[float]]:
    """KL in nats at each budget, by method; the search under "search"."""
    found = search(model, view)
    able = {
        name: method
        for name, method in PRUNERS.items()
        if not method.inside and not model.reason_against(method)
    }
    selections = {"search": [found.prefix(k) for k in budgets]}
    for name, method in able.items():
        selections[name] = [method.select(view.tokens, k) for k in budgets]
    asked = [(view, kept) for sets in selections.values() for kept in sets]
    full, *replies = model.answer_many([(view, None), *asked], 1)
    logits = torch.stack([reply.first_logits for reply in replies])
    kl = kl_divergence(full.first_logits.expand_as(logits), logits).view(-1, len(budgets))
    return dict(zip(selections, kl.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
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
        cells = []
        for i in range(len(args.budgets)):
            below = sum(run[name][i] < run["search"][i] for run in runs)
            mean = sum(run[name][i] for run in runs) / len(runs)
            cells.append(f"{mean:.3f}" + (f" ({below})" if below else ""))
        rows.append((name, *cells))
    rows.sort(key=lambda row: float(row[-1].split()[0]))
    print(f"Mean KL in nats over {len(runs)} questions, model {model.name}.\n")
    print(markdown_table(("method", *map(str, args.budgets)), rows))


if __name__ == "__main__":
    main()
