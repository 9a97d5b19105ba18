"""The optional fields of VisualTokens in words: what each is, and why a model cannot give it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class TokenField(NamedTuple):
    """label: what it is. missing: why a model cannot give it."""

    label: str
    missing: str


_NO_CLASS_TOKEN = "this model's vision tower has no class token"
FIELDS = {  # those in which methods read the question come first
    "clip_text": TokenField(
        "the question in CLIP's space",
        "this model has no CLIP text side, so a question cannot be compared with it",
    ),
    "words": TokenField(
        "the question's words as the language model reads them",
        "this model was loaded without its language model, whose words it reads",
    ),
    "states": TokenField(
        "states before the projector",
        "this model's vision tower gives no one state per visual token",
    ),
    "class_states": TokenField("the class token", _NO_CLASS_TOKEN),
    "project": TokenField(
        "the projector", "this model's projector does not take one visual token at a time"
    ),
    "cls_attention": TokenField("the class token's attention", _NO_CLASS_TOKEN),
    "attention_received": TokenField(
        "attention to each patch in two vision blocks",
        "this model's vision tower keeps its attention to itself",
    ),
    "vision_keys": TokenField(
        "keys of a vision block", "this model's vision tower keeps its attention keys to itself"
    ),
    "vision_values": TokenField(
        "values of a vision block",
        "this model's vision tower keeps its attention values to itself",
    ),
    "class_queries": TokenField("the class token's queries", _NO_CLASS_TOKEN),
}

_BY_WORDS = ", unless by its language model's words (guidance_text=words)"


def missing_reason(field: str, supplies: Collection[str]) -> str:
    """Why a model that fills only the fields ``supplies`` of VisualTokens cannot give this one."""
    other = _BY_WORDS if field == "clip_text" and "words" in supplies else ""
    return FIELDS[field].missing + other
