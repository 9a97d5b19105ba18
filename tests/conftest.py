"""Fixtures for all tests. Heavy libraries are imported only by the tests that use them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from spare_demo.models import LlavaModel

# Before huggingface_hub is imported: no test downloads anything.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local LLaVA checkpoint folder with ``clip/``. Copy it before changing anything."""
    import torch
    from tiny_checkpoint import write_llava_folder

    torch.set_num_threads(1)  # at this size a second thread only gets in the first one's way
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-llava"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        write_llava_folder(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> LlavaModel:
    """The tiny checkpoint, loaded on the CPU: 16 visual tokens, 3 decoder layers."""
    from spare_demo.models import load_model

    return load_model(str(tiny_folder), device="cpu")


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """A wide RGB picture, 90 x 60, without two equal patches."""
    noise = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((90, 60), Image.Resampling.BICUBIC)
