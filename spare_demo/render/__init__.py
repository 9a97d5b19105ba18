"""Arrays in; a picture or figure and the sentence that says what it shows out."""

from spare_demo.render.base import BLUE, VERMILION
from spare_demo.render.canvas import Canvas
from spare_demo.render.curves import CurveChart, error_chart, kl_chart
from spare_demo.render.display import Display
from spare_demo.render.grid import methods_grid
from spare_demo.render.maps import (
    consensus_map,
    heatmap,
    leftover_map,
    relevance_change_map,
    relevance_map,
    source_map,
    weight_map,
)
from spare_demo.render.order import pick_order
from spare_demo.render.overlay import (
    difference,
    kept_overlay,
    layer_overlay,
    merged_overlay,
    question_difference,
    selection_overlay,
)

__all__ = [
    "BLUE",
    "VERMILION",
    "Canvas",
    "CurveChart",
    "Display",
    "consensus_map",
    "difference",
    "error_chart",
    "heatmap",
    "kept_overlay",
    "kl_chart",
    "layer_overlay",
    "leftover_map",
    "merged_overlay",
    "methods_grid",
    "pick_order",
    "question_difference",
    "relevance_change_map",
    "relevance_map",
    "selection_overlay",
    "source_map",
    "weight_map",
]
