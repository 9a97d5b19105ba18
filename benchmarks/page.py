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
    "Ask to first pictures": "0.7 s",
    "Ask to all three answers": "2 s",
    "first paint to finished comparison": "2.5 s",
    "slowest frame, 576 tokens": "0.032 s",
    "slowest frame, 2,880 tokens": "0.050 s",
    "curve redrawn at the server": "0.1 s",
}
SENT_GOAL = 400_000

# Scrubs through every budget, one per frame, and gives the seconds each frame kept the browser
# busy: what the page itself did, and what the browser made of it until the next task.
SCRUB = """async layer => {
  SPARE.emit('layer', layer);
  await new Promise(done => setTimeout(done, 300));
  const spent = [], n = SPARE.state.data.n, step = n > 1000 ? 5 : 1;
  for (let k = 1; k <= n; k += step) {
    await new Promise(done => requestAnimationFrame(() => {
      const start = performance.now();
      SPARE.emit('budget', k);
      requestAnimationFrame(() => setTimeout(() => {
        spent.push((performance.now() - start) / 1000);
        done();
      }));
    }));
  }
  return spent;
}"""

# A made-up comparison of 2,880 tokens, drawn by the real viewer.
LARGE = """async () => {
  const n = 2880, rows = 48, columns = 60, patch = 16, base64 = array => {
    let text = '';
    for (const byte of new Uint8Array(array.buffer)) text += String.fromCharCode(byte);
    return btoa(text);
  };
  const order = () => {
    const all = Uint16Array.from({length: n}, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [all[i], all[j]] = [all[j], all[i]];
    }
    return {type: 'u2', data: base64(all)};
  };
  const numbers = () => ({type: 'f4', data: base64(Float32Array.from({length: n}, Math.random))});
  const sheet = document.createElement('canvas');
  Object.assign(sheet, {width: columns * patch, height: rows * patch});
  const ctx = sheet.getContext('2d');
  for (let i = 0; i < 4000; i++) {
    ctx.fillStyle = `hsl(${i % 360} 60% 50%)`;
    ctx.fillRect(Math.random() * sheet.width, Math.random() * sheet.height, 30, 30);
  }
  const method = label => ({name: label, title: label, label, nested: true, order: order(),
    gain: null, weight: numbers(), factors: null});
  await SPARE.show({
    key: 'large', picture: sheet.toDataURL(), n, rows, columns, cells: null, link: '',
    example: null, parts: [{start: 0, rows, cols: columns}], cosine: numbers(),
    squared_norms: numbers(), methods: {A: method('A one'), B: method('B two')},
    coordinates: null, padding: {type: 'u1', data: base64(new Uint8Array(n))}, shown: 64,
    canvas: {patch, x: 0, y: 0, width: sheet.width, height: sheet.height, cropped: false,
             photos: [[0, 0, sheet.width, sheet.height]]},
  });
}"""


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

    pictures, answers, opening = [], [], []
    frames: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--disable-dev-shm-usage"]
        )
        for _ in range(runs):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script("localStorage.setItem('spare-tour', 'done')")
            page.goto(url)
            page.wait_for_function(_FINISHED)
            opening.append(page.evaluate(_SINCE_FIRST_PAINT))
            if len(opening) < runs:
                page.close()
        for _ in range(runs):
            scene = new_scene(Path(folder))
            page.get_by_label("Remove Image").click()
            page.locator("#picture input[type=file]").set_input_files(scene.path)
            page.locator("#picture .image-frame img").wait_for()
            page.locator("#question textarea").fill(scene.question)
            old = page.evaluate("SPARE.state.data.key")
            start = time.perf_counter()
            page.locator("#ask").click()
            page.wait_for_function("old => SPARE.state.data.key !== old", arg=old, polling=10)
            pictures.append(time.perf_counter() - start)
            page.wait_for_function(
                "() => [...document.querySelectorAll('#answers .figures')]"
                ".every(line => line.innerText.startsWith('prefill'))",
                polling=10,
            )
            answers.append(time.perf_counter() - start)
            page.locator("#ask").wait_for()  # the curve is there too
        for name, layers in (("576", _LAYERS), ("2,880", _LAYERS[:3])):
            if name == "2,880":
                page.evaluate(LARGE)
            for layer in layers:
                frames[f"frame, {name} tokens, {layer}"] = page.evaluate(SCRUB, layer)
        browser.close()
    for name in ("576", "2,880"):
        own = [max(spent) for key, spent in frames.items() if f" {name} tokens" in key]
        frames[f"slowest frame, {name} tokens"] = [max(own)]
    return {
        "Ask to first pictures": pictures,
        "Ask to all three answers": answers,
        "first paint to finished comparison": opening,
        **frames,
    }


_LAYERS = ("difference", "order", "relevance", "leftover", "all")
_FINISHED = "() => window.SPARE?.state.painted && document.querySelector('#answers .figures')"
_SINCE_FIRST_PAINT = """() => (performance.now() -
    performance.getEntriesByName('first-contentful-paint')[0].startTime) / 1000"""


def inside(name: str, runs: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The slider's handler at the server; what a comparison sends; vision passes; versions."""
    import torch

    from spare_demo.models import load_model
    from spare_demo.settings import Settings
    from spare_demo.ui.handlers import Handlers

    model = load_model(name, "auto")
    handlers = Handlers(model, Settings())
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    model.hf.model.vision_tower.register_forward_hook(count)
    first, n = handlers.offered[0], handlers.tokens
    aspect = model.aspect(None)
    chosen = ("spare", "cdpruner", 0, aspect, -2, "stretches", min(64, n), None)
    visit, sent, picture = None, 0, 0
    for question in (first.question, "Another question?"):
        given: tuple[Any, ...] = (first.path, question, *chosen, visit)
        for shown in handlers.ask(*given):
            visit = shown.get("visit", visit)
            if "stage" in shown:
                picture = len(shown["stage"].pop("picture"))
                sent = len(json.dumps(shown["stage"]))
    assert visit is not None
    redraws: list[float] = []
    for run in range(runs + 1):
        start = time.perf_counter()
        list(handlers.redraw(1 + (37 * run + 31) % n, visit))
        redraws.append(time.perf_counter() - start)
    packages = ("torch", "transformers", "open_clip_torch", "gradio", "plotly", "pillow")
    return {"curve redrawn at the server": redraws[1:]}, {
        "vision_passes_per_picture": passes,
        "sent_bytes": sent,
        "picture_bytes": picture,
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
    return f"{name:<36}{figures:<34}{len(values):>4}   {goal}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument(
        "--runs", type=int, default=5, help="pages opened, questions asked, redraws"
    )
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

    print(f"\n{'':<36}{'median       lowest to highest':<34}{'runs':>4}   goal")
    for name, values in seconds.items():
        print(line(name, values, GOALS.get(name, "")))
    passes = about["vision_passes_per_picture"]
    print(f"{'peak memory':<36}{max(peaks) / 1e9:8.2f} GB{'':<23}{len(peaks):>4}   2.5 GB")
    print(f"{'vision passes per picture':<36}{passes:8}{'':<26}{1:>4}   1, two questions asked")
    sent, picture = about["sent_bytes"] / 1e3, about["picture_bytes"] / 1e3
    wanted = f"at most {SENT_GOAL / 1e3:.0f} kB is wanted"
    print(f"a comparison sends {sent:.0f} kB beside the {picture:.0f} kB picture; {wanted}")
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
