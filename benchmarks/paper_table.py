"""Print lmms-eval's results as the paper's tables have them, with differences.

    python benchmarks/paper_table.py logs [more folders]
    python benchmarks/paper_table.py logs --published table1.csv

Reads the `*_results.json` below the folders; of a benchmark that ran twice the later one counts,
and runs with `--limit` are left out. Nothing is scored here: the scores are the harness's.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from spare_demo.evaluation.budgets import axis_value, read_budgets
from spare_demo.evaluation.harness import read_options
from spare_demo.table import markdown_table

PUBLISHED = Path(__file__).parent / "published.csv"
RELATIVE = "Rel. Acc"
_WITHOUT_EFFECT = {"batch_size", "device"}


@dataclass(frozen=True)
class Benchmark:
    """Where the harness writes a column of the paper.

    tasks: whose mean it is. metric: of each. scale: from the harness's unit to the paper's.
    """

    tasks: tuple[str, ...]
    metric: str
    scale: float


BENCHMARKS = {
    "VQAv2": Benchmark(("vqav2_val",), "exact_match", 100),
    "GQA": Benchmark(("gqa",), "exact_match", 100),
    "VizWiz": Benchmark(("vizwiz_vqa_val",), "exact_match", 100),
    "SQA": Benchmark(("scienceqa_img",), "exact_match", 100),
    "TextVQA": Benchmark(("textvqa_val",), "exact_match", 100),
    "POPE": Benchmark(("pope_adv", "pope_pop", "pope_random"), "pope_f1_score", 100),
    "MME": Benchmark(("mme",), "mme_perception_score", 1),
    "MMB": Benchmark(("mmbench_en_dev",), "gpt_eval_score", 1),
    "MMB-CN": Benchmark(("mmbench_cn_dev",), "gpt_eval_score", 1),
    "MM-Vet": Benchmark(("mmvet",), "gpt_eval_score", 1),
}


class Setting(NamedTuple):
    """What a row of the table is of. budget: "" where nothing is pruned."""

    model: str
    method: str
    budget: str


def read_setting(model_args: str) -> Setting:
    """The harness's model arguments as text -> the row; what changes answers goes with the method.

    Raises ValueError for arguments that the adapter does not take.
    """
    given = dict(part.split("=", 1) for part in model_args.split(",") if part)
    options = read_options(given)
    named = {"pretrained", "method", "budget", *_WITHOUT_EFFECT}
    others = ", ".join(f"{name}={text}" for name, text in given.items() if name not in named)
    method = f"{options.method} ({others})" if others else options.method
    return Setting(options.pretrained, method, str(options.budget) if options.methods else "")


def read_scores(folders: Iterable[Path]) -> dict[Setting, dict[str, float]]:
    """Of all runs of the adapter below the folders, by row: each score by "task metric".

    Raises ValueError where there is none.
    """
    scores: dict[Setting, dict[str, float]] = {}
    paths = [path for folder in folders for path in folder.rglob("*_results.json")]
    for path in sorted(paths, key=lambda path: path.name):  # whose names begin with the date
        run = json.loads(path.read_text(encoding="utf-8"))
        if run["config"]["model"] != "spare_demo":
            continue
        if run["config"]["limit"] is not None:
            print(f"{path} is left out: it ran with --limit.", file=sys.stderr)
            continue
        found = scores.setdefault(read_setting(run["config"]["model_args"]), {})
        for task, metrics in run["results"].items():
            for name, score in metrics.items():
                if isinstance(score, int | float):
                    found[f"{task} {name.partition(',')[0]}"] = score
    if not scores:
        raise ValueError(
            "There is no *_results.json of --model spare_demo in the folders. Give the harness's "
            "--output_path."
        )
    return scores


def columns(scores: dict[str, float]) -> dict[str, float]:
    """A row's scores by the paper's column, of the benchmarks whose tasks have all run."""
    found = {}
    for name, benchmark in BENCHMARKS.items():
        keys = [f"{task} {benchmark.metric}" for task in benchmark.tasks]
        if all(key in scores for key in keys):
            found[name] = benchmark.scale * fmean(scores[key] for key in keys)
    return found


def read_published(path: Path) -> dict[tuple[Setting, str], float]:
    """Lines model,method,budget,benchmark,score; the budget is empty of the unpruned model.

    Raises ValueError, with the line, for a score that is no number.
    """
    scores = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            setting = Setting(line["model"], line["method"], line["budget"])
            try:
                scores[setting, line["benchmark"]] = float(line["score"])
            except ValueError:
                raise ValueError(f"The score of this line is no number: {line}") from None
    return scores


def table(
    scores: dict[Setting, dict[str, float]], published: dict[tuple[Setting, str], float]
) -> str:
    """Markdown: each score with its difference to the published one, where there is one.

    The last column is the paper's: the mean over benchmarks of score / unpruned score, here with
    the number of benchmarks that ran with both.
    """
    rows = {setting: columns(found) for setting, found in scores.items()}
    used = [name for name in BENCHMARKS if any(name in row for row in rows.values())]
    lines = []
    for setting in sorted(rows, key=_order):
        row = rows[setting]
        whole = rows.get(Setting(setting.model, "none", ""), {})
        cells = [_cell(row.get(name), published.get((setting, name))) for name in used]
        shares = [100 * row[name] / whole[name] for name in used if whole.get(name) and name in row]
        relative = _cell(fmean(shares) if shares else None, published.get((setting, RELATIVE)))
        cells.append(f"{relative} of {len(shares)}" if shares else relative)
        lines.append([*setting, *cells])
    return markdown_table(["model", "method", "budget", *used, RELATIVE], lines)


def _order(setting: Setting) -> tuple[str, float, str]:
    """Model by model, the unpruned one first, then from large budgets to small ones."""
    largest = -axis_value(read_budgets([setting.budget])[0]) if setting.budget else -math.inf
    return setting.model, largest, setting.method


def _cell(score: float | None, published: float | None) -> str:
    if score is None:
        return "–"
    return f"{score:.1f}" if published is None else f"{score:.1f} ({score - published:+.1f})"


def main() -> None:
    """The command; see the file's first lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="lmms-eval's --output_path")
    parser.add_argument("--published", type=Path, default=PUBLISHED, help="the paper's numbers")
    arguments = parser.parse_args()
    try:
        print(table(read_scores(arguments.folders), read_published(arguments.published)))
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
