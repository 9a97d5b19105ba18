"""What begins a run on the page, and what Gradio's page makes of it."""

from __future__ import annotations

from collections import defaultdict

from spare_demo.models import Model
from spare_demo.settings import Settings
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
