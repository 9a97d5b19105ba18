"""The recipe: three phases for the CLIP, then three for projector and decoder on its frozen tower.

Most steps see *windows*: small canvases of 12 × 12 patches that lie anywhere in the 24 × 24 grid.
They cost a quarter of a picture, and most of what there is to learn is local. Both parts are first
helped by a loss on every patch. The CLIP's ends before its last phase, a third of its steps: where
relevance falls is what captions alone make of it. Things without a name, whose colour or shape has
no word, practise seeing each property apart from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spare_demo.scenes.training.architecture import GRID
from spare_demo.scenes.world import World

WINDOW = 12


@dataclass(frozen=True)
class Phase:
    """``steps`` steps on ``batch`` canvases of ``cells`` × ``cells`` patches.

    ``patch_loss`` is the weight of the loss on every patch, 0 where the tower learns nothing of it;
    ``questions`` how many a canvas gets.
    """

    name: str
    steps: int
    batch: int
    cells: int
    world: World
    patch_loss: float
    questions: int = 0


@dataclass(frozen=True)
class Rates:
    """Learning rates of Muon (matrices) and AdamW (the rest).

    They rise over ``warm_up`` steps, fall in a line over the ``fall`` share of the run that ends
    at the share ``fallen`` of it, and stay at a fiftieth.
    """

    muon: float
    adam: float
    fall: float
    fallen: float = 1.0
    warm_up: int = 100

    def at(self, step: int, steps: int) -> float:
        """The factor on both rates at a step of ``steps``."""
        left = (self.fallen * steps - step) / (self.fall * steps)
        return min(1.0, (step + 1) / self.warm_up, max(left, 0.02))


_SCENES = World(tint_share=0.25, blob_share=0.15)
_CROWDED = replace(_SCENES, things=(6, 12), sizes=(24.0, 72.0))
_ASKED = replace(_SCENES, sizes=(24.0, 64.0))

# Rates have fallen when captions are left alone. These soon ask for no more than the tower sees,
# but Muon's steps stay as long: at full rates they took from the patches what those knew of prints
# and shapes.
TOWER_RATES = Rates(muon=4e-3, adam=1e-3, fall=0.37, fallen=0.67)
TOWER = (
    Phase("windows", 2200, 64, WINDOW, _CROWDED, 1.0),
    Phase("pictures", 200, 16, GRID, replace(_SCENES, things=(6, 14)), 1.0),
    Phase("captions alone", 1200, 16, GRID, _SCENES, 0.0),
)

DECODER_RATES = Rates(muon=3e-3, adam=1e-3, fall=0.3)
DECODER = (
    Phase("windows", 1900, 32, WINDOW, _ASKED, 0.5, 16),
    # What counts all there is in a window does not count in a picture, where four times as much is
    # looked through.
    Phase("pictures", 750, 16, GRID, replace(_SCENES, twin_share=0.2), 0.5, 24),
    Phase("pictures, few nameless", 850, 16, GRID, World(twin_share=0.1, tint_share=0.1), 0.5, 24),
)


def lengthened(phases: Sequence[Phase], times: float) -> tuple[Phase, ...]:
    """The same phases with so many times the steps, at least one."""
    return tuple(replace(phase, steps=max(1, round(phase.steps * times))) for phase in phases)
