"""Many visitors of one page at once, each with pictures of their own: are the answers right, how
long do they take, and what is left on the server once everybody has gone?

    python benchmarks/load.py [--visitors 32] [--questions 10] [--leave 200] [--json FILE]

Starts the real app as a program, open to strangers, and speaks to it over the loopback interface.
The visitors share the machine's cores with it. Every answer and every pick is compared with what
the package itself gives for the picture and the question. Then more visitors ask and leave in
mid-answer. Give the machine to this program alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from measuring import Figure, finish, say, where
from questions import Question, draw_questions, set_controls
from serving import held, serving_strangers
from visitors import Page, Run, connections, read_comparison, visiting

from spare_demo.models import load_model

SWEEP_SECONDS = 70  # the app clears away once a minute
QUIET_SECONDS = 10  # until the connections of who has gone are closed
HEALTH_EVERY = 0.2  # seconds
STAGES = ("encode", "relevance", "select", "prefill", "decode")


@dataclass
class Watch:
    """What `/health` said: seconds until it answered, and the most that waited."""

    seconds: list[float] = field(default_factory=list)
    most_waiting: int = 0


async def health(url: str, http: httpx.AsyncClient) -> dict[str, Any]:
    """What the app says of itself."""
    return (await http.get(f"{url}/health")).raise_for_status().json()


async def watch_health(url: str, watch: Watch) -> None:
    """Asks again and again, until it is cancelled."""
    async with connections() as http:
        while True:
            start = time.perf_counter()
            said = await health(url, http)
            watch.seconds.append(time.perf_counter() - start)
            watch.most_waiting = max(watch.most_waiting, said["waiting"])
            await asyncio.sleep(HEALTH_EVERY)


async def visit(page: Page, http: httpx.AsyncClient, questions: Sequence[Question]) -> list[Run]:
    """One visitor, who asks one question after the other."""
    async with visiting(page, http) as visitor:
        set_controls(visitor)
        return [await visitor.ask(question.picture, question.text) for question in questions]


def find_wrong(runs: Sequence[Run], questions: Sequence[Question]) -> list[str]:
    """Of each run that is not right, what it shows in place of what is expected."""
    wrong = []
    for run, question in zip(runs, questions, strict=True):
        shown, expected = read_comparison(run), question.expected
        if shown != expected:
            found = run.refused or "no comparison" if shown is None else shown
            wrong.append(f"{question.picture.name}: {found} in place of {expected}")
    return wrong


async def ask_at_once(
    url: str, questions: Sequence[Sequence[Question]]
) -> tuple[list[Run], float, Watch]:
    """As many visitors as there are lists of questions: their runs, seconds, what health said."""
    watch = Watch()
    async with connections() as http:
        page = await Page.open(url, http)
        watching = asyncio.create_task(watch_health(url, watch))
        start = time.perf_counter()
        runs = await asyncio.gather(*(visit(page, http, own) for own in questions))
        seconds = time.perf_counter() - start
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return [run for own in runs for run in own], seconds, watch


async def leave_at_once(url: str, visitors: int, questions: Sequence[Question]) -> float:
    """Visitors who all ask and close their pages together: seconds until nothing is computed."""
    async with connections() as http:
        page = await Page.open(url, http)
        async with connections() as leaving, AsyncExitStack() as pages:
            asked = []
            for number in range(visitors):
                visitor = await pages.enter_async_context(visiting(page, leaving))
                set_controls(visitor)
                own = questions[number % len(questions)]
                asked.append(asyncio.create_task(visitor.ask(own.picture, own.text)))
            # Those before it are answered while the last ones still come.
            await until(
                url,
                http,
                lambda said: said["waiting"] >= visitors // 2 or all(t.done() for t in asked),
            )
            for task in asked:
                task.cancel()
            start = time.perf_counter()
            await asyncio.gather(*asked, return_exceptions=True)
        await until(url, http, is_idle)
        return time.perf_counter() - start


async def leave_one(url: str, question: Question) -> float:
    """A visitor who closes the page in the middle of a measurement of several seconds: seconds
    until nothing is computed."""
    async with connections() as http:
        page = await Page.open(url, http)
        async with visiting(page, http) as visitor:
            set_controls(visitor)
            await visitor.ask(question.picture, question.text)
            measuring = asyncio.create_task(visitor.do("measure", "click"))
            await until(url, http, lambda said: said["running"] > 0)
            await asyncio.sleep(0.5)
            measuring.cancel()
            start = time.perf_counter()
            await asyncio.gather(measuring, return_exceptions=True)
        await until(url, http, is_idle)
        return time.perf_counter() - start


def is_idle(said: dict[str, Any]) -> bool:
    """Whether nobody waits and nothing runs."""
    return said["waiting"] == said["running"] == 0


async def until(url: str, http: httpx.AsyncClient, condition: Any) -> None:
    """Wait until the app's health is as wanted."""
    while not condition(await health(url, http)):
        await asyncio.sleep(0.02)


