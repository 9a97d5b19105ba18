"""What each model of the table would take on this machine: memory, download, time of a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from spare_demo.models.base import ModelError
from spare_demo.models.families import FAMILIES
from spare_demo.models.generate.passes import OutOfMemory
from spare_demo.models.generate.prefill_floor import Rates
from spare_demo.models.loading import hub
from spare_demo.models.loading.catalogue import CATALOGUE, STORED, Entry, published_config
from spare_demo.models.loading.memory import (
    TEXT_SIDE,
    Fit,
    Room,
    count_weights,
    plan_room,
    without_language_model,
)
from spare_demo.models.loading.number_format import unpacks_in_every_pass

_WORDS = 60  # of a prompt, in tokens
_ANSWER = 16  # tokens
_KEPT = 64  # visual tokens of each pruned answer


@dataclass(frozen=True)
class Offer:
    """A model of the table on this machine, whole and without its language model.

    Attributes:
        entry: its row.
        room, vision_room: whether it fits.
        download, vision_download: bytes still to be moved.
        seconds: of one question with three answers of 16 tokens and the most visual tokens, by
            arithmetic from measured rates; None where it does not fit or quantised weights are
            unpacked in every pass. Real ones take longer.
    """

    entry: Entry
    room: Room
    vision_room: Room
    download: int
    vision_download: int
    seconds: float | None


def offers(fit: Fit, rates: Callable[[torch.dtype], Rates]) -> list[Offer]:
    """One for each model of the table that is not the built-in one.

    fit: where to, and what is given back there.
    rates: of that device in a number format.
    """
    return [_offer(CATALOGUE[name], fit, rates) for name in STORED]


def _offer(entry: Entry, fit: Fit, rates: Callable[[torch.dtype], Rates]) -> Offer:
    config = published_config(entry.name)
    family = FAMILIES[config.model_type]
    room = plan_room(config, family, fit)
    vision_room = plan_room(config, family, replace(fit, language_model=False, bits=16))
    weights = count_weights(config, family)
    vision = count_weights(without_language_model(config), family)
    stored, text = STORED[entry.name].itemsize, TEXT_SIDE if entry.clip else 0
    there = hub.is_complete(str(entry.source))

    def seconds() -> float | None:
        """Three prefills and the tower's pass at the rate of a matrix product; each token of the
        answers, which are written in step, at the rate at which the weights are read."""
        try:
            measured = rates(room.number_format.arithmetic)
        except (OutOfMemory, ModelError):
            return None
        tokens = family.most_tokens_of(config)
        prefills = 2 * weights.linear * (tokens + 2 * _KEPT + 3 * _WORDS)
        tower = 2 * vision.count * tokens
        read = _ANSWER * weights.bytes(room.number_format.weights, fit.bits)
        return (prefills + tower) / measured.product + read / measured.bandwidth

    return Offer(
        entry,
        room,
        vision_room,
        0 if there else weights.count * stored + text,
        0 if there else vision.count * stored + text,
        seconds() if room.fits and not unpacks_in_every_pass(fit.device, fit.bits) else None,
    )
