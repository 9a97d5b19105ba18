"""How fast and how large the page is: starts the real app as a program and prints one table.

    python benchmarks/page.py [--runs 5] [--starts 2] [--model built-in] [--json FILE]

Nothing is asserted: the numbers are of this machine, and of nothing else that runs on it.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from frames import LAYERS, Overdue, browsing
from measuring import Figure, finish, say, where
from serving import peak_bytes, serving

from spare_demo.table import counted

# What the project wants on two CPU cores with the built-in model.
GOALS = {
    "start to page served": "20 s",
    "Ask to first pictures": "0.7 s",
    "Ask to all three answers": "2 s",
    "first paint to finished comparison": "2.5 s",
    "slowest frame, 576 tokens": "0.032 s",
    "slowest frame, 2,880 tokens": "0.050 s",
    "curve redrawn at the server": "0.1 s",
    "all methods, what they keep": "3 s",
    "a comparison sends": "400 kB",
    "peak memory": "2.5 GB",
}
PACKAGES = ("open_clip_torch", "gradio", "plotly", "pillow")

BUDGETS = 576  # scrubbed through, one per frame


def visits(url: str, runs: int, budgets: int, patience: float) -> dict[str, list[float]]:
    """Seconds in a real browser: pages opened, questions asked about new pictures, frames."""
    seconds: dict[str, list[float]] = {
        "Ask to first pictures": [],
        "Ask to all three answers": [],
        "first paint to finished comparison": [],
    }
    with browsing(url, patience) as driver:
        for run in range(runs):
            say(f"opening the page, {run + 1} of {runs}")
            seconds["first paint to finished comparison"].append(driver.open())
        for run in range(runs):
            say(f"asking, {run + 1} of {runs}")
            pictures, answers = driver.ask()
            seconds["Ask to first pictures"].append(pictures)
            seconds["Ask to all three answers"].append(answers)
        for count, layers in LAYERS.items():
            if count == "2,880":
                driver.enlarge()
            for layer in layers:
                say(f"scrubbing {count} tokens, {layer}")
                between, drawn, remark = driver.scrub(layer, budgets)
                if remark:
                    say(f"time ran out: {remark}")
                seconds[f"frame to frame, {count} tokens, {layer}"] = between
                seconds[f"of it drawing, {count} tokens, {layer}"] = drawn
            own = (max(seconds[f"frame to frame, {count} tokens, {layer}"]) for layer in layers)
            seconds[f"slowest frame, {count} tokens"] = [max(own)]
    return seconds


def inside(model: Any, runs: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The slider's handler at the server; what a comparison sends; vision passes."""
    from spare_demo.settings import Settings
    from spare_demo.ui.handlers import Handlers
    from spare_demo.ui.wire import to_bytes

    say("the server by itself")
    handlers = Handlers(model, Settings())
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    model.hf.model.vision_tower.register_forward_hook(count)
    first, n = handlers.offered[0], handlers.model.most_tokens
    visit, sent, picture = None, 0, 0
    for question in (first.question, "Another question?"):
        for shown in handlers.ask(
            image=first.path,
            question=question,
            method_a="spare",
            method_b="cdpruner",
            seed=0,
            aspect=model.aspect(None),
            relevance_layer=-2,
            relevance_text="stretches",
            together=False,
            budget=min(64, n),
            visit=visit,
        ):
            visit = shown.get("visit", visit)
            if "stage" in shown:
                stage = shown["stage"]
                picture = len(stage["picture"])
                sent = len(to_bytes(stage)) - picture
    assert visit is not None
    redraws: list[float] = []
    for run in range(runs + 1):
        start = time.perf_counter()
        list(handlers.redraw(1 + (37 * run + 31) % n, visit))
        redraws.append(time.perf_counter() - start)
    kept: list[float] = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        next(handlers.studies.all_methods(64, visit))  # the answers follow
        kept.append(time.perf_counter() - start)
    at_server = {
        "curve redrawn at the server": redraws[1:],
        "all methods, what they keep": kept[1:],
    }
    return at_server, {
        "vision passes per picture, two questions asked": passes,
        "a comparison sends": f"{sent / 1e3:.0f} kB beside the {picture / 1e3:.0f} kB picture",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="pages opened, questions asked, redraws"
    )
    parser.add_argument("--starts", type=int, default=2, help="starts of the program")
    parser.add_argument("--model", default="built-in")
    parser.add_argument(
        "--budgets", type=int, default=BUDGETS, help="budgets scrubbed through, one per frame"
    )
    parser.add_argument(
        "--patience", type=float, default=120, help="seconds until a wait is given up"
    )
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()

    seconds: dict[str, list[float]] = {"start to page served": []}
    peaks: list[int] = []
    try:
        for start in range(args.starts):
            say(f"starting the app, {start + 1} of {args.starts}")
            with serving(args.model, args.patience) as (url, program, waited):
                seconds["start to page served"].append(waited)
                if start == args.starts - 1:
                    seconds |= visits(url, args.runs, args.budgets, args.patience)
                peaks.append(peak_bytes(program.pid))
    except Overdue as late:
        sys.exit(str(late))
    from spare_demo.models import load_model

    model = load_model(args.model, "auto")
    at_server, about = inside(model, args.runs)
    figures = [
        Figure(name, *where(model.device, model.dtype), counted(len(values), "run"), values)
        for name, values in (seconds | at_server).items()
    ]
    finish(
        "The page",
        figures,
        args.json,
        **about,
        **{"peak memory": f"{max(peaks) / 1e9:.2f} GB"},
        model=f"{model.name} {model.revision}",
        packages=", ".join(f"{name} {version(name)}" for name in PACKAGES),
        wanted="; ".join(f"{name} {limit}" for name, limit in GOALS.items()),
    )


if __name__ == "__main__":
    main()
