"""The real program on random checkpoints of the true size, behind a hub on the loopback.

    python benchmarks/rehearse.py tiny-llava [llava-1.5-7b --without-language-model] [--json FILE]

Speed, memory, bytes moved and failures are true; answers are noise, and none is printed. A first
run writes the checkpoints into --folder (6 GB of disk for TinyLLaVA, 16 GB for LLaVA-1.5-7B).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from full_size import CLIP, SIZES, write_clip, write_llava  # noqa: E402
from local_hub import LocalHub  # noqa: E402

METHODS = ("spare", "cdpruner", "divprune", "visionzip", "random")


def say(words: str) -> None:
    """How far the program is."""
    print(f"[{time.perf_counter() - _BEGAN:6.1f} s] {words}", file=sys.stderr, flush=True)


_BEGAN = time.perf_counter()


def run(arguments: list[str]) -> dict[str, float]:
    """The program with these arguments: seconds, and the most memory that it held."""
    start = time.perf_counter()
    program = subprocess.Popen(
        [sys.executable, "-m", "spare_demo", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    peak = anonymous = 0
    while program.poll() is None:
        try:
            status = Path(f"/proc/{program.pid}/status").read_text()
        except OSError:
            break
        values = dict(line.split(":", 1) for line in status.splitlines() if "kB" in line)
        peak = max(peak, int(values.get("VmHWM", "0 kB").split()[0]))
        anonymous = max(anonymous, int(values.get("RssAnon", "0 kB").split()[0]))
        time.sleep(0.1)
    if program.wait():
        sys.exit(f"spare_demo {' '.join(arguments)} ended with {program.returncode}.")
    return {
        "seconds": time.perf_counter() - start,
        "peak_gb": peak * 1024 / 1e9,
        "peak_own_gb": anonymous * 1024 / 1e9,
    }


def compare(name: str, picture: Path, out: Path, eyes: bool) -> dict[str, Any]:
    """`compare` with every method that needs nothing special; its stages' seconds."""
    flags = ["--without-language-model"] if eyes else []
    figures: dict[str, Any] = run(
        [
            *("compare", str(picture), "What animal is this?", "--model", name, "--device", "cpu"),
            *("--budget", "64", "--max-new-tokens", "16", "--out", str(out)),
            *("--methods", *METHODS, *flags),
        ]
    )
    record = json.loads((out / "result.json").read_text())
    figures["encode_seconds"] = record["encode_seconds"]
    figures["prefill_seconds"] = {
        label: answer["prefill_seconds"] for label, answer in record["answers"].items()
    }
    return figures


def page(name: str, eyes: bool, patience: float) -> dict[str, Any]:
    """The page from a warm cache: until it is served, until pictures and answers after Ask."""
    from frames import browsing
    from page import peak_bytes, serving

    os.environ["SPARE_MAX_NEW_TOKENS"] = "16"
    os.environ["SPARE_WITHOUT_LANGUAGE_MODEL"] = "1" if eyes else "0"
    with serving(name, patience) as (url, program, waited):
        figures: dict[str, Any] = {"served_seconds": waited}
        with browsing(url, patience) as driver:
            driver.open()
            asked = [driver.ask() for _ in range(3)]
        figures["pictures_seconds"] = [pictures for pictures, _ in asked]
        figures["answers_seconds"] = [answers for _, answers in asked]
        figures["peak_gb"] = peak_bytes(program.pid) / 1e9
    return figures


def rehearse(name: str, folder: Path, eyes: bool, with_page: bool) -> dict[str, Any]:
    """Download, compare, restart from the cache, page."""
    repository = SIZES[name][0]
    source, clip = folder / name, folder / "clip"
    if not (source / "config.json").exists():
        say(f"writing {name}")
        write_llava(name, source)
    if not clip.exists():
        say("writing CLIP")
        write_clip(clip)
    home = Path(tempfile.mkdtemp(dir=folder))
    picture = home / "picture.png"
    noise = np.random.default_rng(0).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(picture)
    figures: dict[str, Any] = {"model": name, "without_language_model": eyes}
    try:
        with LocalHub({repository: source, CLIP[1]: clip}) as hub:
            os.environ |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
            say("first start: download and compare")
            figures["first"] = compare(name, picture, home / "out", eyes)
            figures["gb_moved"] = hub.bytes_sent / 1e9
            say("second start: from the cache")
            before = hub.bytes_sent
            figures["again"] = compare(name, picture, home / "out", eyes)
            figures["gb_moved_again"] = (hub.bytes_sent - before) / 1e9
            if with_page:
                say("the page")
                figures["page"] = page(name, eyes, patience=300)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("model", choices=tuple(SIZES))
    parser.add_argument("--without-language-model", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rehearsal")
    parser.add_argument("--no-page", action="store_true", help="the command line alone")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = rehearse(
        arguments.model,
        arguments.folder,
        arguments.without_language_model,
        not arguments.no_page,
    )
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
