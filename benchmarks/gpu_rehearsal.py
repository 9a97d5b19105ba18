"""A rehearsal on a GPU that is paid by the second: without the download, and without a browser.

The checkpoint is written straight into the hub's cache, in memory where there is room. A part that
fails leaves its reason, and the next one runs; after each of them all figures are written.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import comparing
import httpx
import torch
from comparing import QUESTION, draw_picture
from full_size import CLIP, write_clip, write_model
from load import health, read_log
from measuring import say
from prepared import PreparedPrograms, Program
from serving import free_port, served, status
from visitors import Page, Run, connections, read_comparison, visiting

from spare_demo.models.families import FAMILIES
from spare_demo.models.loading.catalogue import BUILT_IN, CATALOGUE, published_config
from spare_demo.models.loading.memory import LoadOptions, count_weights, needed_bytes
from spare_demo.models.loading.number_format import suited_format
from spare_demo.table import markdown_table

PATIENCE = 240.0
"""Seconds for each part; what takes longer is ended."""
PICTURES = 10
"""How many one visitor asks about, one after the other."""
VISITORS = 32
"""How many ask at once."""
USUAL = 2
"""Methods at fewer bits than the first: three answers, of which the program says what they need."""
IN_FLOAT32 = ("llava-1.5-7b",)
"""The models whose captured prefill is compared with the eager one."""

_MEMORY_FOLDER = Path("/dev/shm")
_ROOM = 24_000_000_000
"""Bytes for the files of the largest of these models and of CLIP."""


class Record:
    """The figures of a rehearsal, in a file that is written after every part."""

    def __init__(self, file: Path, figures: dict[str, Any]) -> None:
        self.figures, self._file = figures, file

    @contextmanager
    def part(self, name: str, within: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The figures of one part, to be filled; what fails in it is kept as its `error`.

        within: the part that this one belongs to.
        """
        say(name)
        figures: dict[str, Any] = {}
        (self.figures if within is None else within)[name] = figures
        start = time.perf_counter()
        try:
            yield figures
        except (Exception, SystemExit) as error:
            figures["error"] = f"{type(error).__name__}: {error}"
            say(f"{name}: {figures['error']}")
        finally:
            figures["part_seconds"] = time.perf_counter() - start
            self._file.write_text(json.dumps(self.figures, indent=1) + "\n")


@dataclass(frozen=True)
class Rehearsal:
    """What all parts of one model's rehearsal share.

    Attributes:
        name: of the model. device: "cuda" or "cpu".
        budget: of the comparisons.
        home: a folder that is deleted afterwards.
        unused: bytes of the GPU's memory that were taken before.
    """

    name: str
    device: str
    budget: int
    home: Path
    programs: PreparedPrograms
    record: Record
    unused: int

    @property
    def picture(self) -> Path:
        """A picture to ask about."""
        return draw_picture(0, self.home / "picture.png")


