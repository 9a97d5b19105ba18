"""What flows through the program: the visual tokens of one picture, and a selection of them.

Both classes are frozen and check their fields once, so that nothing downstream has to.
"""

from spare_demo.tokens.checks import as_indices as as_indices
from spare_demo.tokens.devices import cpu_by_default as cpu_by_default
from spare_demo.tokens.devices import where_float64_is as where_float64_is
from spare_demo.tokens.selection import Positions as Positions
from spare_demo.tokens.selection import Selection as Selection
from spare_demo.tokens.selection import count_informed as count_informed
from spare_demo.tokens.visual import VisualTokens as VisualTokens
