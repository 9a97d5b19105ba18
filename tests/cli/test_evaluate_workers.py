"""`evaluate --workers`: what is refused before anything runs, and runs with Ray's own workers."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from evaluate_program import FILES, PATIENCE, Run
from ports import free_port

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason='Ray is not installed: pip install ".[ray]"'
)
_WORKER = "ray::MapWorker"


@pytest.mark.parametrize("count", ["0", "-2"])
def test_no_workers_are_refused(refusal, count: str) -> None:
    assert refusal("--workers", count) == "--workers must be 1 or more."


def test_one_gpu_for_several_workers_is_refused(refusal) -> None:
    assert "--device cuda:1 is one GPU" in refusal("--workers", "2", "--device", "cuda:1")


@pytest.mark.parametrize("more", [("--workers", "2"), ("--address", "127.0.0.1:6379")])
def test_without_ray_the_command_that_installs_it_is_said(
    refusal, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr("spare_demo.cli.evaluate.find_spec", lambda name: None)
    assert refusal(*more) == 'Several workers need Ray. Install it: pip install ".[ray]"'


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:PORT", "nonsense", "127.0.0.1:99999"])
def test_a_cluster_that_is_not_there(refusal, address: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens on it
        place = address.replace("PORT", str(unused.getsockname()[1]))
        said = refusal("--address", place)
    assert said.startswith(f"There is no cluster at {place}. Give --address as HOST:PORT")


def measuring(run: Run) -> list[psutil.Process]:
    """The processes of its workers."""
    return [
        child
        for child in psutil.Process(run.process.pid).children(recursive=True)
        if child.cmdline() and child.cmdline()[0].startswith(_WORKER)
    ]


def assert_equal(folder: Path, whole: Path) -> None:
    for name in (*FILES, "figures.html"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.fixture(scope="module")
def whole(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one process."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    run = Run(tiny_folder, folder, folder.parent / "log")
    assert run.end() == 0, run.log.read_text()
    return folder


@needs_ray
@pytest.mark.long  # half a minute for the start of Ray and of its workers
def test_two_workers_write_the_folder_of_one_process(
    tiny_folder: Path, tmp_path: Path, whole: Path
) -> None:
    run = Run(tiny_folder, tmp_path / "out", tmp_path / "log", "--workers", "2")
    assert run.end() == 0, run.log.read_text()
    assert "100/100" in run.log.read_text()
    assert_equal(tmp_path / "out", whole)


@needs_ray
@pytest.mark.long  # Ray starts, and a worker twice
def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(
    tiny_folder: Path, tmp_path: Path, whole: Path
) -> None:
    run = Run(tiny_folder, tmp_path / "out", tmp_path / "log", "--workers", "2")
    run.wait_for_rows()
    killed = random.Random(0).choice(measuring(run))
    killed.kill()
    assert run.end() == 0, run.log.read_text()
    assert "died" in run.log.read_text()
    assert_equal(tmp_path / "out", whole)


@needs_ray
@pytest.mark.long  # three starts, two of them of Ray
def test_a_run_goes_on_with_another_number_of_workers(
    tiny_folder: Path, tmp_path: Path, whole: Path
) -> None:
    sizes = []
    for count in ("2", "1", "2"):
        run = Run(tiny_folder, tmp_path / "out", tmp_path / "log", "--workers", count)
        run.wait_for_rows()
        family = psutil.Process(run.process.pid).children(recursive=True)
        run.kill()
        psutil.wait_procs(family, PATIENCE)  # Ray's processes end with the one that started them
        sizes.append(run.size())
    print(f"\nkilled at {sizes} of {(whole / 'results.csv').stat().st_size} bytes")
    assert sizes == sorted(set(sizes)) and sizes[-1] < (whole / "results.csv").stat().st_size
    run = Run(tiny_folder, tmp_path / "out", tmp_path / "log")
    assert run.end() == 0, run.log.read_text()
    assert_equal(tmp_path / "out", whole)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Ray cluster of two machines with one core each, both this one."""
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # a token would be written into the home folder
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus", "1"]
    head = [*ray, "--head", "--port", address.split(":")[1], "--include-dashboard", "false"]
    processes: list[subprocess.Popen[bytes]] = []
    with (tmp_path / "cluster.log").open("w") as log:
        try:
            for words in (head, [*ray, "--address", address]):
                processes.append(subprocess.Popen(words, stdout=log, stderr=log))
                deadline = time.monotonic() + PATIENCE
                text = ""
                while text.count("Ray runtime started.") < len(processes):
                    assert time.monotonic() < deadline, text
                    assert processes[-1].poll() is None, text
                    time.sleep(0.2)
                    text = (tmp_path / "cluster.log").read_text()
            yield address
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(PATIENCE)


@needs_ray
@pytest.mark.long  # Ray starts on two machines
def test_the_workers_of_a_cluster_write_the_folder_of_one_process(
    tiny_folder: Path, tmp_path: Path, whole: Path, cluster: str
) -> None:
    words = ("--address", cluster, "--workers")
    refused = Run(tiny_folder, tmp_path / "out", tmp_path / "refused.log", *words, "3")
    assert refused.end() == 1
    assert "3 workers need a core each, and there are 2." in refused.log.read_text()
    assert "Traceback" not in refused.log.read_text()
    run = Run(tiny_folder, tmp_path / "out", tmp_path / "log", *words, "2")
    assert run.end() == 0, run.log.read_text()
    assert_equal(tmp_path / "out", whole)


@needs_ray
@pytest.mark.long  # a worker starts four times
def test_a_picture_that_ends_every_worker_ends_the_run_with_a_sentence(
    tiny_folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import functools, os, sys\n"
        "from spare_demo.comparison.request import choose\n"
        "from spare_demo.evaluation.on_ray import open_workers\n"
        "from spare_demo.evaluation.experiment import Experiment\n"
        "from spare_demo.evaluation.sheets import Sheet, SheetQuestion\n"
        "from spare_demo.models import load_model\n"
        "experiment = Experiment(choose(('random',)), (3,))\n"
        "load = functools.partial(load_model, sys.argv[1], 'cpu')\n"
        "asked = (SheetQuestion('What?', ('x',)),)\n"
        "sheet = Sheet('data', 'x', asked, functools.partial(os._exit, 9))\n"
        "with open_workers(1, '', 'cpu', load) as workers:\n"
        "    fitted = workers.fit(experiment, False)\n"
        "    try:\n"
        "        list(workers.run(fitted.model, [sheet], fitted.experiment, set()))\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, str(program), str(tiny_folder)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()[-1]  # after what Ray says of each death
    assert re.match(r"A worker died \(\w+\), most likely because .* memory was full", said)
