"""Settings as text, over the whole table and by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch

from spare_demo.pruners import PRUNERS
from spare_demo.pruners.divprune import DivPrune
from spare_demo.pruners.options import (
    changes_of,
    fields_of,
    read_method,
    read_options,
    title_of,
    write_method,
)
from spare_demo.pruners.random import Random
from spare_demo.pruners.zoo import ZooPrune


def test_settings_are_read_as_their_types() -> None:
    texts = ["divprune.metric = euclidean", " zoo-prune.step = 0.5", "zoo-prune.directions=8"]
    found = read_options(texts)
    assert found == {
        "divprune": {"metric": "euclidean"},
        "zoo-prune": {"step": 0.5, "directions": 8},
    }
    method = replace(PRUNERS["zoo-prune"], **found["zoo-prune"])
    assert method == ZooPrune(step=0.5, directions=8)
    assert read_options(["random.seed=1", "random.seed=2"]) == {"random": {"seed": 2}}
    assert read_options([]) == {}


@dataclass(frozen=True)
class Mine(Random):
    """A method of one's own whose fields are plain."""

    start: int = 0
    share: float = 1.0
    late: bool = False
    words: tuple[str, ...] = ()
    name = "mine"


@dataclass(frozen=True)
class Learned(Random):
    """A method of one's own that holds a tensor, and counts."""

    weights: torch.Tensor = field(default_factory=lambda: torch.ones(2))
    runs: int = field(default=0, init=False)
    name = "learned"


def test_a_field_can_hold_a_tensor_and_one_that_cannot_be_given_is_no_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, other = Learned(), Learned(weights=torch.ones(2))
    monkeypatch.setitem(PRUNERS, "learned", usual)
    assert changes_of(usual) == {}
    assert list(changes_of(other)) == ["weights"]
    assert "runs" not in fields_of(usual)


def test_plain_fields_are_read_by_the_type_of_their_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PRUNERS, "mine", Mine())
    method = read_method("mine:start=7,share=2,late=true")
    assert method == Mine(start=7, share=2.0, late=True) and type(method.share) is float
    assert read_method(write_method("mine", {"late": True})) == Mine(late=True)
    for text, sentence in (
        ("mine:start=a", "start of Mine cannot be 'a'. Choose a whole number."),
        ("mine:late=1", "Choose true or false."),
        ("mine:words=a", "has no text. Set it in Python."),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_method(text)


@pytest.mark.parametrize("name", PRUNERS)
def test_every_default_can_be_written_and_read(name: str) -> None:
    method = PRUNERS[name]
    texts = [f"{name}.{field}={getattr(method, field)}" for field in fields_of(method)]
    assert replace(method, **read_options(texts).get(name, {})) == method


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("divprune", "cannot be read.*divprune.metric=euclidean"),
        ("metric=cosine", "cannot be read"),
        ("divprne.metric=cosine", "no method 'divprne'.*spare, .*divprune"),
        ("divprune.metrik=cosine", "'divprune' has no setting 'metrik'. It has: metric."),
        ("uniform.k=3", "has no setting 'k'. It has none."),
        ("divprune.metric=manhattan", "metric of DivPrune cannot be 'manhattan'. Choose one of"),
        ("zoo-prune.directions=2.5", "Choose a whole number from 1 to 1024"),
        ("zoo-prune.step=fast", "Choose a number from 0.0001"),
        ("zoo-prune.step=nan", "Choose a number from 0.0001"),
    ],
)
def test_what_is_no_setting_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_options([text])


def test_a_method_as_it_is_set_is_one_text() -> None:
    assert read_method("spare") is not None
    method = read_method("zoo-prune:directions=16,step=0.5")
    assert method == ZooPrune(directions=16, step=0.5)
    values = {"directions": 16, "step": 0.01, "seed": 0}
    assert write_method("zoo-prune", values) == "zoo-prune:directions=16"
    assert write_method("zoo-prune", {"step": 0.01}) == "zoo-prune"
    with pytest.raises(ValueError, match=r"sets zoo-prune\.step twice\. Leave one out"):
        read_method("zoo-prune:step=1,directions=16, step=0.5")
    with pytest.raises(ValueError, match="no method 'zoo'"):
        read_method("zoo:step=1")
    with pytest.raises(ValueError, match="no setting 'steps'"):
        read_method("zoo-prune:steps=1")


@pytest.mark.parametrize(
    ("name", "meant"), [("SPARE", "spare"), ("VisionZip", "visionzip"), ("FAST-V", "fastv")]
)
def test_the_nearest_name_is_meant_whatever_the_case(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"no method '{name}'. Did you mean {meant}\\?"):
        read_method(name)


@pytest.mark.parametrize("name", ["spare", "spare:squash=minmax"])
def test_a_label_of_evaluate_is_told_of_the_option(name: str) -> None:
    with pytest.raises(ValueError, match=f"evaluate alone.*Write '{name}'.*prune takes guid"):
        read_method(f"{name}@words")


@pytest.mark.parametrize("text", ["{}", "spare:{}=1", "spare:squash={}", "zoo-prune:step={}"])
def test_a_long_wrong_text_is_cut(text: str) -> None:
    with pytest.raises(ValueError, match=r"x{9}\.\.\.x") as refused:
        read_method(text.format("x" * 5000))
    assert "x" * 30 not in str(refused.value)


def test_a_title_says_what_was_set_otherwise() -> None:
    assert title_of(DivPrune()) == "DivPrune"
    assert title_of(DivPrune(metric="euclidean")) == "DivPrune (metric=euclidean)"
    assert title_of(Random(seed=9)) == "Random"  # the page has the seed beside it
    assert changes_of(PRUNERS["cdpruner-paper"]) == {}


RELEASED = {"size_bias": "none"}
DEFAULTS = {  # what the papers, or the code their authors released, run with
    "spare": {
        "aggregation": "mean",
        "squash": "softplus",
        "guidance": "anti",
        "statistics": "joint",
    },
    "cdpruner": {"form": "released"},
    "divprune": {"metric": "cosine"},
    "dart-diversity": {"pivots": 8, "norm": "l1"},
    "prumerge": {"form": "plain", "neighbours": 32, "size": "budget"} | RELEASED,
    "prumerge-plus": {"form": "plus", "neighbours": 32, "size": "budget"} | RELEASED,
    "holov": {},
    "litelvlm": {},
    "vscan": RELEASED,
    "visionzip": {"contextual": 10 / 64} | RELEASED,
    "trim": {"form": "released", "size": "budget", "text": "prompt"} | RELEASED,
    "zoo-prune": {"directions": 64, "step": 0.01, "seed": 0},
    "fastv": {"layer": 2, "counting": "average"},
    "pyramiddrop": {"schedule": "released"},
    "sparsevlm": {"version": "1.5"},
    "dart": {"layer": 2, "image_pivots": 4, "text_pivots": 4, "counting": "average"},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_are_the_papers(name: str) -> None:
    method = PRUNERS[name]
    assert {field: getattr(method, field) for field in fields_of(method)} == DEFAULTS[name]
