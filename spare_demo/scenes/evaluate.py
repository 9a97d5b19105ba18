"""How often a model is right about drawn scenes: ``python -m spare_demo.scenes.evaluate``.

Nothing is pruned. Every question is asked twice: with its picture, and with a blank one of the same
size, which shows how much the questions give away by themselves. The scenes come from streams that
training never draws from, and always in the same order, so two runs give the same figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from spare_demo.models import Model, ModelError, Picture, load_model

from . import draw
from .questions import SKILLS, Question, is_right
from .sets import SETS, Sample, samples

_MAX_NEW_TOKENS = 8  # the longest true answer, spelt letter by letter, has fewer


@dataclass(frozen=True)
class Result:
    """One question put to the model: the scene's number, what it said, whether that is right."""

    seed: int
    question: Question
    prediction: str
    right: bool


@dataclass(frozen=True)
class Score:
    """``right`` of ``count`` questions; ``share`` is their quotient, NaN without a question."""

    right: int
    count: int

    @property
    def share(self) -> float:
        return self.right / self.count if self.count else float("nan")


def evaluate(
    model: Model,
    questions: Sequence[Sample],
    blank: bool,
    progress: Callable[[list[Result]], None] = lambda results: None,
) -> list[Result]:
    """Ask every question of every sample.

    Args:
        model: any that `load_model` gives.
        questions: from `samples`.
        blank: whether a blank picture takes the place of each scene's own.
        progress: called after each scene with all results so far.

    Returns:
        one result per question, in the order asked.
    """
    results: list[Result] = []
    blanks: dict[tuple[int, int], Picture] = {}
    said_of_blank: dict[tuple[tuple[int, int], str], str] = {}  # answers are greedy: asked once
    for sample in questions:
        size = sample.scene.side, sample.scene.side
        if not blank:
            picture = model.look(draw.draw(sample.scene))
        elif size not in blanks:
            blanks[size] = model.look(_blank(model, size))
        for question in sample.questions:
            if not blank:
                said = _answer(model, picture, question)
            else:
                key = size, question.text
                if key not in said_of_blank:
                    said_of_blank[key] = _answer(model, blanks[size], question)
                said = said_of_blank[key]
            right = is_right(said, question.answer)
            results.append(Result(sample.seed, question, said, right))
        progress(results)
    return results


def scores(results: Sequence[Result]) -> dict[str, dict[str, Score]]:
    """Tables of scores: "overall", "skill" (all questions with that tag) and "combination"."""
    skills = {s: [r for r in results if s in r.question.skills] for s in SKILLS}
    combinations: dict[str, list[Result]] = {}
    # Few skills first, each size in the order of SKILLS.
    for tags in sorted({r.question.skills for r in results}, key=_place):
        combinations[" + ".join(tags)] = [r for r in results if r.question.skills == tags]
    return {
        "overall": {"all": _score(results)},
        "skill": {name: _score(part) for name, part in skills.items() if part},
        "combination": {name: _score(part) for name, part in combinations.items()},
    }


def table(picture: Sequence[Result], blank: Sequence[Result] | None) -> str:
    """The scores as lines of text, those with a blank picture in a column of their own."""
    seen = scores(picture)
    unseen = scores(blank) if blank is not None else None
    lines = [f"{'':<40}{'questions':>10}{'right':>9}" + (f"{'blank':>9}" if unseen else "")]
    for kind, rows in seen.items():
        if kind != "overall":
            lines.append(f"by {kind}")
        for name, score in rows.items():
            line = f"  {name:<38}{score.count:>10}{score.share:>9.1%}"
            lines.append(line + (f"{unseen[kind][name].share:>9.1%}" if unseen else ""))
    return "\n".join(lines)


def record(
    model: Model, which: str, picture: Sequence[Result], blank: Sequence[Result] | None
) -> dict[str, Any]:
    """All figures with what they were measured on, as JSON takes them."""
    seeds = [result.seed for result in picture]
    figures = {"picture": picture} if blank is None else {"picture": picture, "blank": blank}
    return {
        "model": model.name,
        "revision": model.revision,
        "set": which,
        "first_seed": min(seeds),
        "last_seed": max(seeds),
        "questions": len(picture),
        "max_new_tokens": _MAX_NEW_TOKENS,
        **{
            view: {
                kind: {
                    name: {"accuracy": score.share, "right": score.right, "questions": score.count}
                    for name, score in rows.items()
                }
                for kind, rows in scores(results).items()
            }
            for view, results in figures.items()
        },
    }


def _blank(model: Model, size: tuple[int, int]) -> Image.Image:
    """Uniform, in the mean colour of CLIP's pictures: what the tower takes for nothing."""
    red, green, blue = (round(255 * share) for share in model.processor.image_processor.image_mean)
    return Image.new("RGB", size, (red, green, blue))


def _answer(model: Model, picture: Picture, question: Question) -> str:
    view = model.ask(picture, question.text)
    return model.answer(view, max_new_tokens=_MAX_NEW_TOKENS).text


def _place(tags: tuple[str, ...]) -> tuple[int, list[int]]:
    return len(tags), [SKILLS.index(tag) for tag in tags]


def _score(results: Sequence[Result]) -> Score:
    return Score(sum(result.right for result in results), len(results))


def _progress(label: str, total: int) -> Callable[[list[Result]], None]:
    """One line that is overwritten on a terminal, a line at every tenth of the way elsewhere."""
    terminal = sys.stderr.isatty()
    shown = 0

    def show(results: list[Result]) -> None:
        nonlocal shown
        done = len(results)
        if terminal or 10 * done // total > shown:
            shown = 10 * done // total
            end = "\r" if terminal and done < total else "\n"
            line = f"{label}: {done} of {total} questions, {_score(results).share:.1%} right"
            print(line, end=end, file=sys.stderr, flush=True)

    return show


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 refused with a sentence that says what to do."""
    parser = argparse.ArgumentParser(
        prog="python -m spare_demo.scenes.evaluate",
        description="Measure how often a model is right about drawn scenes, nothing pruned.",
    )
    add = parser.add_argument
    add("--model", default="built-in", help="a catalogue name or a folder (default: %(default)s)")
    add("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    add("--questions", type=int, default=600, help="how many (default: %(default)s)")
    add("--set", default="held-out", choices=list(SETS), help="scenes (default: %(default)s)")
    add(
        "--blank",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask everything of a blank picture as well",
    )
    add("--out", type=Path, metavar="FILE", help="write the figures as JSON")
    arguments = parser.parse_args(argv)
    try:
        asked = list(samples(arguments.set, arguments.questions))
        model = load_model(arguments.model, arguments.device)
    except (ValueError, ModelError) as error:
        print(error, file=sys.stderr)
        return 1
    total = arguments.questions
    picture = evaluate(model, asked, False, _progress("picture", total))
    blank = evaluate(model, asked, True, _progress("blank", total)) if arguments.blank else None
    seeds = f"{asked[0].seed} to {asked[-1].seed}"
    print(f"{model.title}, revision {model.revision}, set {arguments.set}, seeds {seeds}")
    print(table(picture, blank))
    if arguments.out:
        figures = record(model, arguments.set, picture, blank)
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
