"""Where the blocks that papers name lie in a vision tower of another depth.

Papers count the blocks of CLIP's ViT-L/14, which has 24; `inside/base.py` is the same for the
language model.
"""

from __future__ import annotations

from collections.abc import Sequence

PAPER_DEPTH = 24
"""Blocks of the tower that papers count in: CLIP's ViT-L/14."""


def block_place(block: int, depth: int) -> int:
    """The place of a block from the end, -1 the last, in a tower of so many blocks.

    block: from the end where below 0; above 0 from the start of a tower of 24, and in another at
        the same share of the way.
    """
    if block < 0:
        return block
    return max(1, round(block * depth / PAPER_DEPTH)) - 1 - depth


def too_few_blocks(blocks: Sequence[int], depth: int) -> str | None:
    """Why a tower of so many blocks is too shallow for a method that reads these; None if not.

    It is where a block does not exist, or where two of them would be the same.
    """
    places = [block_place(block, depth) for block in blocks]
    if len(set(places)) == len(places) and all(place >= -depth for place in places):
        return None
    names = " and ".join(map(_name, blocks))
    has = "1 block" if depth == 1 else f"{depth} blocks"
    return f"this model's vision tower has {has}, too few for {names}, which it reads"


def _name(block: int) -> str:
    if block > 0:
        return f"block {block} of {PAPER_DEPTH}"
    return "the last block" if block == -1 else f"block {-block} from the end"
