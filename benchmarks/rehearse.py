"""The real program on random checkpoints of the true size, behind a hub on the loopback.

    python benchmarks/rehearse.py tiny-llava
    python benchmarks/rehearse.py llava-1.5-7b --without-language-model
    python benchmarks/rehearse.py llava-1.5-7b --bits 4
    python benchmarks/rehearse.py llava-1.5-7b qwen2.5-vl-7b --device cuda
    python benchmarks/rehearse.py --report

Speed, memory, bytes moved and failures are true; answers are noise, and none is printed. A first
run writes the checkpoints into --folder (7 GB of disk for TinyLLaVA, 16 GB for LLaVA-1.5-7B, and as
much again for the cache while it runs). At fewer bits only the usual methods are run. On a GPU
there is no download and no browser, and all files are deleted at the end (gpu_rehearsal.py). The
figures go to benchmarks/results/, and `--report` makes docs/REHEARSAL.md of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import comparing
import gpu_rehearsal
import torch
from full_size import CLIP, write_clip, write_model
from local_hub import LocalHub
from measuring import ROOT, say
from serving import peak_bytes, serving

from spare_demo.models.families import FAMILIES
from spare_demo.models.loading.catalogue import CATALOGUE, PUBLISHED, published_config
from spare_demo.models.loading.number_format import bfloat16_slowness
from spare_demo.pruners import PRUNERS
from spare_demo.settings import BITS
from spare_demo.table import markdown_table

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "REHEARSAL.md"
BUDGET = 64
PAUSE = 5.0
"""Seconds for the page to draw its curve before the next question, as a person leaves them."""
CUTS = (3, 200_000_000)
"""How many connections of the first download are cut, and after how many bytes each."""


def methods(name: str, vision_only: bool) -> list[str]:
    """All methods that can run on a model of the table at `BUDGET` tokens."""
    config = published_config(name)
    family = FAMILIES[config.model_type]
    text = {"clip_image", "clip_text", "clip_sentence"} if family.clip_tower else set()
    supplies = family.reads | text
    layers = config.get_text_config().num_hidden_layers
    most = family.most_tokens_of(config)
    tokens = most if family.clip_tower else min(576, most)  # Qwen's grow with the picture
    return [
        name
        for name, method in PRUNERS.items()
        if not (method.inside and vision_only)
        and method.reason_against(supplies, layers) is None
        and method.lowest(tokens, layers) <= BUDGET
    ]


def flags(vision_only: bool, bits: int) -> list[str]:
    """Of `compare` and of this program."""
    fewer = [] if bits == 16 else ["--bits", str(bits)]
    return [*(["--without-language-model"] if vision_only else []), *fewer]


def compare(
    name: str, picture: Path, out: Path, vision_only: bool, bits: int, which: list[str]
) -> dict[str, Any]:
    """`compare`: seconds, the most memory it held, how it ended, and the seconds of its stages."""
    arguments = comparing.arguments(name, "cpu", picture, out, BUDGET, which)
    arguments += flags(vision_only, bits)
    start = time.perf_counter()
    program = subprocess.Popen(
        [sys.executable, "-m", "spare_demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = gpu_rehearsal.Watch(program.pid, "cpu", unused=0)
    watch.start()
    _, errors = program.communicate()
    watch.stop()
    figures = {
        "seconds": time.perf_counter() - start,
        "peak_gb": watch.host_bytes / 1e9,
        "peak_own_gb": watch.own_bytes / 1e9,
        "status": program.returncode,
        "last_words": (errors.strip().splitlines() or [""])[-1] if program.returncode else "",
    }
    return figures if figures["status"] else figures | comparing.stages(out)


def page(name: str, vision_only: bool, bits: int, patience: float) -> dict[str, Any]:
    """The page from a warm cache: until it is served, until pictures and answers after Ask."""
    from frames import browsing

    os.environ["SPARE_MAX_NEW_TOKENS"] = "16"
    os.environ["SPARE_BITS"] = str(bits)
    os.environ["SPARE_WITHOUT_LANGUAGE_MODEL"] = "1" if vision_only else "0"
    with serving(name, patience) as (url, program, waited):
        figures: dict[str, Any] = {"served_seconds": waited}
        with browsing(url, patience) as driver:
            figures["first_visitor_seconds"] = driver.open()
            asked = []
            for _ in range(3):
                time.sleep(PAUSE)
                asked.append(driver.ask(answers=not vision_only))
        figures["pictures_seconds"] = [pictures for pictures, _ in asked]
        figures["answers_seconds"] = [answers for _, answers in asked]
        figures["peak_gb"] = peak_bytes(program.pid) / 1e9
    return figures


def rehearse(
    name: str, folder: Path, vision_only: bool, bits: int = 16, with_page: bool = True
) -> dict[str, Any]:
    """Download with cuts, compare, restart from the cache with all methods, page.

    folder: of the checkpoints, which are written where they are missing.
    bits: below 16 with the usual methods alone.
    """
    repository = str(CATALOGUE[name].source)
    source, clip = folder / name, folder / "clip"
    if not (source / "config.json").exists():
        say(f"writing {name}")
        write_model(name, source)
    if FAMILIES[published_config(name).model_type].clip_tower and not clip.exists():
        say("writing CLIP")
        write_clip(clip)
    home = Path(tempfile.mkdtemp(dir=folder))
    picture = comparing.draw_picture(0, home / "picture.png")
    figures: dict[str, Any] = {
        "command": "python benchmarks/rehearse.py " + " ".join([name, *flags(vision_only, bits)]),
        "model": CATALOGUE[name].title,
        "without_language_model": vision_only,
        "bits": bits,
        "machine": machine(),
    }
    try:
        with LocalHub({repository: source, CLIP[1]: clip}) as hub:
            os.environ |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
            say("first start: download, with connections cut, and compare")
            hub.faults.cuts, hub.faults.cut_after = CUTS
            usual = [methods(name, vision_only)[0], "random"]
            figures["first"] = compare(name, picture, home / "out", vision_only, bits, usual)
            figures["connections_cut"] = CUTS[0] - hub.faults.cuts
            figures["gb_moved"] = hub.bytes_sent / 1e9
            hub.faults.cuts = 0
            if figures["first"]["status"]:
                return figures
            say("second start, from the cache, with all methods")
            before = hub.bytes_sent
            which = methods(name, vision_only) if bits == 16 else usual
            figures["again"] = compare(name, picture, home / "out", vision_only, bits, which)
            figures["methods"] = len(which)
            if figures["again"]["status"]:
                sys.exit(figures["again"]["last_words"])
            figures["gb_moved_again"] = (hub.bytes_sent - before) / 1e9
            if with_page:
                say("the page")
                figures["page"] = page(name, vision_only, bits, patience=500)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def rehearse_on_gpu(name: str, folder: Path, bits: Sequence[int]) -> Path:
    """All parts of gpu_rehearsal.py: the file of the figures."""
    file = RESULTS / f"rehearsal-{name}-cuda.json"
    fewer = "" if tuple(bits) == BITS else f" --bits {' '.join(map(str, bits))}"
    figures = {
        "command": f"python benchmarks/rehearse.py {name} --device cuda{fewer}",
        "model": CATALOGUE[name].title,
        "device": "cuda",
        "machine": f"{torch.cuda.get_device_name()}, {machine()}",
    }
    record = gpu_rehearsal.Record(file, figures)
    gpu_rehearsal.rehearse(name, "cuda", methods(name, False), BUDGET, bits, folder, record)
    return file


def machine() -> str:
    """What the figures are of."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    words = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    slowness = bfloat16_slowness()
    digits = 0 if slowness >= 10 else 1
    return (
        f"{words.get('model name', 'unknown processor')} (family {words.get('cpu family')}, model "
        f"{words.get('model')}), {os.cpu_count()} cores, {memory:.0f} GB; a product in bfloat16 "
        f"takes {slowness:.{digits}f} times as long as in float32; {platform.platform()}, torch "
        f"{version('torch')}, transformers {version('transformers')}"
    )


