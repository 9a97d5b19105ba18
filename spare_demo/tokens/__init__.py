"""What flows through the program: the visual tokens of one picture, and a selection of them.

Both classes are frozen and check their fields once, so that nothing downstream has to.
"""

from spare_demo.tokens.checks import as_indices
from spare_demo.tokens.selection import NEAR_TIE, Positions, Selection, count_informed
from spare_demo.tokens.visual import ClsAttention, VisualTokens, where_float64_is

__all__ = [
    "NEAR_TIE",
    "ClsAttention",
    "Positions",
    "Selection",
    "VisualTokens",
    "as_indices",
    "count_informed",
    "where_float64_is",
]
