"""VScan as a whole: its vision stage, and half of the depth later a third of what that let in.

Paper: arXiv 2505.22654. Released code: Tencent/SelfEvolvingAgent, VScan/llava/model.

    score_i = mean over heads of the attention that the prompt's last token would pay to i in the
              layer that comes next (its own norm, query and key projections, rotary positions)

For a budget k, floor(1.5 k) of n tokens enter, at most n, as merged rows (`pruners/vscan.py`), and
so many go on from layer 16 of 32 that the average over layers is k: half of k, or 2 k - n where all
n enter. Those go on in raster order, positions packed together again.
"""

from __future__ import annotations

from dataclasses import dataclass

from spare_demo.pruners.fields import FIELDS
from spare_demo.pruners.inside.base import LayerPruner, left_after, most_attended
from spare_demo.pruners.plan import Choice, LayerReading, Stop
from spare_demo.pruners.vscan import VScan
from spare_demo.tokens import Selection, VisualTokens


@dataclass(frozen=True)
class VScanWhole(LayerPruner):
    """Positions are packed, of what enters and of what goes on."""

    name = "vscan-whole"
    title = "VScan"
    summary = (
        "Its vision stage; in the deeper half of the layers, the tokens of it that the prompt's "
        "last token attends to."
    )
    paper = VScan.paper
    link = VScan.link
    acts = "after the projector, and inside the language model"
    reads = (
        "features",
        FIELDS["cls_attention"].label,
        "attention of the prompt's last token, in the layer after",
    )
    needs = VScan.needs
    blocks = VScan.blocks
    merges = True
    merging_note = (
        "VScan averages the tokens that its vision stage drops into rows of those it keeps."
    )
    repacks = True
    stop_layers = (16,)
    cost = f"{VScan.cost} before; a projection of the keys and one row of attention: O(k d²)"
    deviations = (
        "The released code could not be read. By its README 96 tokens enter and 32 go on from "
        "layer 16 of 32. Our readings: other budgets divide alike, and the attention is that of "
        "layer 16 before it runs, as in PyramidDrop's code, which it is adapted from. The layer is "
        "scaled to the depth of the model. The vision stage is that of vscan."
    )

    def entering(self, tokens: VisualTokens, k: int) -> Selection | None:
        """The rows of the vision stage, None for all n tokens."""
        count = _entering(tokens.n, k)
        return None if count == tokens.n else VScan().select(tokens, count)

    def lowest(self, n: int, depth: int) -> int:
        self.places(depth)  # refuses a model too shallow for it
        return 1

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        entering, (place,) = _entering(n, k), self.places(depth)
        keep = left_after(entering, depth, place, k)
        return (Stop(place, keep),) if keep < entering else ()

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        return most_attended(reading, stop, ahead=True)


def _entering(n: int, k: int) -> int:
    """How many of n tokens enter for a budget of k."""
    return min(n, 3 * k // 2)