def rehearse(
    name: str,
    device: str,
    methods: Sequence[str],
    budget: int,
    bits: Sequence[int],
    folder: Path,
    record: Record,
) -> None:
    """All parts: the checkpoint, `compare`, the page, float32, `compare` at fewer bits.

    methods: of `compare` at the first of the bits; at the others the first `USUAL` of them.
    folder: for a folder of files that is deleted at the end, where memory has no room for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=_place(folder)))
    cache = home / "hub"
    environment = {
        **{"HF_HOME": str(home), "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"},
        **{"NO_PROXY": "127.0.0.1,localhost", "SPARE_MAX_NEW_TOKENS": "16"},
    }
    programs = PreparedPrograms(home, environment)
    try:
        unused = used_bytes(device)
        parts = Rehearsal(name, device, budget, home, programs, record, unused)
        with record.part("written") as figures:
            write_cache(name, cache)
            files = [path for path in cache.rglob("*") if path.is_file()]
            figures["gb"] = sum(path.stat().st_size for path in files) / 1e9
        record.figures["compare"] = {}
        for number, each in enumerate(bits):
            with record.part(f"{each} bits", record.figures["compare"]) as figures:
                run_compare(parts, each, methods[:USUAL] if number else methods, figures)
            if number == 0:
                rehearse_page(parts)
            if number == 0 and name in IN_FLOAT32:
                with record.part("captured") as figures:
                    compare_prefills(parts, figures)
    finally:
        programs.close()
        shutil.rmtree(home, ignore_errors=True)


def _place(folder: Path) -> Path:
    """Where the files go: memory, or the folder where that has no room for them."""
    there = _MEMORY_FOLDER
    return there if there.is_dir() and shutil.disk_usage(there).free > _ROOM else folder


def write_cache(name: str, cache: Path) -> None:
    """The checkpoint, and CLIP where the model needs it, as the hub's client keeps what it has
    downloaded."""
    write_model(name, _snapshot(cache, str(CATALOGUE[name].source)))
    if FAMILIES[published_config(name).model_type].clip_tower:
        write_clip(_snapshot(cache, CLIP[1]))


def _snapshot(cache: Path, repository: str) -> Path:
    """The folder of a repository's one commit."""
    commit, folder = 40 * "0", cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    return folder / "snapshots" / commit


def run_compare(
    parts: Rehearsal, bits: int, methods: Sequence[str], figures: dict[str, Any]
) -> None:
    """`compare`: seconds, memory of both kinds, how it ended. It draws one picture: writing one
    for each method takes longer than all else."""
    out = parts.home / f"out-{bits}"
    arguments = comparing.arguments(
        *(parts.name, parts.device, parts.picture, out, parts.budget, methods)
    )
    arguments += ["--bits", str(bits), "--panels", "difference"]
    figures["methods"] = len(methods)
    run_to_end(parts, "spare_demo.cli.main", arguments, figures)
    estimate_memory(parts, bits, figures)
    if figures["status"] == 0:
        figures |= comparing.stages(out)


def compare_prefills(parts: Rehearsal, figures: dict[str, Any]) -> None:
    """The answers in float32 with a captured and with an eager prefill."""
    out = parts.home / "captured.json"
    arguments = [parts.name, parts.device, str(parts.picture), str(out)]
    run_to_end(parts, "captured_or_eager", arguments, figures)
    if figures["status"] == 0:
        figures["answers"] = json.loads(out.read_text())


def run_to_end(
    parts: Rehearsal, module: str, arguments: Sequence[str], figures: dict[str, Any]
) -> None:
    """`run`, with the program's `status` and, where it failed, its `last_words`."""
    with run(parts, module, arguments, figures) as (program, _):
        figures["status"] = program.process.wait(PATIENCE)
        figures["last_words"] = program.last_words if figures["status"] else ""


@contextmanager
def run(
    parts: Rehearsal, module: str, arguments: Sequence[str], figures: dict[str, Any]
) -> Iterator[tuple[Program, Watch]]:
    """A program, with its `seconds` and the most memory it took, of the computer and the GPU."""
    start = time.perf_counter()
    with parts.programs.run(module, arguments) as program:
        watch = Watch(program.process.pid, parts.device, parts.unused)
        watch.start()
        try:
            yield program, watch
        finally:
            watch.stop()
            figures["seconds"] = time.perf_counter() - start
            figures["peak_gb"] = watch.host_bytes / 1e9
            figures["gpu_peak_gb"] = watch.gpu_gb
    figures["gpu_of_torch_gb"] = program.gpu_gb()
    figures["log"] = program.messages[-20:]


