"""The table of pruning methods. docs/CONTRIBUTING.md says how to add one."""

from __future__ import annotations

from spare_demo.pruners.base import Method, Pruner
from spare_demo.pruners.cdpruner import CDPruner
from spare_demo.pruners.column_subset import ColumnSubset
from spare_demo.pruners.dart import DartDiversity
from spare_demo.pruners.divprune import DivPrune
from spare_demo.pruners.hiprune import HiPrune
from spare_demo.pruners.holov import HoloV
from spare_demo.pruners.inside.base import LayerPruner
from spare_demo.pruners.inside.dart import Dart
from spare_demo.pruners.inside.fastv import FastV
from spare_demo.pruners.inside.pyramiddrop import PyramidDrop
from spare_demo.pruners.inside.sparsevlm import SparseVLM
from spare_demo.pruners.inside.v2drop import V2Drop
from spare_demo.pruners.inside.vscan import VScanWhole
from spare_demo.pruners.leverage import Leverage
from spare_demo.pruners.litelvlm import LiteLVLM
from spare_demo.pruners.magnitude import Magnitude
from spare_demo.pruners.mmtok import MMTok
from spare_demo.pruners.plan import LayerPlan
from spare_demo.pruners.prumerge import PruMerge
from spare_demo.pruners.random import Random
from spare_demo.pruners.scope import Scope
from spare_demo.pruners.spare import Spare
from spare_demo.pruners.spatial import SpatialFarthest
from spare_demo.pruners.topk import TopRelevance
from spare_demo.pruners.trim import Trim
from spare_demo.pruners.uniform import Uniform
from spare_demo.pruners.visionzip import VisionZip
from spare_demo.pruners.vispruner import VisPruner
from spare_demo.pruners.vscan import VScan
from spare_demo.pruners.zoo import ZooPrune

PRUNERS: dict[str, Method] = {
    "spare": Spare(),
    "spare-reconstruction": Spare(guidance="none"),
    "spare-normal-relevance": Spare(guidance="normal"),
    "cdpruner": CDPruner(),
    "cdpruner-paper": CDPruner(form="paper"),
    "cdpruner-diversity": CDPruner(form="none"),
    "anti-relevance": TopRelevance(),
    "normal-relevance": TopRelevance(guidance="normal"),
    "random": Random(),
    "uniform": Uniform(),
    "spatial-farthest": SpatialFarthest(),
    "magnitude": Magnitude(),
    "leverage": Leverage(),
    "column-subset": ColumnSubset(),
    "divprune": DivPrune(),
    "dart-diversity": DartDiversity(),
    "prumerge": PruMerge(),
    "prumerge-plus": PruMerge(form="plus"),
    "visionzip": VisionZip(),
    "vscan": VScan(),
    "trim": Trim(),
    "trim-paper": Trim(form="paper"),
    "zoo-prune": ZooPrune(),
    "scope": Scope(),
    "vispruner": VisPruner(),
    "fastervlm": VisPruner(important=1.0),
    "hiprune": HiPrune(),
    "holov": HoloV(),
    "litelvlm": LiteLVLM(),
    "mmtok": MMTok(),
    "fastv": FastV(),
    "pyramiddrop": PyramidDrop(),
    "sparsevlm": SparseVLM(),
    "sparsevlm-plus": SparseVLM(version="2.0"),
    "dart": Dart(),
    "v2drop": V2Drop(),
    "vscan-whole": VScanWhole(),
}
"""Every method with its usual settings, by its name."""

__all__ = ["PRUNERS", "LayerPlan", "LayerPruner", "Method", "Pruner"]
