"""What the programs of this folder share: options, timing in turns, the table, the file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # so that every program finds the package of this checkout

from spare_demo.table import text_table  # noqa: E402

HEAD = ("what", "device", "dtype", "shape", "median", "lowest to highest", "floor", "ratio")
"""Of the table of figures, whose rows are `cells`."""

_BEGAN = time.perf_counter()


@dataclass(frozen=True)
class Figure:
    """One measured thing.

    Attributes:
        what, device, dtype, shape: of what, in words.
        seconds: of every run, in the order made.
        floor: what the floor is, in words; "" where there is none.
        floor_seconds: the floor in each of the same runs, or one figure for all.
        note: what else a reader must know.
    """

    what: str
    device: str
    dtype: str
    shape: str
    seconds: Sequence[float]
    floor: str = ""
    floor_seconds: Sequence[float] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median over the runs of time to floor, each run against the floor beside it."""
        if not self.floor_seconds:
            return None
        floors = self.floor_seconds
        if len(floors) == 1:
            floors = [floors[0]] * len(self.seconds)
        return statistics.median(s / f for s, f in zip(self.seconds, floors, strict=True))


def read_arguments(
    parser: argparse.ArgumentParser, runs: int
) -> tuple[argparse.Namespace, torch.device]:
    """A program's options with those that all have, and the device asked for.

    runs: how many, where none are asked for. Ends the program where there is no such device.
    """
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    arguments = parser.parse_args()
    cuda = arguments.device != "cpu" and torch.cuda.is_available()
    if arguments.device == "cuda" and not cuda:
        sys.exit("There is no CUDA device here. Run with --device cpu.")
    return arguments, torch.device("cuda" if cuda else "cpu")


def in_turns(
    runs: int,
    device: torch.device,
    clock: Callable[[], float] = time.perf_counter,
    **steps: Callable[[], Any],
) -> dict[str, list[float]]:
    """Seconds of every step, one after the other in each run, so that what slows the machine slows
    all of them. The first, uncounted, run warms up; a GPU is waited for before and after."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for run in range(runs + 1):
        for name, step in steps.items():
            synchronise(device)
            start = clock()
            step()
            synchronise(device)
            if run:
                seconds[name].append(clock() - start)
    return seconds


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def where(device: torch.device, dtype: torch.dtype) -> tuple[str, str]:
    """A figure's device and dtype, in words."""
    return device_name(device), str(dtype).removeprefix("torch.")


def device_name(device: torch.device) -> str:
    """The device as a reader knows it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        names = [r for r in cpus.read_text().splitlines() if r.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return f"{model}, {torch.get_num_threads()} threads"


def say(words: str) -> None:
    """How far the program is."""
    print(f"[{time.perf_counter() - _BEGAN:6.1f} s] {words}", file=sys.stderr, flush=True)


def finish(title: str, figures: Sequence[Figure], to: Path | None, **about: Any) -> None:
    """Print the table and write the JSON file."""
    print(f"\n{title}")
    rows = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
    print(text_table(HEAD, list(map(cells, rows))))
    told = {
        "title": title,
        "command": "python " + " ".join([f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "figures": rows,
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load_at_end": round(os.getloadavg()[0], 2),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": version("transformers"),
        },
        **about,
    }
    print(f"{told['machine']}, {told['cores']} cores, load {told['load_at_end']}")
    for name, value in about.items():
        print(f"{name}: {value}")
    if to:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(json.dumps(told, indent=1) + "\n")


def cells(figure: Mapping[str, Any]) -> tuple[str, ...]:
    """One figure's row, from its JSON form."""
    times, floors = figure["seconds"], figure["floor_seconds"]
    floor = ""
    if floors:
        floor = f"{figure['floor']} {milliseconds(statistics.median(floors))}"
    ratio = figure["ratio"]
    return (
        figure["what"],
        figure["device"],
        figure["dtype"],
        figure["shape"],
        milliseconds(statistics.median(times)) if times else figure["note"],
        f"{milliseconds(min(times))} to {milliseconds(max(times))}" if times else "",
        floor,
        "" if ratio is None else f"{ratio:.2f}",
    )


def milliseconds(seconds: float) -> str:
    """0.0123 -> "12.3 ms"."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.2f} s"