class Watch(threading.Thread):
    """Looks ten times a second at the memory that a process holds.

    Attributes:
        host_bytes: the most of the computer's. own_bytes: of it, not of files.
        gpu_bytes: of the GPU's, all processes together.
    """

    def __init__(self, process: int, device: str, unused: int) -> None:
        """unused: bytes of the GPU's memory that were taken before."""
        super().__init__(daemon=True)
        self._process, self._device, self._unused = process, device, unused
        self._stopped = threading.Event()
        self.host_bytes = self.own_bytes = self.gpu_bytes = 0

    def run(self) -> None:
        """Look until it is stopped."""
        while True:
            self.gpu_bytes = max(self.gpu_bytes, used_bytes(self._device) - self._unused)
            with suppress(OSError):  # it may have ended
                self.host_bytes = max(self.host_bytes, 1024 * status(self._process, "VmHWM"))
                self.own_bytes = max(self.own_bytes, 1024 * status(self._process, "RssAnon"))
            if self._stopped.wait(0.1):
                return

    @property
    def gpu_gb(self) -> float:
        """The most of the GPU's until now, in gigabytes."""
        return self.gpu_bytes / 1e9

    def stop(self) -> None:
        """Look once more, and no more."""
        self._stopped.set()
        self.join()


def used_bytes(device: str) -> int:
    """Memory of the GPU that is in use, by whomever; 0 on the CPU."""
    if device == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def estimate_memory(parts: Rehearsal, bits: int, figures: dict[str, Any]) -> None:
    """What the program says that the model needs on a GPU, and what it took as a share of that."""
    config = published_config(parts.name)
    family = FAMILIES[config.model_type]
    options = LoadOptions(torch.device("cuda"), bits=bits)
    weights = count_weights(config, family)
    number_format = suited_format(config.dtype, weights.count, options.device)
    needed = needed_bytes(config, family, weights, options, number_format)
    figures["needed_gb"] = needed / 1e9
    figures["peak_to_needed"] = figures["gpu_peak_gb"] / figures["needed_gb"]


