"""Methods inside the language model, one file each; their contract is `base.py`."""

from spare_demo.pruners.inside.dart import Dart
from spare_demo.pruners.inside.fastv import FastV
from spare_demo.pruners.inside.pyramiddrop import PyramidDrop
from spare_demo.pruners.inside.sparsevlm import SparseVLM
from spare_demo.pruners.inside.v2drop import V2Drop
from spare_demo.pruners.inside.vscan import VScanWhole

__all__ = ["Dart", "FastV", "PyramidDrop", "SparseVLM", "V2Drop", "VScanWhole"]
