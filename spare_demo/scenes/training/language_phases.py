"""What projector and decoder are trained on, phase by phase: how many steps, of which scenes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spare_demo.scenes.training.architecture import GRID
from spare_demo.scenes.world import World


@dataclass(frozen=True)
class Phase:
    """``steps`` steps on ``batch`` canvases, ``cells`` × ``cells`` patches, with questions each."""

    name: str
    steps: int
    batch: int
    cells: int
    questions: int
    world: World
    fair: bool = False  # whether nothing is asked that speaks against the pairs kept back
    # What gets noise (feature_noise.py) in one picture after the other, over and over. What has
    # nothing to do with it is asked there only, and all else where there is no noise.
    noisy: tuple[str | None, ...] = (None,)


WINDOW = 12
_CROWD: dict[str, Any] = {"things": (2, 8), "sizes": (24.0, 64.0)}
_STRANGE: dict[str, Any] = {"tint_share": 0.35, "blob_share": 0.3, "between": True}


def _nameless(share: float) -> dict[str, Any]:
    """So many colours without a name, and half as many shapes."""
    return {"tint_share": share, "blob_share": share / 2}


PHASES = (
    # A picture costs three windows, so most steps see windows. What counts all there is in a
    # window does not count in a picture, where four times as much is looked through.
    Phase("windows", 700, 32, WINDOW, 16, World(things=(2, 6), sizes=(24.0, 80.0))),
    Phase("crowded windows", 3900, 32, WINDOW, 16, World(**_CROWD)),
    Phase("pictures", 700, 16, GRID, 24, World()),
    Phase("windows, some nameless", 500, 32, WINDOW, 16, World(**_CROWD, **_nameless(0.2))),
    Phase("pictures, some nameless", 2100, 16, GRID, 24, World(**_nameless(0.15))),
    Phase("windows, half nameless", 800, 32, WINDOW, 16, World(**_CROWD, **_nameless(0.5))),
    Phase("pictures, half nameless", 1300, 16, GRID, 24, World(**_nameless(0.4))),
    Phase("windows, some twins", 500, 32, WINDOW, 16, World(**_CROWD, **_STRANGE, twin_share=0.3)),
    Phase("pictures, some twins", 1600, 16, GRID, 24, World(**_STRANGE, twin_share=0.2)),
    Phase("windows, on patches", 1200, 32, WINDOW, 16, World(**_CROWD, **_STRANGE, twin_share=0.2)),
    Phase("pictures, on patches", 1000, 16, GRID, 24, World(**_STRANGE, twin_share=0.2)),
)

# Then nothing is asked that speaks against the pairs that training keeps back
# (held_out_pairs.py), in scenes made for it. The mean of the weights before and after it is what is
# shipped: it reads such pairs as well as those after it, and all else as well as those before.
HELD_OUT_PHASES = (
    Phase(
        "pictures, fair, of loose shapes", 1100, 16, GRID, 24,
        World(
            tint_share=0.35, shade_share=0.6, blob_share=0.15,
            twin_share=0.3, apart_share=0.5, loose_share=1.0,
        ),
        fair=True,
    ),
)  # fmt: skip

# Last, what is looked for by colour or number has any shape, and at first any colour where it is
# looked for by its shape (feature_noise.py). The mean is taken once more.
NOISE_PHASES = (
    replace(
        HELD_OUT_PHASES[0], name="pictures, noise on shapes or colours",
        steps=890, batch=15, noisy=("shape", "colour", None),
    ),
    replace(
        HELD_OUT_PHASES[0], name="pictures, noise on shapes in half",
        steps=290, noisy=("shape", None),
    ),
)  # fmt: skip

# After that nothing is trained but queries and keys, to be balanced (attention_balance.py).
BALANCE_PHASES = (
    replace(NOISE_PHASES[-1], name="pictures, attention balanced", steps=370, batch=14),
)
