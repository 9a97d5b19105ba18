"""How close methods come to the best tokens that are known: KL of the first token, by budget.

    python benchmarks/oracle.py [--model built-in] [--device auto] [--budgets 16 32 64 128]
                                [--questions 6]

The example questions of the page, every method before the language model. Each row is the mean
over the questions, in nats. The row "search" is the elimination of `spare_demo/analysis/oracle.py`,
which knows the model's own answer; methods do not. The row "oracle" is the best of all rows at each
question and budget, further improved by exchanging tokens: none of them can come below it, though a
set that nobody tried may. About ten minutes a question on one busy core.
"""

from __future__ import annotations

import argparse
import json
import sys

from measuring import ROOT

from spare_demo.analysis.oracle import bound, first_token_kl, search
from spare_demo.models import Model, View, load_model
from spare_demo.pruners import PRUNERS
from spare_demo.table import markdown_table

EXAMPLES = ROOT / "assets" / "examples"


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