INTRODUCTION = """# Rehearsal at true size

Made by `python benchmarks/rehearse.py --report` from the files in `benchmarks/results/`; do not
edit. No published weights could be had where this was made. So checkpoints of the true size, in
the published layout, with random weights, were served by a hub on the loopback, and the real
program was run against it: what it moves, takes and needs is true, what it answers is noise, and
nothing here says what a published model answers.

`download` counts all bytes that the hub sent; the first three connections that moved more than
200 MB were cut, and the download went on by itself. The second start is from the cache. An answer
has at most 16 tokens, the budget is 64.
"""


def report() -> str:
    """docs/REHEARSAL.md."""
    files = sorted(RESULTS.glob("rehearsal-*.json"))
    return "\n".join([INTRODUCTION, *(line for f in files for line in section(f))]) + "\n"


def section(file: Path) -> Iterator[str]:
    """One rehearsal as Markdown."""
    figures = json.loads(file.read_text())
    if figures.get("device") == "cuda":
        yield from gpu_rehearsal.section(figures)
        return
    part = ", without its language model" if figures["without_language_model"] else ""
    if (bits := figures.get("bits", 16)) != 16:
        part += f", in {bits} bits"
    slowness = float(re.findall("takes ([0-9.]+) times as long", figures["machine"])[0])
    speed = "fast" if slowness < 1 else "slow"
    yield f"## {figures['model']}{part}, where bfloat16 is {speed}\n"
    yield f"`{figures['command']}`, on {figures['machine']}.\n"
    first = figures["first"]
    if first["status"]:
        yield (
            f"It is refused, {first['seconds']:.0f} s after the start and with "
            f"{figures['gb_moved'] * 1000:.1f} MB moved: “{first['last_words']}”\n"
        )
        return
    again, shown = figures["again"], figures["page"]
    rows = [
        ("download, connections cut", f"{figures['gb_moved']:.2f} GB, "
         f"{figures['connections_cut']}"),
        ("first start: download, load, two methods", f"{first['seconds']:.0f} s"),
        (f"second start: load, {figures['methods']} methods", f"{again['seconds']:.0f} s"),
        ("moved at the second start", f"{figures['gb_moved_again'] * 1e9:.0f} bytes"),
        ("encoding the picture", f"{again['encode_seconds']:.2f} s"),
        *_answers(again["answers"]),
        ("most memory; without the pages of files", f"{again['peak_gb']:.1f} GB, "
         f"{again['peak_own_gb']:.1f} GB"),
        ("page: from the start until it is served", f"{shown['served_seconds']:.0f} s"),
        ("page: until its first visitor sees the pictures", _range(
            [shown["first_visitor_seconds"]])),
        ("page: Ask to the pictures, three new ones", _range(shown["pictures_seconds"])),
        ("page: Ask to the end, three new pictures", _range(shown["answers_seconds"])),
        ("page: most memory, pages of files counted", f"{shown['peak_gb']:.1f} GB"),
    ]  # fmt: skip
    yield markdown_table(("what", "figure"), rows) + "\n"