def rehearse_page(parts: Rehearsal) -> None:
    """The page: one visitor's pictures, many visitors at once, another model."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    arguments = ["serve", "--model", parts.name, "--device", parts.device, "--port", str(port)]
    arguments += ["--log-times", "--queue-size", str(VISITORS + 8)]
    record = parts.record
    with (
        record.part("page") as page,
        run(parts, "spare_demo.cli.main", arguments, page) as (program, watch),
    ):
        start = time.perf_counter()
        served(url, program.process, PATIENCE)
        page["served_seconds"] = time.perf_counter() - start
        with record.part("one visitor", page) as figures:
            in_time(ask_in_turn(url, draw_pictures(parts.home, PICTURES), figures, program.log))
        with record.part("many visitors", page) as figures:
            pictures = draw_pictures(parts.home, PICTURES + VISITORS)[PICTURES:]
            in_time(ask_at_once(url, pictures, figures))
        page["gpu_of_one_model_gb"] = watch.gpu_gb
        page["memory_gb"] = 1024 * status(program.process.pid, "VmRSS") / 1e9
        with record.part("another model", page) as figures:
            in_time(change_model(url, parts.picture, figures))


def in_time(steps: Any) -> None:
    """Run a coroutine; TimeoutError where it takes longer than `PATIENCE`."""
    asyncio.run(asyncio.wait_for(steps, PATIENCE))


def draw_pictures(folder: Path, number: int) -> list[Path]:
    """As many, each another one."""
    return [draw_picture(1 + seed, folder / f"picture-{seed}.png") for seed in range(number)]


async def ask_in_turn(
    url: str, pictures: Sequence[Path], figures: dict[str, Any], log: Path
) -> None:
    """One visitor asks about one picture after the other: seconds until the pictures came and
    until the end, and of the prefills. `figures` grow with every answer."""
    before = len(read_log(log))
    runs: list[Run] = []
    async with connections() as http:
        page = await Page.open(url, http)
        async with visiting(page, http) as visitor:
            for picture in pictures:
                runs.append(await visitor.ask(picture, QUESTION, following=False))
                _add(runs, figures)
                stages = [line["seconds"] for line in read_log(log)[before:]]
                figures["prefill_seconds"] = [s["prefill"] for s in stages if "prefill" in s]


async def ask_at_once(url: str, pictures: Sequence[Path], figures: dict[str, Any]) -> None:
    """A visitor for each picture, all at once. `figures` grow with every answer."""
    runs: list[Run] = []
    async with connections() as http:
        page = await Page.open(url, http)

        async def visit(picture: Path) -> None:
            async with visiting(page, http) as visitor:
                runs.append(await visitor.ask(picture, QUESTION, following=False))
                _add(runs, figures)
                figures["seconds_until_the_last"] = max(run.seconds for run in runs)

        await asyncio.gather(*(visit(picture) for picture in pictures))


async def change_model(url: str, picture: Path, figures: dict[str, Any]) -> None:
    """A visitor changes the model to the built-in one, and one asks the page that follows."""
    async with connections() as http:
        page = await Page.open(url, http)
        start = time.perf_counter()
        async with visiting(page, http) as visitor:
            visitor.set(model_name=BUILT_IN.name, model_typed="")
            event = page.event_that_reads("model-name", "model-typed")
            # The old page may close before it has said how this ended.
            changing = asyncio.create_task(visitor.run(event))
            while await _model_of(url, http) != BUILT_IN.name:
                if changing.done() and changing.exception() is None:
                    run = changing.result()
                    figures["outcome"] = run.refused or str(run.shown.get("model-status", ""))
                    if "It is loaded" not in figures["outcome"]:
                        return
                await asyncio.sleep(0.05)
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)
        figures["served_seconds"] = time.perf_counter() - start
        page = await Page.open(url, http)
        async with visiting(page, http) as visitor:
            _add([await visitor.ask(picture, QUESTION, following=False)], figures)


async def _model_of(url: str, http: httpx.AsyncClient) -> str:
    """The name of the model that answers; "" while none does."""
    try:
        async with asyncio.timeout(5):  # a server that is being closed may never answer
            return str((await health(url, http))["model"])
    except (httpx.HTTPError, TimeoutError):
        return ""


def _add(runs: Sequence[Run], figures: dict[str, Any]) -> None:
    """What came of visitors' questions."""
    answered = [run for run in runs if _is_answered(run)]
    figures["answered"] = len(answered)
    figures["refused"] = [
        run.refused or str(run.shown.get("message", "")) for run in runs if not _is_answered(run)
    ]
    figures["pictures_seconds"] = [run.first_seconds.get("stage") for run in answered]
    figures["answers_seconds"] = [run.seconds for run in answered]


def _is_answered(run: Run) -> bool:
    """Whether all tokens and both methods have their answer."""
    comparison = read_comparison(run)
    return comparison is not None and len(comparison.answers) == 3


def section(figures: dict[str, Any]) -> Iterator[str]:
    """One rehearsal as Markdown."""
    yield f"## {figures['model']} on a GPU\n"
    yield f"`{figures['command']}`, on {figures['machine']}.\n"
    yield (
        "The files were written into the hub's cache, without a download. Visitors spoke to the "
        "page as its script does, without a browser, and left the curve out. A program's seconds "
        "begin when its libraries are imported. What the program says it needs is for three "
        "answers, as on the page; more of them take more, and captured prefills, at 16 bits, up "
        "to 2.1 GB of what is free.\n"
    )
    yield markdown_table(("what", "figure"), list(_rows(figures))) + "\n"
    if "since" in figures:  # written by hand where the program has changed
        yield figures["since"] + "\n"


