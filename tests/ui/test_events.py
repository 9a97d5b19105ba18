"""What begins a run on the page, and what Gradio's page makes of it."""

from __future__ import annotations

from collections import defaultdict

from spare_demo.models import Model
from spare_demo.settings import Settings
from spare_demo.ui import lab_page, wiring
from spare_demo.ui.page import build


def test_a_run_is_the_last_thing_that_its_event_begins(tiny_model: Model) -> None:
    """Gradio's page comes to what stands after it when the run is over."""
    begun: dict[tuple, list[bool]] = defaultdict(list)
    for event in build(tiny_model, Settings()).config["dependencies"]:
        for target in event["targets"]:
            begun[tuple(target)].append(".begin();" in (event["js"] or ""))
    orders = [
        runs for (_, kind), runs in begun.items() if kind not in ("load", "then") and any(runs)
    ]
    assert len(orders) > 20
    assert not any(any(runs[:-1]) for runs in orders)


def test_every_run_may_change_the_part_that_its_last_step_leaves_as_it_is(
    tiny_model: Model,
) -> None:
    assert (wiring.AGAIN[0], lab_page.AGAIN[0]) == ("curve", "curve")
    fns = build(tiny_model, Settings()).fns.values()
    runs = [fn for fn in fns if ".begin();" in str(fn.js)]
    assert len(runs) > 20
    for run in runs:
        assert {part.elem_id for part in run.outputs} & {"curve", "lab-curve"}