def _answers(answers: dict[str, dict[str, float]]) -> Iterator[tuple[str, str]]:
    for label in ("unpruned", "spare", "spare-reconstruction"):
        if label in answers:
            seconds = answers[label]
            name = "all tokens" if label == "unpruned" else f"{label}, 64 tokens"
            yield f"prefill, {name}", f"{seconds['prefill_seconds']:.2f} s"


def _range(seconds: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in seconds) + " s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(PUBLISHED))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--without-language-model", action="store_true", help="on the CPU")
    parser.add_argument("--bits", nargs="+", type=int, choices=BITS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rehearsal")
    parser.add_argument("--report", action="store_true", help="also write docs/REHEARSAL.md")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - set(PUBLISHED):
        parser.error(f"choose models of {', '.join(PUBLISHED)}, not {', '.join(unknown)}")
    if not arguments.models and not arguments.report:
        parser.error("name a model, or --report")
    # Ended by `timeout`, it ends its programs and deletes its files.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    vision_only = arguments.without_language_model
    for name in arguments.models:
        if arguments.device == "cuda":
            bits = arguments.bits or BITS
            print(rehearse_on_gpu(name, arguments.folder, bits).read_text())
            continue
        for bits in arguments.bits or [16]:
            text = json.dumps(rehearse(name, arguments.folder, vision_only, bits), indent=1)
            print(text)
            part = ("-vision" if vision_only else "") + ("" if bits == 16 else f"-{bits}bit")
            (RESULTS / f"rehearsal-{name}{part}.json").write_text(text + "\n")
    if arguments.report:
        PAGE.write_text(report())


if __name__ == "__main__":
    main()
