"""What pruning saves: the rows of the cost table, and the same in one sentence.

Every number comes from an `Answer`, that is from this run on this device; shares are of the
unpruned model's. Where a method saves nothing, the sentence says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spare_demo.comparison.request import UNPRUNED
from spare_demo.models import Answer
from spare_demo.table import percent_of_all

# Two runs of the same thing differ by about this much; a smaller saving is not called one.
_NOISE = 0.05


@dataclass(frozen=True)
class CostRow:
    """One answer's cost. Seconds are wall time of one run, bytes are of its key-value cache."""

    label: str
    visual_tokens: int
    """That entered; of most methods inside the language model, all."""
    average_visual_tokens: float
    """Mean over layers of those really processed."""
    last_visual_tokens: int
    """In the last layer."""
    prompt_tokens: int
    new_tokens: int
    prefill_seconds: float
    decode_seconds: float
    prefill_operations: int
    """Floating-point operations of the prefill, by arithmetic; 0 where that is not known."""
    kv_cache_bytes: int
    allocated_bytes: int
    """What the cache took on the device, with room for the answer; 0 where that is not known."""
    prefill_share: float
    """Prefill time over the unpruned model's."""
    kv_cache_share: float
    """Cache bytes over the unpruned model's."""


def cost_rows(answers: Mapping[str, Answer]) -> list[CostRow]:
    """One row per answer, in the order given; none without the unpruned one.

    Answers still under way can be left out: rows of the others do not change when they come.
    """
    if UNPRUNED not in answers:
        return []
    whole = answers[UNPRUNED]
    return [
        CostRow(
            label=label,
            visual_tokens=answer.visual_tokens,
            average_visual_tokens=answer.average_visual_tokens,
            last_visual_tokens=answer.kept_per_layer[-1],
            prompt_tokens=answer.prompt_tokens,
            new_tokens=len(answer.token_ids),
            prefill_seconds=answer.prefill_seconds,
            decode_seconds=answer.decode_seconds,
            prefill_operations=answer.prefill_operations,
            kv_cache_bytes=answer.kv_cache_bytes,
            allocated_bytes=answer.allocated_bytes,
            prefill_share=_share(answer.prefill_seconds, whole.prefill_seconds),
            kv_cache_share=_share(answer.kv_cache_bytes, whole.kv_cache_bytes),
        )
        for label, answer in answers.items()
    ]


def cost_sentence(rows: Sequence[CostRow], titles: Mapping[str, str]) -> str:
    """What each pruned answer saved against the unpruned one, and plainly where nothing.

    titles: what to call each label, as `Exploration.titles`.
    """
    return " ".join(_verdict(row, titles[row.label]) for row in rows if row.label != UNPRUNED)


def allocated_sentence(rows: Sequence[CostRow]) -> str:
    """Why more is allocated than the caches take; "" where it is not."""
    if all(row.allocated_bytes <= row.kv_cache_bytes for row in rows):
        return ""
    return (
        "Allocated includes room for the answer, or the copy that a captured prefill keeps. "
        "Where answers are decoded together, each has the time of the steps that it shared."
    )


def newline_sentence(answers: Mapping[str, Answer]) -> str:
    """How many of an answer's tokens are LLaVA-NeXT's row ends; "" where there are none."""
    count = answers[UNPRUNED].newline_tokens if UNPRUNED in answers else 0
    if not count:
        return ""
    return (
        f"With every budget {count} newline tokens go in as well: they end the rows of the tiles, "
        "look at no place, and are not counted as visual."
    )


def tokens_text(row: CostRow) -> str:
    """ "64", or "305.6 a layer, 238 in the last" where layers differ."""
    if row.average_visual_tokens == row.last_visual_tokens:
        return str(row.last_visual_tokens)
    return f"{row.average_visual_tokens:.1f} a layer, {row.last_visual_tokens} in the last"


def seconds_text(seconds: float) -> str:
    """0.0412 -> "41 ms", 2.5 -> "2.50 s"; "<1 ms" for what would be none."""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    return f"{seconds:.2f} s" if seconds >= 0.9995 else f"{seconds * 1000:.0f} ms"


def rough_seconds_text(seconds: float) -> str:
    """What is only guessed: 0.02 -> "0.1 s", 45.3 -> "45 s", 480 -> "8 min"."""
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def bytes_text(count: int) -> str:
    """18874368 -> "18.0 MiB", 276480 -> "270 KiB"; binary units, as memory is reported."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1023.5:  # which would be written as 1024
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 99.95 else f"{size:.1f} {unit}"


def cache_text(row: CostRow) -> str:
    """ "2.0 MiB", or "2.0 MiB (5.1 MiB allocated)" where more was set aside."""
    cache = bytes_text(row.kv_cache_bytes)
    if row.allocated_bytes <= row.kv_cache_bytes:
        return cache
    return f"{cache} ({bytes_text(row.allocated_bytes)} allocated)"


def operations_text(count: float) -> str:
    """2.31e9 -> "2.31 GFLOP"; "not known" for 0."""
    if count <= 0:
        return "not known"
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP"):
        if count < 999.5:  # which three digits would make 1e+03
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TFLOP"


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def _verdict(row: CostRow, title: str) -> str:
    cache = f"a cache {percent_of_all(row.kv_cache_share)} as large"
    if row.kv_cache_share >= 1:
        cache = "a cache as large as the unpruned one"
    prefill = percent_of_all(row.prefill_share)
    if row.prefill_share < 1 - _NOISE:
        return f"{title}: prefill in {prefill} of the unpruned time, with {cache}."
    return (
        f"{title}: no gain in prefill time here ({seconds_text(row.prefill_seconds)}, "
        f"{prefill} of the unpruned time), with {cache}."
    )
