"""The wheel: built from what the checkout ships, and used where there is no checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest
from installed import ROOT, install
from ports import free_port

EXAMPLES = json.loads((ROOT / "assets" / "examples" / "examples.json").read_text())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the installed wheel, its dependencies being those of the tests."""
    return install(tmp_path_factory.mktemp("wheel"))


def command(installed: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """The installed program's command line, and an environment without the checkout."""
    paths = {"PYTHONPATH": str(installed)}
    return [sys.executable, str(installed / "bin" / "spare-demo"), *words], os.environ | paths


def test_every_package_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "spare_demo").rglob("__init__.py")
    }
    assert set(project["tool"]["setuptools"]["packages"]) == folders | {"spare_demo.assets"}


def test_the_wheel_holds_all_that_the_package_reads(installed: Path) -> None:
    for folder in ("spare_demo", "assets/built-in", "assets/examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                inside = path.relative_to(ROOT / "assets" if "assets" in folder else ROOT)
                inside = "spare_demo/assets" / inside if "assets" in folder else inside
                assert (installed / inside).is_file(), inside


def test_the_installed_program_compares_and_serves(installed: Path, tmp_path: Path) -> None:
    words, environment = command(installed, "--help")
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "usage: spare-demo" in done.stdout, done.stderr
    example, port = EXAMPLES[0], free_port()
    picture = shutil.copy(ROOT / "assets" / "examples" / example["picture"], tmp_path)
    both = (
        ["compare", str(picture), example["question"], "--out", "out"],
        ["serve", "--model", "built-in", "--port", str(port)],
    )
    program = f"from spare_demo.cli.main import main\nfor words in {both}: assert main(words) == 0"
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL) as app:
        try:
            page = ""
            while not page:
                assert app.poll() is None, "the app ended"
                try:
                    page = httpx.get(f"http://127.0.0.1:{port}/", timeout=60).text
                except httpx.ConnectError:
                    time.sleep(0.5)
            assert "SPARE" in page and "SPARE.viewer" in page  # the page's own scripts are there
        finally:
            app.send_signal(signal.SIGINT)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["answers"]["unpruned"]["text"] == example["answer"]
    assert result["model"] == "built-in"
