"""The tiny LLaVA's picture and a question about it, made once for all tests of models."""

from __future__ import annotations

import pytest
from PIL import Image

from spare_demo.models import LlavaModel, Picture, View


@pytest.fixture(scope="session")
def picture(tiny_model: LlavaModel, photo: Image.Image) -> Picture:
    return tiny_model.look(photo)


@pytest.fixture(scope="session")
def view(tiny_model: LlavaModel, picture: Picture) -> View:
    return tiny_model.ask(picture, "What colour is the circle?")
