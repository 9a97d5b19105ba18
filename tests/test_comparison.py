"""The one pipeline, on a tiny real LLaVA: 16 visual tokens, random weights."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from PIL import Image

from spare_demo.chosen import choose, read_budget
from spare_demo.comparison import Comparison, compare
from spare_demo.cost import cost_rows, cost_sentence
from spare_demo.exploration import Exploration, curve_budgets, explore
from spare_demo.measures import merged_error
from spare_demo.models import LlavaModel, View
from spare_demo.pruners import PRUNERS, LayerPruner, Pruner
from spare_demo.pruners.divprune import DivPrune
from spare_demo.pruners.random import Random
from spare_demo.pruners.uniform import Uniform
from spare_demo.record import read_pick_lists, record
from spare_demo.tokens import Selection

QUESTION = "Which number is written on the small triangle?"
N = 16
BEFORE = tuple(name for name, method in PRUNERS.items() if not isinstance(method, LayerPruner))


@pytest.fixture(scope="module")
def view(tiny_model: LlavaModel, photo: Image.Image) -> View:
    return tiny_model.encode(photo, QUESTION)


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Comparison:
    return compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)


class Counting:
    """The tiny model, counting its passes."""

    def __init__(self, model: LlavaModel) -> None:
        self.model, self.looks, self.answers = model, 0, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)

    def encode(self, *args: object) -> View:
        self.looks += 1
        return self.model.encode(*args)  # type: ignore[arg-type]

    def answer(self, *args: object) -> object:
        self.answers += 1
        return self.model.answer(*args)  # type: ignore[arg-type]


def test_compare_answers_with_all_tokens_and_with_each_selection(
    result: Comparison, tiny_model: LlavaModel
) -> None:
    assert list(result.answers) == ["unpruned", "spare", "cdpruner"]
    assert list(result.selections) == ["spare", "cdpruner"]
    assert result.answers["unpruned"].visual_tokens == N
    for label, selection in result.selections.items():
        alone = PRUNERS[label].select(result.view.tokens, 5)
        assert torch.equal(selection.order, alone.order)
        again = tiny_model.answer(result.view, alone, max_new_tokens=4)
        assert result.answers[label].token_ids == again.token_ids
        assert result.answers[label].visual_tokens == 5


def test_one_vision_pass_serves_every_method(tiny_model: LlavaModel, photo: Image.Image) -> None:
    model = Counting(tiny_model)
    compare(model, photo, QUESTION, BEFORE, budget=3, max_new_tokens=1)  # type: ignore[arg-type]
    assert (model.looks, model.answers) == (1, len(BEFORE) + 1)


def test_every_budget_is_what_the_method_itself_selects(view: View) -> None:
    exploration = explore(view, choose(BEFORE))
    for budget in range(1, N + 1):
        for label, selection in exploration.selections(budget).items():
            alone = PRUNERS[label].select(view.tokens, budget)
            assert torch.equal(selection.order, alone.order), (label, budget)
            assert (selection.gain is None) == (alone.gain is None)


def test_moving_the_budget_runs_no_nested_method_again(view: View) -> None:
    calls = []

    class Once(Random):
        def select(self, tokens: object, budget: int) -> Selection:
            calls.append(budget)
            return super().select(tokens, budget)  # type: ignore[arg-type]

    exploration = explore(view, {"once": Once()})
    for budget in (1, 7, N):
        assert len(exploration.selections(budget)["once"]) == budget
    assert calls == [N]
    assert exploration.select_seconds["once"] > 0


MERGING = ("prumerge", "prumerge-plus", "visionzip", "trim")


def test_methods_that_merge_answer_from_their_rows(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    result = compare(tiny_model, photo, QUESTION, MERGING, budget=7, max_new_tokens=3)
    features = result.view.tokens.features
    assert [note.split(" merges")[0] for note in result.exploration.notes] == [
        PRUNERS[label].title for label in MERGING
    ]
    for label in MERGING:
        selection = result.selections[label]
        assert result.answers[label].visual_tokens == selection.size == 7
        assert result.answers[label].kept_per_layer == (7, 7, 7)
        rows = selection.features
        assert rows is not None
        by_hand = tiny_model.answer(
            result.view, Selection([0], features=rows.clone()), max_new_tokens=3
        )
        assert result.answers[label].token_ids == by_hand.token_ids
        curves = result.exploration.curves
        for k, error in zip(curves.budgets, curves.errors[label], strict=True):
            merged = PRUNERS[label].select(result.view.tokens, k).features
            assert merged is not None
            assert error == pytest.approx(merged_error(features, merged, relative=True), abs=1e-6)


def test_a_method_that_is_not_nested_runs_once_per_budget(view: View) -> None:
    calls = []

    class Often(Uniform):
        def select(self, tokens: object, budget: int) -> Selection:
            calls.append(budget)
            return super().select(tokens, budget)  # type: ignore[arg-type]

    exploration = explore(view, {"often": Often()})
    for budget in (3, 5, 3):
        assert len(exploration.selections(budget)["often"]) == budget
    assert calls == [3, 5]


def test_the_seed_reaches_methods_by_name_and_no_ready_made_one() -> None:
    assert choose(("random",), seed=7) == {"random": Random(seed=7)}
    assert choose({"mine": Random(seed=3)}, seed=7) == {"mine": Random(seed=3)}
    assert choose(("spare",), seed=7) == {"spare": PRUNERS["spare"]}


def test_settings_reach_methods_by_name_and_their_titles(view: View) -> None:
    changes = {"divprune": {"metric": "euclidean"}}
    chosen = choose(("divprune", "spare"), changes=changes)
    assert chosen == {"divprune": DivPrune(metric="euclidean"), "spare": PRUNERS["spare"]}
    told = ("divprune:metric=euclidean", "divprune")
    assert choose(told) == {told[0]: DivPrune(metric="euclidean"), "divprune": DivPrune()}
    assert explore(view, choose(told)).titles[told[0]] == "DivPrune (metric=euclidean)"
    titles = explore(view, chosen).titles
    assert titles == {"divprune": "DivPrune (metric=euclidean)", "spare": "SPARE"}
    with pytest.raises(ValueError, match="'divprune' has settings but is not compared"):
        choose("spare", changes=changes)
    with pytest.raises(ValueError, match="is not compared"):
        choose({"divprune": Uniform()}, changes=changes)


def test_labels_tell_two_of_a_kind_apart() -> None:
    assert list(choose(("spare", "random", "spare"))) == ["spare", "random", "spare (2)"]
    assert list(choose("spare")) == ["spare"]


def test_a_method_twice_with_other_settings(view: View) -> None:
    first = {"mean": PRUNERS["spare"], "min-max": replace(PRUNERS["spare"], squash="minmax")}  # type: ignore[type-var]
    assert list(explore(view, first).selections(4)) == ["mean", "min-max"]


@pytest.mark.parametrize(
    ("pruners", "sentence"),
    [
        (("spare", "sparse"), "'sparse'.*spare-reconstruction.*uniform"),
        ((), "at least one method: spare"),
        ({"unpruned": PRUNERS["spare"]}, "all tokens"),
        ({"a": "spare"}, "'a' must be a method, a Selection or a LayerPlan, not str"),
    ],
)
def test_what_cannot_be_chosen_is_refused(pruners: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose(pruners)  # type: ignore[arg-type]


def test_without_a_question_the_text_part_is_off_and_said_to_be(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    bare = tiny_model.encode(photo, " ")
    exploration = explore(bare, choose(("spare", "cdpruner", "uniform")))
    kept = exploration.selections(4)
    assert torch.equal(
        kept["spare"].order, PRUNERS["spare-reconstruction"].select(bare.tokens, 4).order
    )
    assert torch.equal(
        kept["cdpruner"].order, PRUNERS["cdpruner-diversity"].select(bare.tokens, 4).order
    )
    assert exploration.relevance is None
    assert exploration.weights == {"spare": None, "cdpruner": None, "uniform": None}
    assert len(exploration.notes) == 2
    assert "Without a question the text part of SPARE is off" in exploration.notes[0]


def test_a_method_that_is_nothing_without_a_question_says_so(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    with pytest.raises(ValueError, match="needs text"):
        explore(tiny_model.encode(photo, ""), choose(("normal-relevance",)))


def test_relevance_is_the_raw_cosine_and_weights_are_the_methods_own(view: View) -> None:
    exploration = explore(view, choose(("spare", "cdpruner", "random")))
    image = torch.nn.functional.normalize(view.tokens.clip_pair()[0].double(), dim=1)
    text = torch.nn.functional.normalize(view.tokens.clip_pair()[1].double(), dim=1)
    torch.testing.assert_close(exploration.relevance, (image @ text.T).mean(dim=1))
    for label in ("spare", "cdpruner"):
        pruner = PRUNERS[label]
        torch.testing.assert_close(exploration.weights[label], pruner.weight(view.tokens))
    assert exploration.weights["random"] is None


@pytest.fixture(scope="module")
def curves_of(view: View) -> Exploration:
    chosen: dict[str, Pruner | Selection] = {
        **choose(("spare", "uniform", "random"), seed=2),
        "mine": Selection(torch.tensor([3, 1, 8])),
    }
    return explore(view, chosen)


def test_curves_fall_to_nothing_and_keep_above_the_bound(curves_of: Exploration) -> None:
    curves = curves_of.curves
    assert curves.budgets == (1, 2, 4, 8, 16)
    for label in ("spare", "uniform", "random"):
        errors = curves.errors[label]
        assert errors[-1] == pytest.approx(0, abs=1e-6)
        for error, least in zip(errors, curves.bound.tolist(), strict=True):
            assert error >= least - 1e-9
    spread = curves.random
    assert bool((spread.low <= spread.mean).all() and (spread.mean <= spread.high).all())
    assert bool((spread.low < spread.high)[:-1].all())
    # Seed 2 is one of the control's own draws.
    for error, low, high in zip(
        curves.errors["random"], spread.low.tolist(), spread.high.tolist(), strict=True
    ):
        assert low - 1e-9 <= error <= high + 1e-9


def test_the_error_is_that_of_least_squares(curves_of: Exploration) -> None:
    x = curves_of.view.tokens.features.double()
    kept = x[curves_of.selections(4)["spare"].order]
    fitted = torch.linalg.lstsq(kept.T, x.T).solution
    left = torch.linalg.norm(x.T - kept.T @ fitted) / torch.linalg.norm(x)
    at = curves_of.curves.budgets.index(4)
    assert curves_of.curves.errors["spare"][at] == pytest.approx(float(left), abs=1e-6)


def test_a_set_made_by_hand_is_itself_at_every_budget(curves_of: Exploration) -> None:
    assert list(curves_of.curves.points) == ["mine"]
    assert curves_of.curves.points["mine"][0] == 3
    for budget in (1, 10):
        assert curves_of.selections(budget)["mine"].order.tolist() == [3, 1, 8]


def test_a_set_made_for_another_picture_is_refused(view: View) -> None:
    with pytest.raises(ValueError, match="Patch index 16 does not exist"):
        explore(view, {"mine": Selection(torch.tensor([1, 16]))})


@pytest.mark.parametrize(("value", "budget"), [(1, 1), (16, 16), (7.0, 7), ("12", 12), (" 3 ", 3)])
def test_a_budget_is_read_as_typed_or_slid(value: object, budget: int) -> None:
    assert read_budget(value, N) == budget


@pytest.mark.parametrize(
    ("value", "budget"), [("100%", 16), ("20 %", 3), (" 12.5%", 2), ("0.1%", 1)]
)
def test_a_budget_may_be_a_share(value: str, budget: int) -> None:
    assert read_budget(value, N) == budget


@pytest.mark.parametrize("value", ["0%", "-5%", "101%", "%", "many%", "nan%", "inf%"])
def test_a_share_that_cannot_be_gets_a_sentence(value: str) -> None:
    with pytest.raises(ValueError, match="above 0% and up to 100%"):
        read_budget(value, N)


@pytest.mark.parametrize(
    "value", [0, -3, 17, 2.5, "many", "", None, True, float("nan"), float("inf"), "1e300", [4]]
)
def test_a_budget_that_cannot_be_gets_a_sentence(value: object) -> None:
    with pytest.raises(ValueError, match="Choose a whole number from 1 to 16"):
        read_budget(value, N)


def test_compare_refuses_a_budget_before_any_answer(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    model = Counting(tiny_model)
    with pytest.raises(ValueError, match="Choose a whole number from 1 to 16"):
        compare(model, photo, QUESTION, budget=N + 1)  # type: ignore[arg-type]
    assert model.answers == 0


def test_curve_budgets_end_at_n_and_hold_the_marks() -> None:
    assert curve_budgets(1) == (1,)
    assert curve_budgets(2) == (1, 2)
    budgets = curve_budgets(576)
    assert budgets[-1] == 576
    assert {32, 64, 128, 192} < set(budgets)
    assert list(budgets) == sorted(set(budgets))


def test_the_record_is_json_and_can_be_read_back(result: Comparison) -> None:
    data = json.loads(json.dumps(record(result), allow_nan=False))
    assert data["model"]["name"] == "tiny-llava"
    assert data["model"]["revision"]
    assert (data["picture"]["width"], data["picture"]["height"]) == (90, 60)
    assert data["settings"]["budget"] == 5
    assert data["visual_tokens"] == N == len(data["relevance"])
    assert set(data["versions"]) == {
        "python",
        "torch",
        "transformers",
        "open_clip_torch",
        "pillow",
        "numpy",
        "plotly",
        "spare_demo",
    }
    for label, selection in result.selections.items():
        assert data["selections"][label]["order"] == selection.order.tolist()
        assert selection.gain is not None
        assert data["selections"][label]["gain"] == selection.gain.tolist()
    for label, answer in result.answers.items():
        assert data["answers"][label]["text"] == answer.text
        assert data["answers"][label]["kv_cache_bytes"] == answer.kv_cache_bytes
    back = read_pick_lists(json.dumps(data), "file")
    assert {label: picks.order.tolist() for label, picks in back.items()} == {
        label: selection.order.tolist() for label, selection in result.selections.items()
    }


def test_the_record_tells_no_path(result: Comparison, tiny_folder: object) -> None:
    assert str(tiny_folder) not in json.dumps(record(result))


def test_the_same_run_twice_gives_the_same_record(
    result: Comparison, tiny_model: LlavaModel, photo: Image.Image
) -> None:
    again = compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)

    def timeless(value: object) -> object:
        if isinstance(value, dict):
            return {
                k: timeless(v)
                for k, v in value.items()
                if not (k.endswith("_seconds") or k == "prefill_share")
            }
        return [timeless(v) for v in value] if isinstance(value, list) else value

    assert timeless(record(result)) == timeless(record(again))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("[1, 2, 1]", "1 is in the selection more than once"),
        ("[1, 16]", "Patch index 16 does not exist"),
        ("[-1, 2]", "-1 is negative"),
        ("[]", "empty"),
        ("[1.5]", "whole numbers"),
        ("[true]", "whole numbers"),
        ('["1"]', "whole numbers"),
        ('{"a": 1}', "whole numbers"),
        ("1, 2", "whole numbers"),
        ("[[1, 2]]", "whole numbers"),
        ("[" * 100_000, "whole numbers"),
        ("[null]", "whole numbers"),
        ("[99999999999999999999]", "whole numbers"),
    ],
)
def test_bad_picks_get_a_sentence(source: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        for selection in read_pick_lists(source, "mine").values():
            selection.check(N)


def test_a_file_of_picks_holds_one_list_or_several() -> None:
    assert read_pick_lists("[3, 0, 7]", "mine")["mine"].order.tolist() == [3, 0, 7]
    several = read_pick_lists('{"a": [2, 1], "b": [0]}', "mine")
    assert {label: s.order.tolist() for label, s in several.items()} == {"a": [2, 1], "b": [0]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("not json", "could not be read"),
        ("{}", "could not be read"),
        ("7", "could not be read"),
        ('{"unpruned": [1]}', "could not be read"),
        ('{"a": null}', "could not be read"),
        ('{"format": 99, "selections": {}}', "could not be read"),
        ('{"format": 1, "selections": {"a": {}}}', "could not be read"),
    ],
)
def test_a_bad_file_of_picks_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_pick_lists(text, "mine")


def test_cost_is_told_against_the_unpruned_answer(result: Comparison) -> None:
    rows = {row.label: row for row in cost_rows(result.answers)}
    whole, pruned = rows["unpruned"], rows["spare"]
    assert (whole.prefill_share, whole.kv_cache_share) == (1.0, 1.0)
    assert whole.prompt_tokens - pruned.prompt_tokens == N - 5
    assert pruned.kv_cache_share == pytest.approx(pruned.prompt_tokens / whole.prompt_tokens)


def test_where_nothing_is_gained_the_sentence_says_so(result: Comparison) -> None:
    whole = replace(result.answers["unpruned"], prefill_seconds=0.040)
    slow = replace(result.answers["spare"], prefill_seconds=0.041)
    fast = replace(result.answers["spare"], prefill_seconds=0.010)
    rows = cost_rows({"unpruned": whole, "slow": slow, "fast": fast})
    sentence = cost_sentence(rows, {"slow": "Slow", "fast": "Fast"})
    assert "Slow: no gain in prefill time here (41 ms, 102% of the unpruned time)" in sentence
    assert "Fast: prefill in 25% of the unpruned time" in sentence
    assert sentence.count("cache") == 2
