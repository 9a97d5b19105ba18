"""How far a run is, and how long the rest will take at the pace so far."""

from __future__ import annotations

import sys
import time


class Bar:
    """One line with the time left: overwritten on a terminal, else at every twentieth."""

    def __init__(self, total: int, before: int = 0) -> None:
        self.total, self.done, self.before = total, before, before
        self.started = time.monotonic()
        self.shown = -1

    def show(self, more: int) -> None:
        """So many questions more are done."""
        self.done += more
        terminal, twentieth = sys.stderr.isatty(), 20 * self.done // self.total
        if not terminal and twentieth == self.shown:
            return
        self.shown = twentieth
        text = f"[{'#' * twentieth:<20}] {self.done} of {self.total} questions, {self._left()}"
        end = "\r" if terminal and self.done < self.total else "\n"
        print(f"{text:<72}", end=end, file=sys.stderr, flush=True)

    def _left(self) -> str:
        spent = time.monotonic() - self.started
        if self.done >= self.total:
            return f"done in {duration(spent)}"
        return (
            f"{duration(seconds_left(spent, self.done - self.before, self.total - self.done))} left"
        )


def duration(seconds: float) -> str:
    """ "42 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def seconds_left(spent: float, done: int, rest: int) -> float:
    """For the rest, at the pace of what was done in the seconds spent; done >= 1."""
    return spent / done * rest
