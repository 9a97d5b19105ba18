"""How fast and how large the page is: starts the real app as a program and prints one table.

    python benchmarks/page.py [--runs 5] [--starts 2] [--model built-in] [--json FILE]

Nothing is asserted: the numbers are of this machine, and of nothing else that runs on it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

# What the project wants on two CPU cores with the built-in model.
GOALS = {
    "start to page served": "20 s",
    "Ask to first pictures": "1 s",
    "Ask to all three answers": "2.5 s",
}
REDRAW_GOAL = "0.1 s"


@contextmanager
def serving(model: str) -> Iterator[tuple[str, subprocess.Popen, float]]:
    """The app as a program of its own: its address, the process, seconds until the page came."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(ROOT / "app.py"), "--model", model, "--port", str(port)]
    start = time.perf_counter()
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                if httpx.get(url, timeout=30).status_code == 200:
                    break
            except httpx.TransportError:
                if program.poll() is not None:
                    sys.exit("The app did not start; its message stands above.")
                time.sleep(0.05)
        yield url, program, time.perf_counter() - start
    finally:
        program.terminate()
        program.wait(30)


def peak_bytes(process: int) -> int:
    """The most memory the process ever held, by Linux's own account."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def visits(url: str, runs: int) -> dict[str, list[float]]:
    """Seconds in a real browser from the press of Ask, each time with a picture never seen."""
    from playwright.sync_api import sync_playwright

    from spare_demo.ui.examples import new_scene

    pictures, answers = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(url)
        page.wait_for_selector("#examples button[aria-label]")
        for _ in range(runs):
            scene = new_scene(Path(folder))
            page.get_by_label("Remove Image").click()
            page.locator("#picture input[type=file]").set_input_files(scene.path)
            page.locator("#picture .image-frame img").wait_for()
            page.locator("#question textarea").fill(scene.question)
            old = page.locator("#stage img").first.get_attribute("src")
            start = time.perf_counter()
            page.locator("#ask").click()
            page.wait_for_function(
                "old => document.querySelector('#stage img').src !== old", arg=old, polling=10
            )
            pictures.append(time.perf_counter() - start)
            page.wait_for_function(
                "() => [...document.querySelectorAll('#answers .figures')]"
                ".every(line => line.innerText.startsWith('prefill'))",
                polling=10,
            )
            answers.append(time.perf_counter() - start)
            page.locator("#ask").wait_for()  # the curve is there too
        browser.close()
    return {"Ask to first pictures": pictures, "Ask to all three answers": answers}


def inside(name: str, runs: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The slider's handler, timed at the server per layer; vision passes of one visit; versions."""
    import torch

    from spare_demo.models import load_model
    from spare_demo.settings import Settings
    from spare_demo.ui.handlers import Handlers
    from spare_demo.ui.stage import LAYERS, OVERVIEW

    model = load_model(name, "auto")
    handlers = Handlers(model, Settings())
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    model.hf.model.vision_tower.register_forward_hook(count)
    first, n = handlers.offered[0], handlers.tokens
    chosen = ("spare", "cdpruner", 0, "pad", -2, "stretches", min(64, n), OVERVIEW, None)
    visit = None
    for question in (first.question, "Another question?"):
        given: tuple[Any, ...] = (first.path, question, *chosen, visit)
        for shown in handlers.ask(*given):
            visit = shown.get("visit", visit)
    assert visit is not None
    seconds: dict[str, list[float]] = {}
    payload: dict[str, int] = {}
    for layer in LAYERS:
        for run in range(runs + 1):
            budget = 1 + (37 * run + 31) % n
            start = time.perf_counter()
            (shown,) = handlers.redraw(budget, layer, visit)
            # What Gradio sends: the HTML as it is, the figure as Plotly's JSON.
            sent = {**shown, "curve": shown["curve"].to_json()}
            size = len(json.dumps(sent).encode())
            if run:  # the first one fills caches
                seconds.setdefault(f"redraw, {layer}", []).append(time.perf_counter() - start)
                payload[layer] = max(size, payload.get(layer, 0))
    packages = ("torch", "transformers", "open_clip_torch", "gradio", "plotly", "pillow")
    return seconds, {
        "vision_passes_per_picture": passes,
        "redraw_payload_bytes": payload,
        "model": model.name,
        "revision": model.revision,
        "device": str(model.device),
        "torch_threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
    }


def line(name: str, values: list[float], goal: str) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    figures = f"{middle:8.3f} s   {low:.3f} to {high:.3f}"
    return f"{name:<28}{figures:<34}{len(values):>4}   {goal}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--runs", type=int, default=5, help="questions asked, redraws per layer")
    parser.add_argument("--starts", type=int, default=2, help="starts of the program")
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()

    seconds: dict[str, list[float]] = {"start to page served": []}
    peaks: list[int] = []
    for start in range(args.starts):
        with serving(args.model) as (url, program, served):
            seconds["start to page served"].append(served)
            if start == args.starts - 1:
                seconds |= visits(url, args.runs)
            peaks.append(peak_bytes(program.pid))
    redraws, about = inside(args.model, args.runs)
    seconds |= redraws

    print(f"\n{'':<28}{'median       lowest to highest':<34}{'runs':>4}   goal")
    for name, values in seconds.items():
        print(line(name, values, GOALS.get(name, REDRAW_GOAL)))
    passes = about["vision_passes_per_picture"]
    print(f"{'peak memory':<28}{max(peaks) / 1e9:8.2f} GB{'':<23}{len(peaks):>4}   2.5 GB")
    print(f"{'vision passes per picture':<28}{passes:8}{'':<26}{1:>4}   1, two questions asked")
    sizes = ", ".join(f"{k} {v / 1e3:.0f} kB" for k, v in about["redraw_payload_bytes"].items())
    print(f"redraw sends: {sizes}")
    print(
        f"{about['model']} {about['revision']} on {about['device']}, "
        f"{about['torch_threads']} torch threads, {about['cores']} cores, {about['machine']}"
    )
    print(", ".join(f"{name} {number}" for name, number in about["versions"].items()))
    if args.json:
        told = {"seconds": seconds, "peak_bytes": peaks, **about}
        args.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
