"""Write docs/PERFORMANCE.md from the files that the other programs of this folder leave.

    python benchmarks/report.py

Nothing is measured here and no figure is typed in: what has no file is told as not measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import goals
from measuring import HEAD, ROOT, cells

from spare_demo.table import markdown_table

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "PERFORMANCE.md"

WANTED = {  # a file of `RESULTS`: what it shows, and the command that makes it
    "selection-cpu": ("Selection, CPU", "selection.py --device cpu"),
    "selection-cuda": ("Selection, CUDA", "selection.py --device cuda"),
    "prune-cpu": ("Pruning in one's own code at 7B's shape, CPU", "prune.py --device cpu --runs 7"),
    "prefill-cpu": (
        "Prefill at 7B's shape, CPU, true depth",
        "prefill.py --device cpu --dtype bfloat16 --runs 3 --shapes 7b",
    ),
    "prefill-cpu-13b": (
        "Prefill at 13B's shape, CPU, two of its layers",
        "prefill.py --device cpu --dtype bfloat16 --runs 5 --shapes 13b --layers 2",
    ),
    "prefill-cpu-built-in": (
        "Prefill of the built-in model, CPU",
        "prefill.py --device cpu --model built-in --runs 20",
    ),
    "prefill-cuda": ("Prefill at 7B's and 13B's shapes, CUDA", "prefill.py --device cuda"),
    "decode-cpu": ("Three answers together, CPU", "decode.py --device cpu"),
    "decode-cuda": ("Three answers together, CUDA", "decode.py --device cuda"),
    "gpu-kernels-cuda": ("Where a GPU's time goes", "gpu_kernels.py"),
    "page-cpu": ("The page, CPU", "page.py"),
    "load-cpu": ("Visitors at once, CPU", "load.py --device cpu"),
    "soak-cpu": ("Mixed use for an hour, CPU", "soak.py --device cpu"),
}

INTRODUCTION = """# Performance

Made by `python benchmarks/report.py` from the files in `benchmarks/results/`; do not edit. Every
section names the command and the device. A floor is what the same machine needs for the least
work that the task could be, measured in the same run; the ratio is the median, over the runs, of
time to floor. How many times faster a prefill is with 64 kept is such a median too. "Not measured"
means that no such machine was at hand.

SPARE's paper (arXiv 2606.18681, Table 7) reports for LLaVA-1.5-7B with 64 of 576 visual tokens a
prefill 2.9 × faster and a key-value cache 3.8 × smaller, on an RTX A6000. It does not state the
lengths of its prompts. The lengths here are inferred from the sizes of its caches, 347.7 and 91.8
MiB: at 0.5 MiB a position in half precision they hold 695 and 184 positions, 120 of them text.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name, (title, command) in WANTED.items():
        path = RESULTS / f"{name}.json"
        parts.append(f"## {title}\n")
        if path.exists():
            parts.extend(section(json.loads(path.read_text())))
        else:
            parts.append(
                f"Not measured. `python benchmarks/{command} "
                f"--json {path.relative_to(ROOT)}` measures it.\n"
            )
    parts.append("## What was aimed at on a GPU\n")
    parts.append(markdown_table(("what", "goal", "measured", ""), list(goals.rows(RESULTS))))
    return "\n".join(parts) + "\n"


def section(told: dict[str, Any]) -> Iterator[str]:
    """One file as Markdown."""
    yield f"`{told['command']}`\n"
    rows = [cells(figure) for figure in told["figures"]]
    columns = [column for column in zip(HEAD, *rows, strict=True) if any(column[1:])]
    head, *rows = zip(*columns, strict=True)
    yield markdown_table(head, rows) + "\n"
    for figure in told["figures"]:
        if figure["note"] and figure["seconds"]:
            row = ", ".join(filter(None, (figure[key] for key in ("what", "dtype", "shape"))))
            yield f"- {row}: {figure['note']}."
    usual = {"title", "command", "figures", "machine", "cores", "load_at_end", "versions"}
    for name in (key for key in told if key not in usual):
        yield f"- {name}: {told[name]}."
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    load = f"load {told['load_at_end']} at the end"
    yield f"- {told['machine']}, {told['cores']} cores, {load}; {versions}.\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    print(f"Wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
