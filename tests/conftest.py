"""Fixtures for all tests. Heavy libraries are imported only by the tests that use them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from local_hub import LocalHub

    from spare_demo.models import LlavaModel, Picture, View
    from spare_demo.models.families.llava_next import LlavaNextModel
    from spare_demo.models.families.qwen import QwenModel

# Before huggingface_hub is imported: no test downloads anything.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Before torch is imported: tests run in parallel, a process per core, so one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A job in a shell's background ignores interrupts, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # while the tests are imported; see pytest_collection_finish
# Runs are alike, and a busy machine fails no example.
hypothesis.settings.register_profile("alike", deadline=None, derandomize=True)
hypothesis.settings.load_profile("alike")

QUICK = ("analysis", "comparison", "images", "pruners", "render")
"""Folders without a browser, a served page or a trained model."""
SLOW = (
    "built_in",
    "wheel",
    "benchmarks",
    "notebook",
    "rehearsal",
    "devices",
    "fused",
    "one_more_method",
    "methods",
    "reference",
)
"""Files there, or beside this one, that take long all the same."""


def _is_quick(path: Path) -> bool:
    folder = path.relative_to(Path(__file__).parent).parts[0]
    if path.suffix == ".py" and path.stem.removeprefix("test_") in SLOW:
        return False
    return folder in QUICK or folder.endswith(".py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick` the other files are not even imported."""
    here = Path(__file__).parent
    if config.option.markexpr != "quick" or here not in collection_path.parents:
        return None
    return None if _is_quick(collection_path) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick lane, `pytest -m quick`."""
    for item in items:
        if _is_quick(item.path) and not item.get_closest_marker("long"):
            item.add_marker(pytest.mark.quick)


def pytest_collection_finish() -> None:
    """Set the imported libraries aside: looking for garbage among them, as a model does that gives
    its memory back, takes a third of a second each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def _write(factory: pytest.TempPathFactory, name: str) -> Path:
    import tiny_checkpoint
    import torch

    folder = factory.mktemp("checkpoint") / name
    with torch.random.fork_rng():
        torch.manual_seed(0)
        getattr(tiny_checkpoint, f"write_{name.removeprefix('tiny-').replace('-', '_')}_folder")(
            folder
        )
    return folder


def _load(folder: Path) -> Any:
    from spare_demo.models import load_model

    return load_model(str(folder), device="cpu")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local LLaVA checkpoint folder with ``clip/``. Copy it before changing anything."""
    return _write(tmp_path_factory, "tiny-llava")


@pytest.fixture(scope="session")
def tiny_next_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a LLaVA-NeXT."""
    return _write(tmp_path_factory, "tiny-llava-next")


@pytest.fixture(scope="session")
def tiny_qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a Qwen2.5-VL, without ``clip/``."""
    return _write(tmp_path_factory, "tiny-qwen")


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> LlavaModel:
    """The tiny checkpoint, loaded on the CPU: 16 visual tokens, 3 decoder layers."""
    return _load(tiny_folder)


@pytest.fixture(scope="session")
def tiny_next(tiny_next_folder: Path) -> LlavaNextModel:
    """The tiny LLaVA-NeXT, loaded on the CPU: views of 16 visual tokens, five in the fixed way."""
    return _load(tiny_next_folder)


@pytest.fixture(scope="session")
def tiny_qwen(tiny_qwen_folder: Path) -> QwenModel:
    """The tiny Qwen2.5-VL, loaded on the CPU: at most 60 visual tokens of 28 pixels."""
    return _load(tiny_qwen_folder)


@pytest.fixture(scope="session")
def built_in() -> LlavaModel:
    """The model that comes with the program, on the CPU: 576 visual tokens of drawn scenes."""
    from spare_demo.models import load_model

    return load_model("built-in", device="cpu")


@pytest.fixture(scope="session")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> LlavaModel:
    """A tiny LLaVA of 6 decoder layers: enough for every schedule inside the language model."""
    import torch
    from tiny_checkpoint import write_llava_folder

    folder = tmp_path_factory.mktemp("checkpoint") / "deep-llava"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        write_llava_folder(folder, layers=6)
    return _load(folder)


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """A wide RGB picture, 90 x 60, without two equal patches."""
    noise = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((90, 60), Image.Resampling.BICUBIC)


@pytest.fixture(scope="session")
def picture(tiny_model: LlavaModel, photo: Image.Image) -> Picture:
    """The photo as the tiny model sees it."""
    return tiny_model.look(photo)


@pytest.fixture(scope="session")
def view(tiny_model: LlavaModel, picture: Picture) -> View:
    return tiny_model.ask(picture, "What colour is the circle?")


@pytest.fixture
def photo_file(photo: Image.Image, tmp_path: Path) -> str:
    path = tmp_path / "photo.png"
    photo.save(path)
    return str(path)


@pytest.fixture
def half_by_default() -> Iterator[None]:
    """PyTorch's default format as every thread has it while transformers makes a model."""
    import torch

    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def local_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Mapping[str, Path]], LocalHub]]:
    """Serves folders as repositories of the hub, with an empty cache of the test's own."""
    from huggingface_hub import constants
    from local_hub import LocalHub

    with ExitStack() as stack:

        def serve(repositories: Mapping[str, Path]) -> LocalHub:
            server = stack.enter_context(LocalHub(repositories))
            monkeypatch.setattr(constants, "ENDPOINT", server.url)
            address = server.url + "/{repo_id}/resolve/{revision}/{filename}"
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
            monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
            monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
            return server

        yield serve


@pytest.fixture
def stubborn_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In programs started from now on the import of transformers says "importing", and outlives
    every interrupt that is raised in it, as the lazy modules there may."""
    folder = tmp_path / "stubborn-import"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        """
import importlib.abc, sys, time

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "transformers":
            print("importing", flush=True)
            while True:
                try:
                    time.sleep(60)
                except KeyboardInterrupt:
                    print("taken", flush=True)

sys.meta_path.insert(0, Finder())
"""
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
