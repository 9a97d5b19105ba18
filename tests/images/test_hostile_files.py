"""Files made to break decoders: each is a picture or a sentence, and no memory beyond a gigabyte.

The test images of Pillow, with its crashes, time-outs and truncations, come from the package
registry with its source; further ones are files of each kind, cut off or with bytes changed.
What was tried is printed: `pytest -n 0 -s -m long tests/images/test_hostile_files.py`.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tarfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import PIL
import pytest
from PIL import Image
from references import encoded

from spare_demo.images.load import PictureError, open_picture

pytestmark = pytest.mark.long

PATIENCE = 60
"""Seconds after which a file counts as one that never ends; the machine may be busy."""
MEMORY_BYTES = 1_000_000_000


def _open_files(connection: Connection) -> None:
    """Answers each file with how it ended and after how many seconds."""
    try:
        import resource
    except ImportError:  # no such bound on Windows
        pass
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("error")  # as in all tests: one more way for a parser to fail
    while True:
        data, start = connection.recv(), time.perf_counter()
        try:
            open_picture(data)
            outcome = "picture"
        except PictureError as refusal:
            outcome = str(refusal)
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        connection.send((outcome, time.perf_counter() - start))


class Opener:
    """A process that opens files one after the other, and is replaced where it dies."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_open_files, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def open(self, data: bytes) -> tuple[str, float]:
        self._connection.send(data)
        try:
            if self._connection.poll(PATIENCE):
                return self._connection.recv()
            outcome = "no end"
        except EOFError:
            outcome = "the process died"
        self.close()
        self._start()
        return outcome, float(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.join()


@pytest.fixture(scope="module")
def opener() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    opener.close()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the installed Pillow."""
    folder = tmp_path_factory.mktemp("pillow")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    result = subprocess.run(
        [*pip, "--dest", str(folder), f"pillow=={PIL.__version__}"], capture_output=True, text=True
    )
    files = [*folder.glob("*.tar.gz")]
    if not files:
        reason = (result.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        pytest.skip(f"the source of Pillow cannot be fetched: {reason}")
    return files[0]


def try_all(opener: Opener, files: Iterable[tuple[str, bytes]]) -> int:
    """Opens every file, prints what came out, and returns how many there were."""
    results = {name: opener.open(data) for name, data in files}
    outcomes = Counter(outcome for outcome, _ in results.values())
    slowest = max(results, key=lambda name: results[name][1])
    print(f"\n{len(results)} files; slowest {results[slowest][1]:.1f} s: {slowest}")
    for outcome, times in outcomes.most_common():
        print(f"{times:5} {outcome}")
    sentences = {outcome for outcome in outcomes if outcome.endswith(" choose that.")}
    wrong = {n: o for n, (o, _) in results.items() if o != "picture" and o not in sentences}
    assert not wrong
    return len(results)


def test_every_test_image_of_pillow(opener: Opener, archive: Path) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        with tarfile.open(archive) as tar:
            for member in tar:
                if "/Tests/images/" in member.name and member.isfile():
                    yield member.name.partition("/Tests/images/")[2], tar.extractfile(member).read()

    assert try_all(opener, files()) >= 1_000


def _damaged(data: bytes, random: np.random.Generator) -> Iterator[bytes]:
    for _ in range(20):
        yield data[: random.integers(1, len(data))]
    for _ in range(30):
        changed = bytearray(data)
        # Near the start, where a file says what it holds, or anywhere.
        most = len(data) if random.random() < 0.5 else min(200, len(data))
        for place in random.integers(0, most, random.integers(1, 6)):
            changed[place] = random.integers(256)
        yield bytes(changed)


def test_files_that_are_cut_off_or_changed(opener: Opener) -> None:
    random = np.random.default_rng(0)
    noise = Image.fromarray(random.integers(0, 256, (60, 90, 3), dtype=np.uint8))
    options = {"progressive JPEG": {"progressive": True}, "JPEG in a TIFF": {"compression": "jpeg"}}
    kinds = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF", "PPM", "ICO", "JPEG2000")
    Image.init()

    def files() -> Iterator[tuple[str, bytes]]:
        for name in (*(kind for kind in kinds if kind in Image.SAVE), *options):
            whole = encoded(noise, name.split()[-1], **options.get(name, {}))
            for number, data in enumerate(_damaged(whole, random)):
                yield f"{name} {number}", data

    assert try_all(opener, files()) >= 500
