"""The choice that several methods share: what the prompt's last token attends to most."""

from __future__ import annotations

from spare_demo.pruners.plan import Choice, LayerReading, Stop
from spare_demo.pruners.ranking import largest


def most_attended(reading: LayerReading, stop: Stop, ahead: bool = False) -> Choice:
    """The rows with the most attention of the prompt's last token, mean over heads.

    ahead: as of `LayerReading.attention`.
    """
    last = len(reading.hidden) - 1
    scores = reading.attention([last], ahead)[:, 0].mean(dim=0)  # (T,)
    return Choice(largest(scores[reading.visual], stop.keep))
