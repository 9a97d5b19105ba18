"""Picks that released selection functions made once, replayed.

golden_picks.json was recorded on 24 and 25 November 2026: the operations of each named function on
the tensors that `released_inputs` draws, on the CPU, in float32 where `precision` says nothing
else. No commit is given where the copy that was read had none, and `not_recorded` names the methods
whose code could not be had. `ordered` says whether the function keeps the order of picking.

Of a run:
    views     into how many views of equal size the tokens are split; one where it is not given.
    options   settings of the method here that make it the function.
    shared    how many picks are the same. Where it is not given, all are.
    lengths   of merging methods, the Euclidean length of each row after the projector.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spare_demo import PRUNERS, VisualTokens

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE / "golden_picks.json").read_text(encoding="utf-8"))
RUNS = [(record, run) for record in GOLDEN["records"] for run in record["runs"]]
N = 576


def released_inputs(seed: int, kind: str = "clusters") -> VisualTokens:
    """576 tokens, in 60 clusters or all noise, five words, and sharp attention, all float32.

    kind: clusters, noise, or wide, which is noise 1024 wide with nothing but CLIP's embeddings.
    """
    random = np.random.RandomState(seed)  # whose numbers are the same in every version

    def drawn(*shape: int) -> torch.Tensor:
        return torch.from_numpy(random.standard_normal(shape)).float()

    def attention(rows: int) -> torch.Tensor:
        weight = np.exp(1.5 * random.standard_normal((rows, N)))
        return torch.from_numpy(weight / (1.1 * weight.sum(axis=1, keepdims=True))).float()

    if kind == "wide":
        return VisualTokens(drawn(N, 1024), drawn(N, 24), drawn(2, 24))
    w, d = (48, 32) if kind == "clusters" else (128, 128)
    if kind == "clusters":
        centres = random.standard_normal((60, w))
        h = centres[random.randint(0, 60, N)] + 0.7 * random.standard_normal((N, w))
    else:
        h = random.standard_normal((N, w))
    weights = random.standard_normal((w, d))
    words = drawn(5, d)
    by_class, early, late = attention(4), attention(1)[0], attention(1)[0]
    image, text, prompt, class_state = drawn(N, 24), drawn(2, 24), drawn(24), drawn(1, w)
    query, keys = drawn(w), drawn(1 + N, w)  # the class token's query; its key, and the patches'
    by_whole_width = (keys @ query / w**0.5).softmax(dim=0)[None, 1:]
    return VisualTokens(
        torch.from_numpy(np.tanh(h @ weights / 7)).float(),
        clip_image=image,
        clip_text=text,
        states=torch.from_numpy(h).float(),
        class_states=class_state,
        project=lambda rows: torch.tanh(rows.double() @ torch.from_numpy(weights) / 7),
        words=lambda: words,
        cls_attention=lambda block, joined=False: by_whole_width if joined else by_class,
        attention_received=lambda block: early if block > 0 else late,
        vision_keys=lambda block: keys[1:].view(N, 4, w // 4).transpose(0, 1),
        clip_sentence=lambda: prompt,
    )


def same_order(record: Any, run: Any, order: list[int]) -> list[int]:
    """The picks as they are recorded: in the order of picking, or ascending."""
    return order if record["ordered"] and "precision" not in run else sorted(order)


@pytest.mark.parametrize(
    ("record", "run"),
    RUNS,
    ids=[f"{r['method']}-{i}" for r in GOLDEN["records"] for i in range(len(r["runs"]))],
)
def test_picks_are_those_of_the_released_function(record: Any, run: Any) -> None:
    tokens = released_inputs(run["seed"], run.get("kind", "clusters"))
    if "views" in run:
        view = torch.arange(N) * run["views"] // N
        tokens = replace(tokens, view=view, class_states=None)
    if run.get("precision") == "float16":
        states = None if tokens.states is None else tokens.states.half()
        tokens = replace(tokens, features=tokens.features.half(), states=states)
    method: Any = replace(PRUNERS[record["method"]], **run.get("options", {}))
    selection = method.select(tokens, run["budget"])
    order = same_order(record, run, selection.order.tolist())
    if "shared" in run:
        assert len(set(order) & set(run["picks"])) == run["shared"]
    else:
        assert order == run["picks"]
    if "lengths" in run:
        lengths = torch.linalg.vector_norm(selection.features, dim=1)
        assert lengths.tolist() == pytest.approx(run["lengths"], rel=1e-4)


@pytest.mark.parametrize(
    "record",
    [r for r in GOLDEN["records"] if any("shared" in run for run in r["runs"])],
    ids=lambda record: record["method"],
)
def test_deviations_say_how_many_picks_are_the_same(record: Any) -> None:
    differing = [run for run in record["runs"] if "shared" in run]
    assert all(run["shared"] < run["budget"] for run in differing)
    shares = [100 * run["shared"] / run["budget"] for run in differing]
    size = f"Where recorded picks differ, {min(shares):.0f} to {max(shares):.0f} % are the same."
    assert size in PRUNERS[record["method"]].deviations


def test_every_method_is_recorded_or_says_why_not() -> None:
    recorded = [record["method"] for record in GOLDEN["records"]]
    for path in (HERE / "released_picks.json", HERE / "inside" / "golden_picks_inside.json"):
        recorded += json.loads(path.read_text(encoding="utf-8"))
    assert sorted([*recorded, *GOLDEN["not_recorded"]]) == sorted(PRUNERS), (
        "Record picks of the released function, or say in not_recorded why there are none."
    )
