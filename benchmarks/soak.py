"""Visitors who come and go for an hour: does what the server holds grow?

    python benchmarks/soak.py [--minutes 60] [--visitors 4] [--json FILE]

Starts the real app as a program, open to strangers. Each visitor does one thing after the other:
asks about a new picture, asks for another budget or another method, measures, or closes the page
in mid-answer and comes back as somebody else. The slope of the memory is that of a line through
its samples after the first quarter of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from measuring import Figure, finish, where
from questions import BUDGET, Question, draw_questions, set_controls
from serving import held, serving_strangers
from visitors import Page, Visitor, connections, read_comparison, visiting

from spare_demo.models import load_model

SAMPLE_SECONDS = 15
OTHER_METHODS = ("random", "uniform", "fastv", "cdpruner")
# What a visitor does next, and how often of a hundred times.
SHARES = {"ask": 50, "budget": 25, "method": 12, "measure": 3, "leave": 10}


@dataclass
class Tally:
    """What happened so far.

    Attributes:
        done: how many of each kind of thing.
        right: asks that showed the expected answers and picks.
        refused: the sentences of what was refused.
        refused_asks: how many of these were asks.
        seconds: of each ask.
    """

    done: Counter[str] = field(default_factory=Counter)
    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refused_asks: int = 0
    seconds: list[float] = field(default_factory=list)


async def come_and_go(
    page: Page, questions: Sequence[Question], tally: Tally, end: float, chance: random.Random
) -> None:
    """Visitors one after the other, until `end` on the clock of `time.monotonic`."""
    async with connections() as http:
        while time.monotonic() < end:
            async with visiting(page, http) as visitor:
                await ask(visitor, chance.choice(questions), tally)
                while time.monotonic() < end:
                    (what,) = chance.choices([*SHARES], [*SHARES.values()])
                    question = chance.choice(questions)
                    if what == "leave":
                        await leave(visitor, question, chance.uniform(0, 1))
                        tally.done[what] += 1
                        break
                    if what == "ask":
                        await ask(visitor, question, tally)
                    else:
                        await change(visitor, what, tally, chance)


async def ask(visitor: Visitor, question: Question, tally: Tally) -> None:
    """Ask about a picture, and compare what is shown with what is expected."""
    set_controls(visitor)
    run = await visitor.ask(question.picture, question.text)
    tally.done["ask"] += 1
    tally.right += read_comparison(run) == question.expected
    tally.refused.update([run.refused] if run.refused else [])
    tally.refused_asks += bool(run.refused)
    tally.seconds.append(run.seconds)


async def change(visitor: Visitor, what: str, tally: Tally, chance: random.Random) -> None:
    """Another budget, another method or a measurement, of the picture that is on the page."""
    if what == "budget":
        visitor.set(budget=chance.randint(8, 200))
        run = await visitor.do("budget", "release")
    elif what == "method":
        visitor.set(method_b=chance.choice(OTHER_METHODS), budget=BUDGET)
        run = await visitor.do("method-b", "input")
    else:
        run = await visitor.do("measure", "click")
    tally.done[what] += 1
    tally.refused.update([run.refused] if run.refused else [])


async def leave(visitor: Visitor, question: Question, seconds: float) -> None:
    """Ask, and close the connection after so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(visitor.ask(question.picture, question.text), seconds)


async def soak(
    url: str,
    questions: Sequence[Question],
    visitors: int,
    minutes: float,
    process: int,
    temporary: Path,
) -> tuple[Tally, list[tuple[int, dict[str, int]]]]:
    """The tally, and samples: things done so far, and what the process held then."""
    tally, samples = Tally(), []
    async with connections() as http:
        page = await Page.open(url, http)
    end = time.monotonic() + 60 * minutes
    going = [
        asyncio.create_task(come_and_go(page, questions, tally, end, random.Random(number)))
        for number in range(visitors)
    ]
    while time.monotonic() < end:
        await asyncio.wait(going, timeout=SAMPLE_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        for task in going:
            if task.done():
                task.result()  # raises what ended it too early
        samples.append((tally.done.total(), held(process, temporary)))
    await asyncio.gather(*going)
    return tally, samples


def slope(samples: Sequence[tuple[int, dict[str, int]]], name: str) -> float:
    """How much of a thing is added by each thing done, after the first quarter of the samples."""
    later = samples[len(samples) // 4 :]
    done, values = [count for count, _ in later], [thing[name] for _, thing in later]
    return float(np.polyfit(done, values, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--visitors", type=int, default=4, help="at once")
    parser.add_argument("--pictures", type=int, default=100, help="that they choose from")
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--patience", type=float, default=120, help="seconds until the page comes")
    parser.add_argument("--device", default="auto", help="of the app, and of what is expected")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()
    if args.minutes < 1:
        parser.error("--minutes must be 1 or more: there are four samples a minute.")

    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        model = load_model(args.model, args.device)
        questions = list(draw_questions(model, args.pictures, folder))
        with serving_strangers(
            args.model, args.device, args.patience, args.visitors + 1, folder
        ) as (url, process, temporary, _):
            tally, samples = asyncio.run(
                soak(url, questions, args.visitors, args.minutes, process, temporary)
            )
    memory = [thing["memory_bytes"] / 1e6 for _, thing in samples]
    quarter = len(samples) // 4

    def growth(name: str) -> str:
        values = [thing[name] for _, thing in samples[quarter:]]
        return f"{values[0]} to {values[-1]}, at most {max(values)}"

    shape = f"{args.visitors} visitors, {args.minutes:g} minutes"
    device_and_dtype = where(model.device, model.dtype)
    finish(
        "Mixed use",
        [Figure("Ask to all three answers", *device_and_dtype, shape, tally.seconds)],
        args.json,
        **{
            "done": ", ".join(f"{name} {count}" for name, count in tally.done.items()),
            "right and their own": f"{tally.right} of {tally.done['ask']} asks, of which "
            f"{tally.refused_asks} were refused",
            "refused": ", ".join(f"{n} × {words}" for words, n in tally.refused.items()) or "none",
            "memory": f"{memory[0]:.0f} MB at first, {memory[quarter]:.0f} MB after a quarter of "
            f"the time, {memory[-1]:.0f} MB at the end",
            # It goes up and down with the sweep of each minute; what stays shows at the bottom.
            "lowest memory of each quarter of the time": " / ".join(
                f"{min(part):.0f}" for part in np.array_split(memory, 4)
            )
            + " MB",
            "memory after the first quarter": f"{1000 * slope(samples, 'memory_bytes') / 1e6:.1f} "
            "MB for 1,000 things done",
            **{name: growth(name) for name in ("threads", "descriptors", "temporary_files")},
        },
    )


if __name__ == "__main__":
    main()
