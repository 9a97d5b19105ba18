"""The fields, blocks and budgets that a method needs, what it says without them, and limits."""

from __future__ import annotations

import dataclasses

import pytest
from drawn_tokens import picture, read_through

from spare_demo import PRUNERS
from spare_demo.pruners import Method
from spare_demo.pruners.blocks import block_place, too_few_blocks
from spare_demo.pruners.uniform import Uniform
from spare_demo.pruners.zoo import ZooPrune
from spare_demo.tokens import Selection, VisualTokens

WORDS = {  # optional field: what is said where a model cannot give it
    "clip_text": "no CLIP text side",
    "cls_attention": "no class token",
    "class_states": "no class token",
    "attention_received": "attention to itself",
    "vision_keys": "attention keys to itself",
    "vision_values": "attention values to itself",
    "class_queries": "no class token",
    "words": "without its language model",
    "states": "one state per visual token",
    "project": "one visual token at a time",
}
TEXT = [(m, m.text_field) for m in PRUNERS.values() if m.needs_text]
NEEDS = [(m, field) for m in PRUNERS.values() for field in sorted(m.needs)]


@pytest.mark.parametrize(
    ("method", "field"), [*TEXT, *NEEDS], ids=lambda part: getattr(part, "name", part)
)
def test_a_model_that_cannot_fill_a_field_is_told_why(method: Method, field: str) -> None:
    assert method.reason_against(set(WORDS)) is None
    assert WORDS[field] in method.reason_against(set(WORDS) - {field})
    if field in method.needs:
        with pytest.raises(ValueError, match=f"'{method.name}' cannot run here: .*{WORDS[field]}"):
            method.check(dataclasses.replace(picture(), **{field: None}))


def test_a_field_that_does_not_exist_is_named() -> None:
    @dataclasses.dataclass(frozen=True)
    class Misspelt(Uniform):
        needs = frozenset({"cls_atention"})

    said = r"'uniform' cannot need 'cls_atention'\. In its needs, name fields of: .*cls_attention"
    with pytest.raises(ValueError, match=said):
        Misspelt()


@pytest.mark.parametrize("field", ["clip_text", "words"])
def test_a_method_that_reads_the_question_has_to_say_so(field: str) -> None:
    """Else an evaluation would take the first question's picks for all of a picture."""

    @dataclasses.dataclass(frozen=True)
    class Undeclared(Uniform):
        def _select(self, tokens: VisualTokens, k: int) -> Selection:
            assert tokens.words is tokens.clip_sentence is tokens.clip_prompt is None
            tokens.image_and_text()
            return super()._select(tokens, k)

    with pytest.raises(ValueError, match=r"carry none\. .* says needs_text = True"):
        Undeclared().select(picture(), 3)

    @dataclasses.dataclass(frozen=True)
    class Misplaced(Uniform):
        needs = frozenset({field})

    with pytest.raises(ValueError, match=f'needs_text = True and text_field = "{field}"'):
        Misplaced()


def test_what_needs_nothing_runs_on_any_model() -> None:
    assert PRUNERS["spare-reconstruction"].reason_against(set()) is None


def test_a_language_model_too_shallow_or_of_another_kind_is_said() -> None:
    fastv, sparse = PRUNERS["fastv"], PRUNERS["sparsevlm"]
    assert fastv.reason_against(set()) is fastv.reason_against(set(), 2) is None
    assert sparse.reason_against(set(), 4) is None
    assert "has 1 layer, and its 1 step needs more" in fastv.reason_against(set(), 1)
    assert "has 3 layers, and its 3 steps need more" in sparse.reason_against(set(), 3)
    assert "layer by layer" in fastv.reason_against(set(), 0)
    assert PRUNERS["random"].reason_against(set(), 0) is None
    whole, supplies = PRUNERS["vscan-whole"], {"cls_attention"}
    assert whole.reason_against(supplies, 2, 3) is None
    assert "has 1 layer, and its 1 step needs more" in whole.reason_against(supplies, 1, 3)
    assert "layer by layer" in whole.reason_against(supplies, 0, 3)
    assert "no class token" in whole.reason_against(set(), 2, 3)
    assert "has 2 blocks, too few" in whole.reason_against(supplies, 2, 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step": 10.5}, "Choose a number from 0.0001 to 10.0"),
        ({"step": float("nan")}, "Choose a number from"),
        ({"step": "2"}, "Choose a number from"),
        ({"step": True}, "Choose a number from"),
        ({"directions": 2.0}, "directions of ZooPrune cannot be 2.0. Choose a whole number"),
        ({"directions": 1025}, "Choose a whole number from 1 to 1024"),
    ],
)
def test_settings_that_are_numbers_have_limits(change: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ZooPrune(**change)


def test_a_whole_number_is_a_number() -> None:
    assert ZooPrune(step=3).step == 3


def test_a_block_of_24_lies_at_the_same_share_of_another_tower() -> None:
    assert block_place(9, 24) == 8 - 24
    assert block_place(9, 5) == 1 - 5
    assert block_place(9, 1) == -1
    assert block_place(-2, 5) == -2


@pytest.mark.parametrize("name", [name for name, method in PRUNERS.items() if not method.inside])
def test_a_method_reads_the_blocks_that_it_names(name: str) -> None:
    asked: set[int] = set()
    tokens = read_through(picture(), lambda block, values: asked.add(block) or values)
    PRUNERS[name].select(tokens, 7)
    assert asked == set(PRUNERS[name].blocks)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *(("hiprune", 3), ("vscan", 3), ("holov", 2), ("vispruner", 2), ("fastervlm", 2)),
        *(("scope", 2), ("visionzip", 2), ("litelvlm", 1), ("prumerge", 1)),
    ],
)
def test_a_tower_with_fewer_blocks_than_a_method_reads_is_refused(name: str, least: int) -> None:
    method = PRUNERS[name]
    supplies = {*method.needs, "clip_text"}
    for depth in (1, 2, 3, 4, 5, 12, 24, 27):
        reason = method.reason_against(supplies, 32, depth)
        tokens = dataclasses.replace(picture(16), tower_blocks=depth)
        if depth >= least:
            assert reason is None and method.select(tokens, 3).size == 3
            continue
        has = "1 block" if depth == 1 else f"{depth} blocks"
        assert reason and reason.startswith(
            f"this model's vision tower has {has}, too few for block"
        )
        with pytest.raises(
            ValueError, match=f"'{name}' cannot run here: this model's vision tower has"
        ):
            method.select(tokens, 3)
    assert method.reason_against(supplies, 32) is None  # left open


def test_the_reason_names_the_blocks() -> None:
    assert too_few_blocks((6, -2), 2) == (
        "this model's vision tower has 2 blocks, too few for block 6 of 24 and block 2 from the "
        "end, which it reads"
    )
    assert too_few_blocks((6, -2), 3) is None and too_few_blocks((), 1) is None


def test_a_budget_below_a_schedule_is_refused_with_the_least_that_it_can_meet() -> None:
    class View:
        tokens = picture(64)
        layers = 32

    least = PRUNERS["v2drop"].lowest(64, 32)
    with pytest.raises(ValueError, match=f"Choose a budget from {least} to 64"):
        PRUNERS["v2drop"].plan(View(), least - 1)
    assert PRUNERS["v2drop"].plan(View(), least).average <= least
