"""`evaluate --data hf:…` reads a dataset of a hub, here one on the loopback, and resumes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from local_hub import LocalHub
from PIL import Image

from spare_demo.evaluation.results import load

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.long,  # the command starts four times
    pytest.mark.skipif(
        find_spec("datasets") is None, reason='datasets is not installed: pip install ".[datasets]"'
    ),
]


def test_a_dataset_of_the_hub_from_start_to_results(tiny_folder: Path, tmp_path: Path) -> None:
    import datasets

    repository = tmp_path / "repository"
    (repository / "pictures").mkdir(parents=True)
    files = [repository / "pictures" / f"{colour}.png" for colour in ("red", "blue")]
    for file in files:
        Image.new("RGB", (40, 30), file.stem).save(file)
    questions = {"question": ["What?", "Which?", "Where?"], "answer": ["x", "y", "z"]}
    held = [{"bytes": f.read_bytes(), "path": f.name} for f in (*files, files[0])]
    features = datasets.Features(
        image=datasets.Image(), question=datasets.Value("string"), answer=datasets.Value("string")
    )
    rows = datasets.Dataset.from_dict({**questions, "image": held}, features)
    rows.to_parquet(repository / "validation.parquet")
    paths = [f"pictures/{file.name}" for file in (*files, files[0])]
    datasets.Dataset.from_dict({**questions, "image": paths}).to_parquet(
        repository / "test.parquet"
    )

    def evaluate(out: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = ["evaluate", "--model", str(tiny_folder), "--device", "cpu", "--budgets", "3"]
        words += ["--methods", "random", "--max-new-tokens", "2", "--resamples", "20"]
        return subprocess.run(
            [sys.executable, "-m", "spare_demo", *words, "--out", str(tmp_path / out), *more],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )

    with LocalHub({"datasets/owner/name": repository}) as hub:
        environment = {
            **os.environ,
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "0",
        }
        ran = evaluate("bytes", "--data", "hf:owner/name:validation")
        assert ran.returncode == 0, ran.stderr
        found = load(tmp_path / "bytes")[1]
        assert len({row.picture for row in found}) == 2 and len(found) == 3 * 2
        ran = evaluate("paths", "--data", "hf:owner/name:test")
        assert ran.returncode == 0, ran.stderr
        # The same pictures and questions, whatever way they are stored.
        for name in ("settings.json", "results.csv", "summary.json"):
            one, other = ((tmp_path / out / name).read_bytes() for out in ("bytes", "paths"))
            assert one == other
        ran = evaluate("paths", "--data", "hf:owner/name:validation")
        assert ran.returncode == 0 and "100%" in ran.stderr.splitlines()[-1], ran.stderr
        assert (tmp_path / "paths" / "results.csv").read_bytes() == (
            tmp_path / "bytes" / "results.csv"
        ).read_bytes()
        ran = evaluate("none", "--data", "hf:owner/nothing:validation")
        assert ran.returncode == 1 and "Traceback" not in ran.stderr
        assert "The dataset owner/nothing cannot be read" in ran.stderr
