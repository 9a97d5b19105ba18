"""Picks that released selection functions made once, replayed.

golden_picks.json was recorded on 24 November 2026: the operations of each named function, in
float32 as released, on the tensors that `released_inputs` draws. `ordered` says whether the
function keeps the order of picking. No commit is given where the copy that was read had none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spare_demo import PRUNERS, VisualTokens

RECORDED = json.loads(Path(__file__).with_name("golden_picks.json").read_text(encoding="utf-8"))
RUNS = [(record, run) for record in RECORDED for run in record["runs"]]
N = 576


def released_inputs(seed: int) -> VisualTokens:
    """576 tokens in 60 clusters, five words, and sharp attention, all float32."""
    random = np.random.RandomState(seed)  # whose numbers are the same in every version

    def attention(rows: int) -> torch.Tensor:
        weight = np.exp(1.5 * random.standard_normal((rows, N)))
        return torch.from_numpy(weight / (1.1 * weight.sum(axis=1, keepdims=True))).float()

    centres = random.standard_normal((60, 48))
    h = centres[random.randint(0, 60, N)] + 0.7 * random.standard_normal((N, 48))
    x = np.tanh(h @ random.standard_normal((48, 32)) / 7)
    words = torch.from_numpy(random.standard_normal((5, 32))).float()
    by_class, early, late = attention(4), attention(1)[0], attention(1)[0]
    return VisualTokens(
        torch.from_numpy(x).float(),
        states=torch.from_numpy(h).float(),
        words=lambda: words,
        cls_attention=lambda block, joined=False: by_class,
        attention_received=lambda block: early if block > 0 else late,
    )


@pytest.mark.parametrize(
    ("record", "run"), RUNS, ids=[f"{r['method']}-{run['seed']}-{run['budget']}" for r, run in RUNS]
)
def test_picks_are_those_of_the_released_function(record: Any, run: Any) -> None:
    order = PRUNERS[record["method"]].select(released_inputs(run["seed"]), run["budget"]).order
    picks = order.tolist() if record["ordered"] else order.sort().values.tolist()
    assert picks == run["picks"]