def _rows(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "gb" in (written := figures.get("written", {})):
        yield "files, written", f"{written['gb']:.1f} GB in {written['part_seconds']:.1f} s"
    for bits, part in figures.get("compare", {}).items():
        yield from ((f"{bits}: {what}", figure) for what, figure in _compare_rows(part))
    yield from ((f"page: {what}", figure) for what, figure in _page_rows(figures.get("page", {})))
    captured = figures.get("captured", {})
    if failure := _failure(captured):
        yield "captured prefill in float32", failure
    for label, answer in captured.get("answers", {}).items():
        same = "the same tokens" if answer["same_tokens"] else "other tokens"
        share = f"first scores differ by {answer['scores_differ_by']:.2g} of their size"
        yield f"captured prefill beside the eager one in float32, {label}", f"{same}; {share}"


def _compare_rows(part: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if failure := _failure(part):
        yield "compare", failure
    if "methods" in part:
        yield f"load, {part['methods']} methods", f"{part['seconds']:.1f} s"
    if "encode_seconds" in part:
        yield "encoding the picture", f"{part['encode_seconds'] * 1e3:.0f} ms"
    for label, seconds in part.get("answers", {}).items():
        if label in ("unpruned", "spare", "spare-reconstruction"):
            prefill, decode = seconds["prefill_seconds"], seconds["decode_seconds"]
            yield f"prefill, decoding, {label}", f"{prefill * 1e3:.1f} ms, {decode * 1e3:.0f} ms"
    if "needed_gb" in part:
        torch_gb = part["gpu_of_torch_gb"]
        own = f" (torch held {torch_gb['reserved']:.1f} GB, " if torch_gb else ""
        own += f"{torch_gb['allocated']:.1f} GB of it in use)" if torch_gb else ""
        yield (
            "most GPU memory, to what the program says it needs",
            f"{part['gpu_peak_gb']:.1f} GB{own}, to {part['needed_gb']:.1f} GB: "
            f"{part['peak_to_needed']:.2f}",
        )


def _page_rows(page: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if failure := _failure(page):
        yield "started", failure
    if "served_seconds" in page:
        yield (
            "from the start, its libraries imported, until it is served",
            _seconds([page["served_seconds"]]),
        )
    one, many = page.get("one visitor", {}), page.get("many visitors", {})
    for name, part in (("one visitor", one), ("many visitors", many)):
        if failure := _failure(part):
            yield name, failure
    if one.get("answers_seconds"):
        yield "Ask to the pictures, three new ones", _seconds(one["pictures_seconds"][:3])
        yield "Ask to the end, three new pictures", _seconds(one["answers_seconds"][:3])
    if prefills := one.get("prefill_seconds"):
        sums = [f"{sum(each.values()) * 1e3:.1f} ms" for each in (prefills[0], prefills[-1])]
        yield f"three prefills of question 1 and {len(prefills)}", " and ".join(sums)
    if "seconds_until_the_last" in many:
        asked = many["answered"] + len(many["refused"])
        last = many["seconds_until_the_last"]
        median = statistics.median(many["answers_seconds"] or [0])
        words = f"{many['answered']} answered, the last after {last:.1f} s, median {median:.1f} s"
        yield f"{asked} visitors at once", words
        yield "memory held by then, of the computer", f"{page['memory_gb']:.1f} GB"
    if "gpu_of_one_model_gb" in page:
        yield "most GPU memory by then", f"{page['gpu_of_one_model_gb']:.1f} GB"
    if "gpu_peak_gb" in page:
        yield "most GPU memory, the change of model included", f"{page['gpu_peak_gb']:.1f} GB"
    change = page.get("another model", {})
    if failure := _failure(change):
        yield "another model", failure
    if "outcome" in change and "served_seconds" not in change:
        yield "another model", change["outcome"]
    if "served_seconds" in change:
        answered = "answered" if change.get("answered") else "not answered"
        yield "built-in model in its place", f"{change['served_seconds']:.1f} s; then {answered}"


def _failure(part: dict[str, Any]) -> str:
    """Why a part failed, "" where it did not."""
    refused = "; ".join(sorted(set(part.get("refused", ()))))
    return part.get("error") or part.get("last_words") or refused


def _seconds(values: Sequence[float | None]) -> str:
    return " / ".join("none" if value is None else f"{value:.2f}" for value in values) + " s"
