"""What methods with a single stop share: its layer, and the two ways of counting a budget.

The budget is the average over all layers, or the tokens after layer K, as the papers count.
`counted` is the papers' count in either case.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from spare_demo.pruners.base import setting
from spare_demo.pruners.inside.base import LayerPruner
from spare_demo.pruners.inside.depths import PAPER_DEPTH, left_after
from spare_demo.pruners.plan import LayerPlan, Stop


@dataclass(frozen=True)
class OneStop(LayerPruner):
    """All visual tokens before layer K, some of them from there on."""

    layer: int = setting(
        2,
        "Layer K",
        "First layer with fewer tokens, of a model with 32 layers.",
        limits=(1, PAPER_DEPTH - 1),
    )

    @property
    def stop_layers(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.layer,)

    @property
    @abstractmethod
    def counting(self) -> str:
        """How the budget counts, a setting: "average", or the method's own word for after K."""

    @property
    def counting_note(self) -> str:  # type: ignore[override]
        return "tokens after layer K only"

    @property
    def budget_is_average(self) -> bool:
        return self.counting == "average"

    def lowest(self, n: int, depth: int) -> int:
        lowest = super().lowest(n, depth)  # refuses a model too shallow for it
        return lowest if self.budget_is_average else 1

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        (first,) = self.places(depth)
        kept = left_after(n, depth, first, k) if self.budget_is_average else self.nominal(n, k)
        return (Stop(first, kept),)

    def nominal(self, n: int, k: int) -> int:
        """How many of n tokens go on after layer K for a budget of k that counts only those."""
        return k

    def counted(self, plan: LayerPlan) -> float:
        return float(plan.last if self.budget_is_average else plan.budget)
