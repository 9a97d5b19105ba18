"""`evaluate --gallery`: surprising cases of the built-in world, mined from a range of seeds."""

from __future__ import annotations

import argparse

from tqdm import tqdm

from spare_demo.cli.options import check_file, tell
from spare_demo.comparison.request import choose
from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.gallery import RULES, make_gallery, scene_sheets, write_gallery
from spare_demo.evaluation.records import Row
from spare_demo.evaluation.run import run
from spare_demo.models import load_model

SET = "page"
"""The scenes that the page's own button draws."""
SEEDS = (0, 199)
METHODS = ("spare", "cdpruner")
BUDGETS = (16, 32, 64)
READ = ("gallery", "seeds", "model", "device", "bits", "system")
"""The options of `evaluate` that have a meaning here."""


def mine_gallery(arguments: argparse.Namespace) -> None:
    """Measure the scenes and write the gallery. Raises ValueError, ModelError or OSError."""
    first, last = arguments.seeds or SEEDS
    if not 0 <= first <= last < 2**31:
        raise ValueError("--seeds needs two numbers from 0 to 2147483647, the smaller one first.")
    check_file(arguments.gallery / "gallery.json")
    model = load_model(
        arguments.model, arguments.device, bits=arguments.bits, system=arguments.system
    )
    experiment = Experiment(choose(METHODS), BUDGETS, blank=False, aspect=model.aspect(None))
    sheets = list(scene_sheets(SET, range(first, last + 1)))
    rows: list[Row] = []
    for results in tqdm(run(model, sheets, experiment), total=len(sheets), unit="scene"):
        rows += results.rows
    name = f"{model.name}@{model.revision}"
    gallery = make_gallery(name, SET, (first, last), METHODS, BUDGETS, rows)
    write_gallery(arguments.gallery, gallery)
    print(gallery.sentence)
    for rule, count in gallery.found.items():
        print(f"{count}: {RULES[rule]}")
    if gallery.cases:
        print(f"Written to {arguments.gallery}: gallery.json, index.html")
    else:
        tell("Try other seeds with --seeds.")