def stage_seconds(lines: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Seconds of each stage of the questions that the app logged, and of what is none of them.

    Answers that are decoded together share their steps: the longest counts.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ("wait", *STAGES, "other", "total")}
    for times in (line["seconds"] for line in lines if line["end"] == "finished"):
        stages = {
            "encode": times["encode"],
            "relevance": times["relevance"],
            "select": max(times["select"].values()),
            "prefill": sum(times["prefill"].values()),
            "decode": max(times["decode"].values()),
        }
        for name, value in stages.items():
            seconds[name].append(value)
        seconds["wait"].append(times["wait"])
        seconds["total"].append(times["total"])
        seconds["other"].append(times["total"] - sum(stages.values()))
    return seconds


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines about turns at the model in what the app wrote."""
    lines = path.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"event"')]


def percentiles(seconds: Sequence[float]) -> str:
    """In words, by the nearest rank; "none" of nothing."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    ranks = (50, 90, 95, 99)
    return ", ".join(f"p{p} {ordered[-(-p * len(ordered) // 100) - 1]:.2f} s" for p in ranks)


def in_words(thing: dict[str, int]) -> str:
    """What a process holds."""
    return (
        f"{thing['memory_bytes'] / 1e6:.0f} MB, {thing['threads']} threads, "
        f"{thing['descriptors']} descriptors, {thing['temporary_files']} temporary files of "
        f"{thing['temporary_bytes'] / 1e6:.1f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--visitors", type=int, default=32, help="at once")
    parser.add_argument("--questions", type=int, default=10, help="of each visitor")
    parser.add_argument("--leave", type=int, default=200, help="who ask and leave; 0 for none")
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--patience", type=float, default=120, help="seconds until the page comes")
    parser.add_argument("--device", default="auto", help="of the app, and of what is expected")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="load-") as name:
        measure(args, Path(name))


def measure(args: argparse.Namespace, folder: Path) -> None:
    """Runs all parts, and prints and writes what they gave."""
    number = args.visitors * args.questions
    say(f"working out {number} comparisons")
    model = load_model(args.model, args.device)
    questions = list(draw_questions(model, number, folder))
    distinct = len({question.expected for question in questions})
    own = [questions[i :: args.visitors] for i in range(args.visitors)]
    asked = [question for each in own for question in each]

    about: dict[str, Any] = {}
    room = args.visitors + args.leave + 1
    with serving_strangers(args.model, args.device, args.patience, room, folder) as app:
        url, process, temporary, log = app
        asyncio.run(ask_at_once(url, [questions[:3]]))
        time.sleep(QUIET_SECONDS)
        before, warm = held(process, temporary), len(read_log(log))
        say(f"{args.visitors} visitors ask {args.questions} questions each")
        runs, seconds, watch = asyncio.run(ask_at_once(url, own))
        during = held(process, temporary)
        lines = read_log(log)[warm:]
        say("everybody has gone; the app clears away")
        time.sleep(SWEEP_SECONDS)
        after = held(process, temporary)
        wrong = find_wrong(runs, asked)
        waited = [run for run in runs if any(place > 0 for place in run.places)]
        refused = sorted({run.refused for run in runs if run.refused})
        latencies = [run.seconds for run in runs if not run.refused]
        about |= {
            "right and their own": f"{number - len(wrong)} of {number}, "
            f"{distinct} of them distinct",
            **({"wrong": "; ".join(wrong)} if wrong else {}),
            "refused": "; ".join(refused) or "none",
            "answered": f"{len(latencies) / seconds:.2f} questions a second",
            "percentiles": percentiles(latencies),
            "place in the queue shown": f"to {len(waited)} of {number}, with at most "
            f"{max((place for run in runs for place in run.places), default=0)} before them",
            "most that waited at once": watch.most_waiting,
            "before": in_words(before),
            "as they left": in_words(during),
            f"{SWEEP_SECONDS} s after they left": in_words(after),
            "memory after to before": f"{after['memory_bytes'] / before['memory_bytes']:.3f}",
        }
        if args.leave:
            say("one visitor leaves in mid-measurement")
            one = asyncio.run(leave_one(url, questions[0]))
            say(f"{args.leave} visitors ask and leave")
            all_ = asyncio.run(leave_at_once(url, args.leave, questions))
            time.sleep(SWEEP_SECONDS)
            gone = held(process, temporary)
            (again,), _, _ = asyncio.run(ask_at_once(url, [questions[:1]]))
            about |= {
                "after one left in mid-measurement": f"nothing is computed {one:.2f} s later",
                f"after {args.leave} left in mid-answer": f"nothing is computed {all_:.2f} s later",
                f"{SWEEP_SECONDS} s after that": in_words(gone),
                "the next question is answered right": not find_wrong([again], questions[:1]),
            }

    shape = f"{args.visitors} visitors × {args.questions} questions"

    def figure(what: str, seconds: Sequence[float]) -> Figure:
        return Figure(what, *where(model.device, model.dtype), shape, seconds)

    figures = [figure("Ask to all three answers", latencies)]
    figures += [
        figure(_WORDS[name], values) for name, values in stage_seconds(lines).items() if values
    ]
    figures.append(figure("/health meanwhile", watch.seconds))
    finish("Visitors at once", figures, args.json, **about)


_WORDS = {
    "wait": "of it, waiting in the queue",
    "encode": "of it, the vision pass",
    "relevance": "of it, CLIP's text pass",
    "select": "of it, choosing tokens",
    "prefill": "of it, three prefills",
    "decode": "of it, decoding",
    "other": "of it, reading, drawing, sending",
    "total": "its turn, all but the wait",
}


if __name__ == "__main__":
    main()
