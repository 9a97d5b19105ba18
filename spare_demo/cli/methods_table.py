"""The table of methods in Markdown (docs/METHODS_TABLE.md), made from the methods themselves.

    python -m spare_demo methods --table --model built-in > docs/METHODS_TABLE.md

Only the column of measured times depends on the machine it was made on.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import statistics
import time
import timeit
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PIL import Image

from spare_demo.pruners import PRUNERS, Method
from spare_demo.pruners.inside.base import LayerPruner
from spare_demo.pruners.options import fields_of
from spare_demo.pruners.plan import Choice, LayerReading, Stop
from spare_demo.table import markdown_table

if TYPE_CHECKING:
    from spare_demo.models import Model, View

BUDGET, RUNS = 64, 5

_HEAD = """# Methods

Made by `python -m spare_demo methods --table --model built-in`; do not edit by hand. In the costs
*n* is the number of visual tokens, *d* their width, *k* the budget, *w* the width of the vision
tower and *h* its heads, *c* the width of CLIP's joint space, *m* a setting or a share of *k*.
*Nested* means that the picks for a budget are the first picks of every larger one, so that one
run serves them all.
"""


def measure_methods(model: Model) -> tuple[dict[str, float], str]:
    """Median seconds that each method takes for 64 tokens of a picture, and where, in words.

    What a method reads of the vision tower is computed before the clock starts where it is
    computed once per picture (attention, keys), and inside it where it is not (the projector).
    Of a method inside the language model it is the time spent choosing what enters, where not all
    tokens do, and choosing during one prefill, all steps together, at 64 tokens or the least budget
    it can meet; one that needs a deeper model is left out.
    """
    size = 336
    ramp = Image.linear_gradient("L").resize((size, size))
    picture = Image.merge("RGB", (ramp, ramp.rotate(90), ramp.rotate(180)))
    view = model.encode(picture, "What colour is the largest thing in the picture?")
    tokens = view.tokens
    seconds: dict[str, float] = {}
    for name, method in PRUNERS.items():
        if model.reason_against(method):
            continue
        if isinstance(method, LayerPruner):
            seconds[name] = _inside(model, view, method)
            continue
        choose = functools.partial(method.select, tokens, BUDGET)
        runs = timeit.repeat(choose, number=1, repeat=RUNS + 1)  # the first warms up
        seconds[name] = statistics.median(runs[1:])
    where = (
        f"{BUDGET} of {tokens.n} tokens {tokens.features.shape[1]} wide, model {model.name} on "
        f"{model.device.type.upper()} ({platform.machine()}), median of {RUNS}; inside the "
        "language model the choosing in one prefill, at the least budget that the method can meet "
        f"where that is more than {BUDGET}"
    )
    return seconds, where


def _inside(model: Model, view: View, method: LayerPruner) -> float:
    """Median seconds of choosing."""
    budget = max(BUDGET, method.lowest(view.tokens.n, view.layers))
    watch = _Stopwatch(method)
    plan = dataclasses.replace(method.plan(view, budget), method=watch)  # type: ignore[arg-type]
    runs = []
    for _ in range(RUNS + 1):  # the first warms up
        start = time.perf_counter()
        method.entering(view.tokens, budget)
        watch.seconds = time.perf_counter() - start
        model.answer(view, plan, max_new_tokens=1)
        runs.append(watch.seconds)
    return statistics.median(runs[1:])


class _Stopwatch:
    """A method that notes how long it takes to choose."""

    def __init__(self, method: Method):
        self._method: Any = method
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        start = time.perf_counter()
        choice = self._method.choose(reading, stop)
        choice.kept.cpu()  # waits for a GPU
        self.seconds += time.perf_counter() - start
        return choice


def markdown(seconds: Mapping[str, float] | None = None, where: str = "not measured") -> str:
    """The whole page; seconds: per method, as `measure_methods` gives them."""
    seconds = seconds or {}
    head = (
        *("name", "paper", "acts", "reads", "a budget counts", "cost", "measured", "nested"),
        *("merges", "deviations"),
    )
    methods = [
        (
            f"`{name}`",
            f"[{method.paper}]({method.link})" if method.link else method.paper or "control",
            method.acts,
            "; ".join(method.reads) or "nothing",
            _counting(method),
            method.cost,
            f"{seconds[name] * 1000:.1f} ms" if name in seconds else "–",
            "yes" if method.nested else "no",
            "yes" if method.merges else "no",
            method.deviations or "none",
        )
        for name, method in PRUNERS.items()
    ]
    settings = [
        _setting(f"`{name}.{field}`", item, str(getattr(method, field)))
        for name, method in PRUNERS.items()
        for field, item in fields_of(method).items()
    ]
    return (
        f"{_HEAD}\nMeasured: {where}.\n\n{markdown_table(head, methods)}\n\n## Settings\n\n"
        "`--set METHOD.SETTING=VALUE`; the defaults are the papers'.\n\n"
        f"{markdown_table(('setting', 'default', 'values', 'what it does'), settings)}\n"
    )


def _counting(method: Method) -> str:
    """What a budget counts here, and what its paper counts where that is not the same."""
    note = method.counting_note
    if not method.inside:
        return "rows that enter" if method.merges else "tokens that enter"
    if not method.budget_is_average:
        return f"as its paper: {note}"
    return f"the average over layers; its paper: {note}" if note else "the average over layers"


def _setting(name: str, item: dataclasses.Field[Any], default: str) -> tuple[str, ...]:
    if not item.metadata:  # a plain field of a method of one's own
        return name, default, "", ""
    limits, choices = item.metadata["limits"], item.metadata["choices"]
    values = " to ".join(map(str, limits)) if limits else ", ".join(choices)
    return name, default, values, f"{item.metadata['label']}. {item.metadata['help']}"
