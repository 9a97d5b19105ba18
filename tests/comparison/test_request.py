"""What is asked for: methods by name or ready made, and budgets as typed, slid or as a share."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from spare_demo.comparison.request import Request, able_methods, choose, read_budget
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS, Pruner
from spare_demo.pruners.divprune import DivPrune
from spare_demo.pruners.random import Random
from spare_demo.pruners.uniform import Uniform
from spare_demo.tokens import Selection, VisualTokens

N = 16


def test_the_seed_reaches_methods_by_name_and_no_ready_made_one() -> None:
    assert choose(("random",), seed=2**32 - 1) == {"random": Random(seed=2**32 - 1)}
    assert choose({"mine": Random(seed=3)}, seed=7) == {"mine": Random(seed=3)}
    named = ("random", "random:seed=0", "random:seed=3", "random: seed =3")
    assert [method.seed for method in choose(named, seed=7).values()] == [7, 0, 3, 3]
    assert choose(("spare",), seed=7) == {"spare": PRUNERS["spare"]}


@pytest.mark.parametrize("seed", [None, ""])
def test_an_empty_seed_is_zero(seed: Any) -> None:
    assert choose(["random"], seed=seed) == {"random": Random(seed=0)}


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "x"])
def test_what_is_no_seed_reaches_no_method(seed: Any) -> None:
    with pytest.raises(ValueError, match="The seed must be a whole number"):
        choose(["random"], seed=seed)


def test_settings_reach_methods_by_name() -> None:
    changes = {"divprune": {"metric": "euclidean"}}
    chosen = choose(("divprune", "spare"), changes=changes)
    assert chosen == {"divprune": DivPrune(metric="euclidean"), "spare": PRUNERS["spare"]}
    told = ("divprune:metric=euclidean", "divprune")
    assert choose(told) == {told[0]: DivPrune(metric="euclidean"), "divprune": DivPrune()}
    with pytest.raises(ValueError, match="'divprune' has settings but is not compared"):
        choose("spare", changes=changes)
    with pytest.raises(ValueError, match="is not compared"):
        choose({"divprune": Uniform()}, changes=changes)


def test_labels_tell_two_of_a_kind_apart() -> None:
    assert list(choose(("spare", "random", "spare"))) == ["spare", "random", "spare (2)"]
    assert list(choose(("spare",) * 3)) == ["spare", "spare (2)", "spare (3)"]
    assert list(choose("spare")) == ["spare"]


@pytest.mark.parametrize(
    ("pruners", "sentence"),
    [
        (("spare", "sparse"), "'sparse'.*spare-reconstruction.*uniform"),
        ((), "at least one method: spare"),
        ({"unpruned": PRUNERS["spare"]}, "all tokens"),
        ([Uniform()], r"takes names.*Pass \{label: method\}.*\{'uniform': Uniform\("),
        (PRUNERS["spare"], r"a list of names or \{label: method\}, not Spare\."),
        ({"spare"}, r"list of names or .* not set\. Put names into a list, of: spare,"),
        (np.array(["spare", "random"]), r"list of names or .* not ndarray\."),
        ({32: PRUNERS["spare"]}, r"A label must be text, and 32 is int\."),
        ({"\ud800": PRUNERS["spare"]}, "The label has a character that is not valid"),
        ({"a": "spare"}, "'a' must be a method, a Selection or a LayerPlan, not str"),
        ({"a": Random}, r"'a' must be a method, not its class. Write Random\(\)\."),
    ],
)
def test_what_cannot_be_chosen_is_refused(pruners: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose(pruners)  # type: ignore[arg-type]


def test_a_class_in_the_place_of_a_method_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRUNERS, "mine", Random)
    with pytest.raises(ValueError, match=r"Write PRUNERS\['mine'\] = Random\(\)\."):
        choose(["mine"])


def test_a_method_that_is_no_dataclass_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(Pruner):
        name = title = summary = "bare"

        def _select(self, tokens: VisualTokens, k: int) -> Selection:
            return Selection(range(k))

    monkeypatch.setitem(PRUNERS, "bare", Bare())
    for methods in (["bare"], {"mine": Bare()}):
        with pytest.raises(ValueError, match=r"Write @dataclass\(frozen=True\) above class Bare\."):
            choose(methods)


@pytest.mark.parametrize(
    ("value", "budget"),
    [
        *((1, 1), (16, 16), (7.0, 7), ("12", 12), (" 3 ", 3)),
        *(("100%", 16), ("20 %", 3), (" 12.5%", 2), ("0.1%", 1)),
    ],
)
def test_a_budget_is_read_as_typed_or_slid_or_as_a_share(value: object, budget: int) -> None:
    assert read_budget(value, N) == budget


NUMBER, SHARE = r"Choose a whole number from 1 to 16\.", r"above 0% and up to 100%\."
BAD_NUMBERS = (0, -3, 17, 2.5, "many", True, float("nan"), float("inf"), "1e300", [4])
BAD_SHARES = ("0%", "-5%", "101%", "%", "many%", "nan%", "inf%")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        *((value, NUMBER) for value in BAD_NUMBERS),
        *((value, SHARE) for value in BAD_SHARES),
        *((empty, r"^Type a whole number from 1 to 16\.$") for empty in (None, "")),
    ],
)
def test_a_budget_that_cannot_be_gets_a_sentence(value: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_budget(value, N)


def test_a_request_is_checked_once_and_knows_its_methods_by_label() -> None:
    request = Request("photo.png", "  What is it? ", ("random",) * 2, budget="10%", seed=7.0)  # type: ignore[arg-type]
    assert (request.question, request.seed, request.budget_of(576)) == ("What is it?", 7, 58)
    assert list(request.labelled) == ["random", "random (2)"]
    assert {method.seed for method in request.labelled.values()} == {7}  # type: ignore[union-attr]
    again = dataclasses.replace(request, methods=request.labelled, seed=8)
    assert again.labelled == request.labelled  # ready-made methods keep their own seed


def test_numpys_numbers_are_as_good_as_pythons() -> None:
    given = {"budget": np.int64(5), "seed": np.uint32(7), "max_new_tokens": np.int32(3)}
    request = Request("photo.png", together=np.True_, **given)  # type: ignore[arg-type]
    assert request.together is True
    assert (request.budget_of(N), request.seed, request.max_new_tokens) == (5, 7, 3)
    assert {type(request.budget_of(N)), type(request.seed), type(request.max_new_tokens)} == {int}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"methods": ("clairvoyance",)}, "clairvoyance"),
        ({"seed": -1}, "The seed must be a whole number"),
        ({"seed": True}, "The seed must be a whole number"),
        ({"seed": "x"}, "The seed must be a whole number"),
        *(
            ({"budget": budget}, 'whole number of tokens above 0, or a share such as "12.5%"')
            for budget in (0, -1, 0.125, "ten", None, "", True, [4])
        ),
        *(({"budget": budget}, SHARE) for budget in BAD_SHARES),
        *(
            ({"max_new_tokens": longest}, f"must be a whole number, not {longest!r}")
            for longest in ("a", 2.5, None, True)
        ),
        *(
            ({"max_new_tokens": longest}, "max_new_tokens must be at least 1")
            for longest in (0, -1)
        ),
        ({"together": "no"}, "together must be True or False, not 'no'"),
        ({"aspect": "round"}, "No model fits a picture by 'round'.*pad, crop"),
        ({"question": 5}, 'question must be text, not int. Pass "" for none'),
        ({"question": None}, "question must be text, not NoneType"),
        ({"question": "Which\ud800"}, "The question has a character that is not valid"),
        ({"relevance": "words"}, r'such as RelevanceOptions\(guidance_text="words"\)'),
    ],
)
def test_a_request_that_cannot_be_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Request(**{"image": "photo.png", "question": "What?", **fields})


@pytest.mark.parametrize("name", ["budget", "max_new_tokens", "aspect"])
def test_a_long_wrong_value_is_cut(name: str) -> None:
    with pytest.raises(ValueError, match=r"x{9}\.\.\.x") as refused:
        Request(image="photo.png", question="What?", **{name: "x" * 5000})  # type: ignore[arg-type]
    assert len(str(refused.value)) < 300


def test_able_methods_say_why_the_others_are_left_out(tiny_model: LlavaModel) -> None:
    names, reasons = able_methods(tiny_model, N, N, with_text=True)
    assert set(names) | set(reasons) == set(PRUNERS) and not set(names) & set(reasons)
    assert list(names) == [name for name in PRUNERS if name in names]
    assert {"spare", "cdpruner", "trim", "fastv"} <= set(names)
    assert all(tiny_model.reason_against(PRUNERS[name]) is None for name in names)


def test_without_a_question_no_method_runs_twice(tiny_model: LlavaModel) -> None:
    names, reasons = able_methods(tiny_model, N, N, with_text=False)
    assert reasons["spare"] == reasons["cdpruner"] == "it needs a question"
    assert {"spare-reconstruction", "cdpruner-diversity"} <= set(names)
    assert not any(PRUNERS[name].needs_text for name in names)


def test_a_schedule_that_cannot_meet_the_budget_is_left_out(tiny_model: LlavaModel) -> None:
    least = PRUNERS["fastv"].lowest(N, tiny_model.layers)
    assert "fastv" in able_methods(tiny_model, N, least, with_text=True)[0]
    _, reasons = able_methods(tiny_model, N, least - 1, with_text=True)
    assert reasons["fastv"] == f"its schedule needs a budget of at least {least} of 16 tokens"
