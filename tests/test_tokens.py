"""VisualTokens and Selection: what they accept, what they refuse, and in which words."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch

import spare_demo
from spare_demo import Selection, VisualTokens
from spare_demo.tokens import as_indices


def test_tokens_know_their_number_and_whether_there_is_text() -> None:
    x, e = torch.randn(6, 4), torch.randn(6, 3)
    assert VisualTokens(x).n == 6
    assert not VisualTokens(x).has_text
    assert not VisualTokens(x, clip_image=e).has_text
    assert VisualTokens(x, clip_image=e, clip_text=torch.randn(2, 3)).has_text


def test_tokens_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        VisualTokens(torch.randn(2, 2)).features = torch.randn(2, 2)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"features": [[1.0]]}, "tensor"),
        ({"features": torch.randn(4)}, "one row per token"),
        ({"features": torch.randn(1, 4, 2)}, "one picture at a time"),
        ({"features": torch.randn(0, 4)}, "non-empty"),
        ({"features": torch.ones(4, 2, dtype=torch.long)}, "floating point"),
        ({"features": torch.tensor([[1.0, float("nan")]])}, "wider number format"),
        ({"features": torch.tensor([[1.0, float("inf")]])}, "wider number format"),
        ({"clip_image": torch.randn(3, 2)}, "without the class token"),
        ({"clip_text": torch.randn(1, 2)}, "Pass both"),
        ({"clip_image": torch.randn(4, 2), "clip_text": torch.randn(1, 3)}, "same CLIP space"),
        ({"clip_image": torch.randn(4, 2), "clip_text": torch.randn(2)}, "clip_text"),
        ({"clip_image": torch.randn(4, 2), "clip_text": torch.randn(0, 2)}, "clip_text"),
        ({"view": torch.zeros(3, dtype=torch.long)}, "one per token"),
        ({"view": torch.zeros(4)}, "whole numbers"),
        ({"view": torch.zeros(4, 1, dtype=torch.long)}, "flat list"),
        ({"states": torch.randn(5, 3)}, "without the class token"),
        ({"states": torch.randn(4)}, "states must be a non-empty matrix"),
        ({"class_states": torch.randn(1)}, "class_states must be a non-empty matrix"),
        ({"class_states": torch.randn(2, 3)}, "2 rows but the picture has 1 views"),
    ],
)
def test_tokens_refuse_what_cannot_be_right(fields: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        VisualTokens(**{"features": torch.randn(4, 5), **fields})


def test_comparing_says_that_text_is_needed() -> None:
    with pytest.raises(ValueError, match="needs text"):
        VisualTokens(torch.randn(2, 2)).image_and_text()


def test_selection_keeps_the_order_and_sorts_what_is_kept() -> None:
    selection = Selection(order=[5, 0, 3], gain=np.array([1.0, 2, 3])[::-1])
    assert selection.order.tolist() == [5, 0, 3]
    assert torch.equal(selection.gain, torch.tensor([3.0, 2, 1], dtype=torch.float64))
    assert selection.kept.tolist() == [0, 3, 5]
    assert selection.order.dtype == selection.kept.dtype == torch.long
    assert len(selection) == 3


@pytest.mark.parametrize(
    "order",
    [
        [2, 1],
        (2, 1),
        range(2, 0, -1),
        np.array([2, 1]),
        np.array([1, 2])[::-1],  # as of argsort()[::-1]
        torch.tensor([2, 1], dtype=torch.int32),
        torch.tensor([2, 1], dtype=torch.uint8),
    ],
)
def test_selection_accepts_any_integers(order: object) -> None:
    assert Selection(order=order).order.tolist() == [2, 1]


def test_selection_does_not_change_with_what_it_was_made_from() -> None:
    order = torch.tensor([4, 2])
    selection = Selection(order)
    order[0] = 9
    assert selection.order.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ([], "at least one"),
        ([1, 1, 2], "index 1 is in the selection more than once"),
        ([3, -1], "index -1 is negative"),
        ([0.0, 1.0], "whole numbers"),
        ([True, False], "mask"),
        ([[1, 2]], "Flatten"),
        (7, "flat list"),
        ("3", "could not be read"),
        ([10**30], "could not be read"),
        (None, "could not be read"),
        ([1, None], "could not be read"),
    ],
)
def test_selection_refuses_what_is_no_set_of_patches(order: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Selection(order=order)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"gain": torch.ones(3)}, "one gain per pick"),
        ({"margin": torch.ones(3)}, "one margin per pick"),
        ({"gain": ["a", "b"]}, "gain holds what is no number"),
        ({"gain": [float("nan"), 1.0]}, "gain holds what is no number"),
        ({"margin": [None, 1.0]}, "margin holds what is no number"),
        ({"features": torch.ones(2)}, "merged features"),
        ({"features": torch.ones(2, 3), "sources": torch.ones(3, 4)}, "one row of sources"),
        ({"sources": torch.ones(2, 4) / 0}, "sources holds NaN or infinity"),
        ({"sources": np.ones((2, 4))}, r"sources must be a torch tensor \(r, n\)"),
        ({"bias": np.ones(2)}, r"bias must be a torch tensor \(r,\)"),
        ({"features": torch.ones(2, 3), "bias": torch.ones(3)}, "one number per row of features"),
        ({"bias": torch.ones(2)}, "there are 0 merged rows"),
    ],
)
def test_selection_refuses_fields_that_do_not_fit(fields: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Selection([0, 1], **fields)


def test_check_compares_with_the_picture() -> None:
    selection = Selection([3, 8])
    assert selection.check(9) is selection
    with pytest.raises(ValueError, match="index 8 does not exist: this picture has 8"):
        selection.check(8)


def test_check_compares_what_was_merged_with_the_picture() -> None:
    selection = Selection([0], features=torch.ones(1, 4), sources=torch.ones(1, 9))
    assert selection.check(9) is selection
    with pytest.raises(ValueError, match="sources has 9 columns, but this picture has 8"):
        selection.check(8)


def test_prefix_cuts_order_and_gain() -> None:
    selection = Selection([5, 0, 3], gain=torch.tensor([3.0, 2.0, 1.0]))
    assert selection.prefix(2).order.tolist() == [5, 0]
    assert selection.prefix(2).gain.tolist() == [3.0, 2.0]
    assert Selection([5, 0]).prefix(1).gain is None
    for k in (0, 4, -1):
        with pytest.raises(ValueError, match="Choose 1 to 3"):
            selection.prefix(k)
    with pytest.raises(ValueError, match="Run its method again"):
        Selection([5, 0], features=torch.ones(2, 3)).prefix(1)


def test_indices_may_be_empty_where_that_makes_sense() -> None:
    assert as_indices([]).tolist() == []
    assert as_indices([]).dtype == torch.long


def test_public_names_are_there_and_others_are_not() -> None:
    assert spare_demo.__version__ == "0.1.0"
    assert {"PRUNERS", "VisualTokens", "Selection", "load_model", "compare"} <= set(dir(spare_demo))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spare_demo.nothing  # noqa: B018


def test_the_science_and_the_list_of_methods_load_nothing_heavier_than_torch() -> None:
    program = (
        "import sys; from spare_demo import PRUNERS, Selection, VisualTokens; "
        "import spare_demo.measures, spare_demo.images.geometry, spare_demo.cli.methods; "
        "print([m for m in ('transformers', 'open_clip', 'gradio', 'plotly') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_near_ties_are_counted_from_the_margins() -> None:
    selection = Selection([4, 0, 2], margin=torch.tensor([0.5, 1e-7, 0.0]))
    assert selection.near_ties == 2
    assert selection.prefix(2).near_ties == 1
    assert Selection([4, 0]).near_ties is None


def test_a_merged_row_stands_for_its_largest_part_and_of_several_for_the_picked_one() -> None:
    sources = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 0.4], [0.2, 0, 0, 0.5], [0, 0, 0, 0]])
    selection = Selection([1, 2], features=torch.ones(4, 2), sources=sources)
    assert selection.row_tokens[:3].tolist() == [1, 2, 3]
    assert Selection([1, 2]).row_tokens is None
