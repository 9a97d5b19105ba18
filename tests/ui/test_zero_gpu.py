"""The page as a ZeroGPU Space serves it, with the package `spaces`; see zero_gpu_program.py."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from spare_demo import compare, load_model

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("spaces") is None,
    reason="the package spaces is not installed; a ZeroGPU Space brings it (pip install spaces)",
)

PICTURE = "assets/examples/scene-1001.png"
QUESTION = "What word is on the purple circle?"
PROGRAM = Path(__file__).with_name("zero_gpu_program.py")


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any, Path]]:
    """Address, process and log of a page that is served so."""
    from ports import free_port

    port, log = free_port(), tmp_path_factory.mktemp("space") / "log"
    flags = ["--model", "built-in", "--device", "cpu", "--port", str(port), "--public"]
    # The package keeps files in the home folder.
    environment = os.environ | {"HOME": str(log.parent), "PYTHONPATH": os.getcwd()}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *flags],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    address = f"http://127.0.0.1:{port}"
    while "Open http" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    yield address, process, log
    if process.poll() is None:
        process.kill()
    process.wait()


def lent(log: Path) -> int:
    """How often a GPU was asked for."""
    return len(re.findall(r"LENDER /schedule", log.read_text()))


def test_a_gpu_is_borrowed_for_the_answers_the_model_gives(space: tuple[str, Any, Path]) -> None:
    address, _, log = space
    assert lent(log) == 0  # nor was there a warm-up or an opening
    client, model = Client(address, verbose=False), load_model("built-in", device="cpu")
    picture = handle_file(PICTURE)
    for a, b in (("spare", "cdpruner"), ("visionzip", "zoo-prune")):
        before = lent(log)
        answers = client.predict(picture, QUESTION, a, b, 32, 0, api_name="/compare")["answers"]
        result = compare(model, PICTURE, QUESTION, (a, b), 32)
        assert {label: answer["text"] for label, answer in answers.items()} == {
            label: answer.text for label, answer in result.answers.items()
        }
        assert lent(log) == before + 1
    with pytest.raises(AppError, match="There is no method 'nope'"):
        client.predict(picture, QUESTION, "nope", "spare", 32, 0, api_name="/compare")
    assert client.predict(picture, QUESTION, "spare", 4, 0, api_name="/select")["order"]
    assert "Traceback" not in log.read_text()


def test_a_worker_serves_the_next_event(space: tuple[str, Any, Path]) -> None:
    address, _, log = space
    client = Client(address, verbose=False)
    for _ in range(3):
        client.predict(handle_file(PICTURE), QUESTION, "[1]", api_name="/answer")
    assert len(set(re.findall(r"LENDER /allow.*pid=(\d+)", log.read_text()))) == 1


def test_the_server_ends_with_its_workers(space: tuple[str, Any, Path]) -> None:
    address, process, log = space
    assert urlopen(f"{address}/health", timeout=10).status == 200
    workers = [int(pid) for pid in re.findall(r"LENDER /allow.*pid=(\d+)", log.read_text())]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    assert workers
    for worker in workers:
        stat = Path(f"/proc/{worker}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
