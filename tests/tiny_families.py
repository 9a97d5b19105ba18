"""The families of models that the shared tests run on, by the fixtures of conftest.py."""

from __future__ import annotations

from spare_demo.models.families import FAMILIES as CLASSES

TINY = {"llava": "tiny_model", "llava_next": "tiny_next", "qwen2_5_vl": "tiny_qwen"}
"""By the `model_type` of a family: the fixture of its tiny checkpoint, loaded."""
FAMILIES = tuple(TINY.values())
FOLDERS = tuple(f"{name.removesuffix('_model')}_folder" for name in FAMILIES)
"""The fixtures of their folders, in the same order."""
WAYS = [(name, aspect) for kind, name in TINY.items() for aspect in CLASSES[kind].aspects]
"""Every family with each of its ways of fitting a picture."""
