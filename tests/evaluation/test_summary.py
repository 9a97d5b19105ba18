"""Means, paired differences and intervals, against slow bootstraps written here."""

from __future__ import annotations

import json
import math
import re
import tracemalloc
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from spare_demo.evaluation import cells, figures, report, tables
from spare_demo.evaluation.records import Place, Row
from spare_demo.evaluation.report import write_files
from spare_demo.evaluation.statistics import Draws, Estimate, holm, sign_flip_test, wilson
from spare_demo.evaluation.summary import as_json, skills_of, summarise
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.base import GROUPS
from spare_demo.render.chart import Bars, Lines, look_of

CATEGORIES = ("ocr", "ocr + spatial", "counting")


def made(
    pictures: int = 12, set: str = "held-out", budgets: tuple[int, ...] = (16, 64)
) -> list[Row]:
    """Two or three questions a picture; "spare" right as often as "random" or more often."""
    rng = np.random.default_rng(3)
    rows = []
    for p in range(pictures):
        for number in range(2 + p % 2):
            head = (set, str(p), number, "q", "t", "a")
            category = CATEGORIES[(p + number) % 3]
            lucky = bool(rng.random() < 0.5)
            rows.append(Row(*head, True, category, "unpruned", 576, 0.0, 0.0))
            rows.append(Row(*head, p == 0, category, "blank", 576, 1.0, math.nan))
            for k in budgets:
                kl = float(rng.random())
                rows.append(Row(*head, lucky or k > 16, category, "spare", k, kl, 0.1 * k))
                hit = lucky and bool(rng.random() < 0.7)
                rows.append(Row(*head, hit, category, "random", k, kl, 0.5))
    return rows


def slow(rows: list[Row], resamples: int = 2000, seed: int = 0) -> np.ndarray:
    """Accuracy in every draw: pictures drawn again one by one."""
    pictures = list(dict.fromkeys(row.picture for row in rows))
    by = {p: [row.right for row in rows if row.picture == p] for p in pictures}
    rng = np.random.default_rng(seed + 99)
    draws = []
    for _ in range(resamples):
        hits = [
            hit for i in rng.integers(0, len(pictures), len(pictures)) for hit in by[pictures[i]]
        ]
        draws.append(np.mean(hits))
    return np.array(draws)


def test_means_and_intervals_are_those_of_a_slow_bootstrap_over_pictures() -> None:
    rows = made(40)
    summary = summarise(rows)["held-out"]
    for column in (("spare", 16), ("random", 64)):
        chosen = [row for row in rows if (row.method, row.budget) == column]
        found = summary.accuracy[column]
        assert found.value == pytest.approx(np.mean([row.right for row in chosen]))
        assert found.count == len(chosen)
        low, high = np.percentile(slow(chosen), (2.5, 97.5))
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.01)
    assert (summary.questions, summary.pictures, summary.tokens) == (100, 40, 576)
    assert (summary.methods, summary.budgets) == (("spare", "random"), (16, 64))


def test_pictures_are_drawn_whole() -> None:
    """Ten questions of a picture that are all right or all wrong are one piece of evidence."""
    row = made(1)[0]
    one = [replace(row, picture=str(p), right=p % 2 == 0) for p in range(30)]
    many = [replace(r, number=n) for r in one for n in range(10)]
    few, all_ten = (summarise(rows)["held-out"].accuracy["unpruned", 576] for rows in (one, many))
    assert (few.low, few.high) == (all_ten.low, all_ten.high)
    assert few.high - few.low > 0.2


@pytest.mark.parametrize(("right", "trials"), [(0, 7), (7, 7), (3, 4), (1, 4), (60, 144)])
def test_wilson_is_that_of_scipy(right: int, trials: int) -> None:
    interval = binomtest(right, trials).proportion_ci(method="wilson")
    assert wilson(right / trials, trials) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_small_cells_and_those_all_alike_have_wilsons_interval() -> None:
    """Of as many trials as pictures: ten right answers about one picture are no ten of them."""
    rows = made(24)
    summary = summarise(rows)["held-out"]
    whole = summary.accuracy["unpruned", 576]
    assert (whole.low, whole.high) == (pytest.approx(wilson(1.0, 24)[0]), 1.0)
    few = [row for row in rows if row.category == "counting" and int(row.picture) < 18]
    pictures = len({row.picture for row in few})
    cell = summarise(few)["held-out"].accuracy["spare", 16]
    assert 0 < cell.value < 1
    assert (cell.low, cell.high) == pytest.approx(wilson(cell.value, pictures))
    for estimates in (summary.accuracy, *summary.skills.values(), *summary.combinations.values()):
        for estimate in estimates.values():
            assert estimate.low < estimate.high
            assert estimate.low <= estimate.value <= estimate.high


def test_twenty_pictures_are_enough_for_an_interval() -> None:
    estimate = Estimate(0.713, 0.682, 0.745, 9)
    assert cells.share(estimate) == "71.3 % (68.2 to 74.5)"
    for pictures, few in ((19, True), (20, False)):
        summary = summarise(made(pictures), resamples=20)["held-out"]
        assert (cells.TOO_FEW in cells.means_note(summary)) == few
        assert cells.is_apart(summary, estimate) != few
        cell = summary.accuracy["random", 16]
        assert ((cell.low, cell.high) == wilson(cell.value, pictures)) == few


def test_stars_are_counted_and_corrected_for_how_many_they_are() -> None:
    rows = made(40)
    spare = [row for row in rows if row.method == "spare"]
    rng = np.random.default_rng(0)
    for name in ("a", "b", "c"):  # as good as spare, but for chance
        rows += [
            replace(row, method=name, right=row.right != bool(rng.random() < 0.1)) for row in spare
        ]
    summary = summarise(rows, reference="spare")["held-out"]
    expected = {}
    for column in summary.difference:
        signs: Counter[str] = Counter()
        for row in rows:
            if row.budget == column[1]:
                signs[row.picture] += row.right * (
                    (row.method == column[0]) - (row.method == "spare")
                )
        expected[column] = sign_flip_test(list(signs.values()))
    assert summary.p_values == pytest.approx(expected)
    assert list(summary.adjusted.values()) == pytest.approx(holm(list(expected.values())))
    table = tables.differences(summary)
    assert table
    cells = [cell for row in table.rows for cell in row]
    starred, corrected = (sum(mark in cell for cell in cells) for mark in "*†")
    assert f"leaves out zero ({starred} of 8; about 0.4 if no method differed)." in table.note
    assert f"after Holm's correction ({corrected} of 8)." in table.note
    assert 0 < corrected < 8
    assert corrected == sum(p < 0.05 for p in summary.adjusted.values())
    none = tables.differences(replace(summary, adjusted=dict.fromkeys(summary.adjusted, 0.05)))
    assert none and not any("†" in cell for row in none.rows for cell in row)
    torn = [row for row in rows if (row.method, row.picture, row.budget) != ("a", "0", 16)]
    unlike = summarise(torn, reference="spare")["held-out"]  # no test of other questions
    assert unlike.p_values.keys() == summary.p_values.keys() - {("a", 16)}
    assert ("a", 16) in unlike.difference and tables.differences(unlike)


def test_a_label_with_few_pictures_is_drawn_as_among_all_of_them() -> None:
    draws = Draws([str(i) for i in range(40)], resamples=50)
    rng = np.random.default_rng(3)
    counts = np.zeros((40, 2))
    counts[[4, 17, 30]] = [[2, 2], [1, 0], [3, 3]]
    sums = np.floor(counts * rng.random((40, 2)))
    value, resampled = draws.means(sums, counts)
    assert value.tolist() == (sums.sum(0) / counts.sum(0)).tolist()
    with np.errstate(invalid="ignore"):
        expected = (draws.weights @ sums) / (draws.weights @ counts)
    assert np.isnan(expected).any()  # a draw without any of the three
    np.testing.assert_array_equal(resampled, expected)


def test_the_draws_of_many_pictures_fit_into_memory() -> None:
    pictures, resamples = 5000, 1000
    right = np.ones((pictures, 3))
    tracemalloc.start()
    _, resampled = Draws([str(i) for i in range(pictures)], resamples).means(right, right)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (resampled == 1).all() and resampled.shape == (resamples, 3)
    assert most < 5 * pictures * resamples


def test_every_question_may_have_a_category_of_its_own() -> None:
    rows = made(24, budgets=(64,))
    own = [replace(r, category=f"{r.picture} {r.number} + all") for r in rows]
    summary = summarise(own, resamples=50)["held-out"]
    assert len(summary.combinations) == summary.questions
    assert len(summary.skills) == summary.questions + 1
    assert summary.skills["all"] == summary.numbers[2] == summary.accuracy
    for row in own:
        for part in (summary.combinations[row.category], summary.skills[row.category[:-6]]):
            found = [part[column] for column in part if column[0] == row.method]
            assert [(e.value, e.count) for e in found] == [(float(row.right), 1)]


def test_the_best_is_compared_by_paired_differences() -> None:
    """Two that differ on a few questions only overlap widely, and are told apart all the same."""
    rows = made(60, budgets=(64,))
    best = [row for row in rows if row.method == "random"]
    flips = {(row.picture, row.number) for row in [r for r in best if r.right][::5]}
    worse = [
        replace(row, method="worse", right=row.right and (row.picture, row.number) not in flips)
        for row in best
    ]
    same = [replace(row, method="same") for row in best]
    summary = summarise([*best, *worse, *same, rows[0]])["held-out"]
    assert summary.best == {64: "random"}
    assert list(summary.behind_best) == [("worse", 64), ("same", 64)]
    assert summary.accuracy["worse", 64].high > summary.accuracy["random", 64].low
    assert summary.behind_best["worse", 64].apart_from(0)
    assert not summary.behind_best["same", 64].apart_from(0)
    sentence = next(line for line in report.findings(summary) if line.startswith("At 64 tokens"))
    assert "no other method is right more often than Random" in sentence  # "same" is level with it
    assert "1 of the other 2 does not differ from it reliably" in sentence
    assert "same +0.0" in sentence and "worse -" not in sentence
    alike = [replace(row, method=f"c{n}") for n in range(7) for row in best]
    crowd = " ".join(report.findings(summarise([*best, *alike, rows[0]])["held-out"]))
    assert "7 of the other 7 do not differ from it reliably. The nearest, in points" in crowd
    assert "c4 +0.0" in crowd and "c5" not in crowd
    alone = summarise([*best, *worse, rows[0]])["held-out"]
    told = " ".join(report.findings(alone))
    assert "Random is right most often" in told and "the other one is behind it" in told
    single = " ".join(report.findings(summarise([*best, rows[0]])["held-out"]))
    assert re.search(r"At 64 tokens Random gives \S+ % \(.*?\) right answers\.", single)


def test_a_small_difference_is_not_written_as_zeros() -> None:
    small, large = Estimate(-3.13e-4, -4e-4, -2.2e-4, 9), Estimate(-0.1236, -0.2, 0.0, 9)
    assert cells.plain(small, signed=True) == "-0.00031 (-0.00040 to -0.00022)"
    assert cells.plain(large, signed=True) == "-0.124 (-0.200 to +0.000)"
    assert cells.plain(Estimate(4.4e-11, 0.0, 1e-10, 9)) == "4.4e-11 (0.0 to 1.0e-10)"
    assert cells.plain(Estimate(-0.008, -0.0804, 0.058, 9)) == "-0.0080 (-0.080 to 0.058)"
    assert cells.percent(Estimate(0.057, -1e-5, 0.117, 9), signed=True) == "+5.7 (+0.0 to +11.7)"


def test_what_a_budget_is_inside_the_language_model_is_said() -> None:
    names = {"random": "sparsevlm", "spare": "fastv:counting=rank"}
    rows = [replace(r, method=names.get(r.method, r.method)) for r in made()]
    rows += [replace(r, method="fastv") for r in rows if r.method == "sparsevlm"]
    summary = summarise(rows)["held-out"]
    said = (
        "Of FastV a budget is the average over layers. Of FastV (counting=rank) and SparseVLM a "
        "budget is what the paper counts: the layers get more on average."
    )
    assert said in report.findings(summary)
    assert tables.accuracy(summary).note.endswith(said)
    assert cells.inside_note(["spare", "gone:x=1"]) == ""


def test_what_random_tokens_gain_is_no_loss_below_zero() -> None:
    rows = [replace(row, right=row.method == "random") for row in made()]
    said = report.findings(summarise(rows)["held-out"])
    assert "Random picks of 16 tokens gain 100.0 points against all tokens." in said


def test_reconstruction_and_diversity_are_compared_on_every_measure() -> None:
    rows = [row for row in made(24) if row.method != "random"]
    rng = np.random.default_rng(5)
    spare = [row for row in rows if row.method == "spare"]
    for name in ("spare-reconstruction", "divprune", "cdpruner"):
        rows += [
            replace(row, method=name, error=float(rng.random()), kl=float(rng.random()))
            for row in spare
        ]
    summary = summarise(rows)["held-out"]
    table = tables.reconstruction_diversity(summary)
    assert table
    heads = [row[0] for row in table.rows if row[0].endswith(":")]
    assert heads == ["“SPARE, reconstruction only” minus “DivPrune”:", "“SPARE” minus “CDPruner”:"]
    assert len(table.rows) == 2 * (1 + 3)
    mean = {
        name: np.mean([r.error for r in rows if (r.method, r.budget) == (name, 16)])
        for name in ("spare-reconstruction", "divprune")
    }
    apart = mean["spare-reconstruction"] - mean["divprune"]
    assert table.rows[2][1].startswith(f"{apart:+.3f} (")
    assert table.rows[1][1].startswith("+0.0 (")
    only = [row for row in rows if row.method in ("unpruned", "spare", "divprune")]
    assert tables.reconstruction_diversity(summarise(only)["held-out"]) is None


def test_differences_are_paired() -> None:
    rows = made(40)
    summary = summarise(rows, reference="random")["held-out"]
    assert set(summary.difference) == {("spare", 16), ("spare", 64)}
    for column, found in summary.difference.items():
        value = summary.accuracy[column].value - summary.accuracy["random", column[1]].value
        assert found.value == pytest.approx(value)
    # Equal on every question: no doubt about the difference, whatever that about each accuracy.
    same = [replace(r, method="spare (2)") for r in rows if r.method == "spare"]
    twice = summarise(rows + same, reference="spare")["held-out"]
    assert (twice.difference["spare (2)", 16].low, twice.difference["spare (2)", 16].high) == (0, 0)
    assert twice.accuracy["spare (2)", 16].high > twice.accuracy["spare (2)", 16].low
    assert not twice.difference["spare (2)", 16].apart_from(0)
    assert twice.difference["random", 64].apart_from(0)


def test_differences_against_all_tokens_take_the_unpruned_answers_at_every_budget() -> None:
    summary = summarise(made(), reference="unpruned")["held-out"]
    assert set(summary.difference) == {(m, k) for m in ("spare", "random") for k in (16, 64)}
    for column, found in summary.difference.items():
        value = summary.accuracy[column].value - summary.accuracy["unpruned", 576].value
        assert found.value == pytest.approx(value)
    assert summary.difference["spare", 64].low == summary.difference["spare", 64].high == 0
    table = tables.differences(summary)
    assert table and "minus those of All tokens" in table.title and len(table.rows) == 2


@pytest.mark.parametrize("pictures", [8, 19, 20, 40])
def test_a_difference_on_a_few_pictures_is_not_starred(pictures: int) -> None:
    """A few pictures drawn again are much the same few: chance looks like certainty."""
    summary = summarise(made(pictures), reference="spare")["held-out"]
    difference, accuracy = tables.differences(summary), tables.accuracy(summary)
    assert difference and summary.difference["random", 64].apart_from(0)
    starred = any("*" in cell for row in difference.rows for cell in row)
    assert starred == (pictures >= 20) == ("star" in difference.note)
    assert ("too narrow to go by" in difference.note) == (pictures < 20)
    assert "Wilson's" in accuracy.note


def test_seeds_give_the_same_again() -> None:
    rows = made()
    assert summarise(rows) == summarise(rows)


def test_questions_count_under_each_skill_and_by_their_number() -> None:
    rows = made()
    summary = summarise(rows)["held-out"]
    column = ("spare", 16)
    chosen = [row for row in rows if (row.method, row.budget) == column]

    def mean(test) -> float:
        return float(np.mean([row.right for row in chosen if test(row)]))

    assert list(summary.skills) == ["counting", "ocr", "spatial"]
    assert summary.skills["ocr"][column].value == pytest.approx(mean(lambda r: "ocr" in r.category))
    assert summary.numbers[2][column].value == pytest.approx(mean(lambda r: "+" in r.category))
    assert summary.numbers[1][column].count + summary.numbers[2][column].count == len(chosen)
    assert list(summary.combinations) == ["counting", "ocr", "ocr + spatial"]
    both = [replace(r, category=r.category.replace("ocr +", "a +")) for r in rows]
    fewest_first = ["counting", "ocr", "a + spatial"]
    assert list(summarise(both)["held-out"].combinations) == fewest_first
    assert skills_of("") == []
    assert skills_of("C++ +   + C + C++") == ["C++", "C"]
    assert summarise([replace(r, category="") for r in rows])["held-out"].skills == {}


def test_what_is_not_defined_is_left_out() -> None:
    rows = made()
    summary = summarise(rows)["held-out"]
    assert ("blank", 576) not in summary.error
    assert summary.error["spare", 16].value == pytest.approx(1.6)
    assert summary.kl["blank", 576].value == 1.0


def test_sets_are_apart_and_may_stand_in_json() -> None:
    both = summarise(made(6) + made(4, "unseen-pairs"))
    assert [(name, s.pictures) for name, s in both.items()] == [
        ("held-out", 6),
        ("unseen-pairs", 4),
    ]
    there = json.loads(json.dumps(as_json(both)))
    cell = next(
        c for c in there["held-out"]["accuracy"] if (c["method"], c["budget"]) == ("spare", 16)
    )
    assert cell["value"] == both["held-out"].accuracy["spare", 16].value


PLACES = [
    Place("held-out", str(p), n, layer, 0.2 + 0.01 * p, math.nan if p else 0.1, 0.1, above, 0.5)
    for p in range(12)
    for n in range(2)
    for layer, above in ((-2, 0.8), (-1, 0.3 + 0.01 * p))
]


def test_places_are_averaged_by_layer() -> None:
    other = [replace(place, set="unseen-pairs", asked=9.0) for place in PLACES]
    places = summarise(made() + made(set="unseen-pairs"), PLACES + other)["held-out"].places
    assert list(places) == [-2, -1]
    assert places[-2]["asked"].value == pytest.approx(0.255)
    assert (places[-2]["others"].value, places[-2]["others"].count) == (pytest.approx(0.1), 2)
    text = " ".join(report.findings(summarise(made(24), PLACES)["held-out"]))
    assert "penultimate layer: high raw cosine falls on the things asked about" in text
    assert "last layer: high raw cosine falls away from the things asked about" in text


def test_findings_leave_out_what_there_is_nothing_to_say_of() -> None:
    spare = [row for row in made() if row.method == "spare"]
    rows = [*made(), *(replace(row, method="cdpruner") for row in spare)]
    nowhere = Place("held-out", "0", 0, -2, *[math.nan] * 5)
    summary = summarise(rows, [nowhere], reference="random")["held-out"]
    said = report.findings(summary)
    assert said and all(said)


def test_every_table_has_its_numbers() -> None:
    summary = summarise(made(24), PLACES)["held-out"]
    found = {table.title: table for table in tables.all_tables(summary)}
    assert len(found) == 10
    for table in found.values():
        assert {len(row) for row in table.rows} == {len(table.head)}
        assert table.markdown().count("\n| ") == len(table.rows) + 1
        assert all(row[0] in table.text() for row in table.rows)
    accuracy = found["Right answers, in percent"]
    spare = next(row for row in accuracy.rows if row[0] == "SPARE")
    assert spare[2] == cells.percent(summary.accuracy["spare", 64])
    assert spare[2].startswith("100.0 (")
    apart = next(t for t in found.values() if "minus those of SPARE" in t.title)
    assert apart.rows[0][2].startswith(
        f"{100 * summary.difference['random', 64].value:+.1f}"
    ) and apart.rows[0][2].endswith("*†")
    assert "Right answers by skill at 16 tokens, in percent" in found  # the nearest to 32
    numbers = found["Right answers by number of skills at 64 tokens, in percent"]
    n = summary.numbers[1]["spare", 64].count
    assert numbers.head == ("", f"1 skill (n={n})", f"2 skills (n={60 - n})", "all (n=60)")
    layers = next(table for title, table in found.items() if "raw cosine" in title)
    assert [row[::4] for row in layers.rows] == [
        (name, cells.plain(summary.places[layer]["asked_over_background"]))
        for name, layer in (("penultimate (-2)", -2), ("last (-1)", -1))
    ]


@pytest.mark.parametrize("pictures", [1, 24])
def test_what_intervals_are_is_said_once(pictures: int) -> None:
    places = [place for place in PLACES if int(place.picture) < pictures]
    summary = summarise(made(pictures), places)["held-out"]
    notes = [table.note for table in tables.all_tables(summary)]
    assert [note.count("bootstrap over pictures") for note in notes] == [1] + [0] * 9
    assert sum("too narrow to go by" in note for note in notes) == (pictures == 1)
    assert (
        notes[1]
        == {1: "2 questions about 1 picture.", 24: "60 questions about 24 pictures."}[pictures]
    )


def test_a_category_that_another_program_wrote_beside_one_answer_is_in_no_way() -> None:
    rows = made()
    edited = next(i for i, row in enumerate(rows) if row.method == "spare")
    rows[edited] = replace(rows[edited], category="mine")
    first, *_ = tables.all_tables(summarise(rows)["held-out"])
    assert "all questions" in first.text() and "mine" not in first.text()


def test_without_methods_there_is_the_unpruned_model() -> None:
    rows = [row for row in made() if row.method in ("unpruned", "blank")]
    summary = summarise(rows)["held-out"]
    assert [t.title for t in tables.all_tables(summary)] == [
        "Right answers with nothing pruned, in percent"
    ]
    assert figures.all_figures(summary) == []
    assert len(report.findings(summary)) == 2


def test_methods_without_a_reconstruction_have_no_figure_of_it() -> None:
    """Those inside the language model have no single token set to rebuild the others from."""
    rows = [replace(row, error=float("nan")) for row in made()]
    summary = summarise(rows)["held-out"]
    names = [figure.name for figure in figures.all_figures(summary)]
    assert "accuracy" in names and "reconstruction" not in names
    rows += [replace(row, method="cdpruner", error=0.1) for row in rows if row.method == "spare"]
    pairs = summarise(rows)["held-out"].pairs
    assert pairs["right"] and pairs["error"] == {}


def test_pictures_of_different_sizes_are_one_column_of_all_tokens() -> None:
    """Qwen2.5-VL and LLaVA-NeXT's own resolution make as many tokens as suit the photo."""
    rows = [
        replace(r, budget=100 + int(r.picture), right=r.picture != "3")
        if r.method in ("unpruned", "blank")
        else r
        for r in made(12)
    ]
    summary = summarise(rows)["held-out"]
    assert (summary.fewest, summary.tokens, summary.whole) == (100, 111, "100 to 111 tokens")
    found = summary.accuracy["unpruned", 111]
    assert (found.count, found.value) == (30, pytest.approx(1 - 3 / 30))
    assert [k for m, k in summary.accuracy if m in ("unpruned", "blank")] == [111, 111]
    assert tables.accuracy(summary).head == ("", "16 tokens", "64 tokens", "all 100 to 111 tokens")
    assert "With all 100 to 111 tokens 90.0 %" in report.findings(summary)[0]
    assert all(column in summary.kl for column in (("unpruned", 111), ("blank", 111)))


def test_shares_stand_on_an_axis_of_their_own() -> None:
    rows = [replace(r, budget={16: "5%", 64: "12.5%"}.get(r.budget, r.budget)) for r in made()]
    summary, plain = summarise(rows)["held-out"], summarise(made())["held-out"]
    assert summary.budgets == ("5%", "12.5%")
    assert summary.accuracy["spare", "5%"] == plain.accuracy["spare", 16]
    assert summary.difference["random", "12.5%"] == plain.difference["random", 64]
    drawn = figures.accuracy(summary).chart
    assert isinstance(drawn, Lines) and drawn.x_title == "tokens kept, % of the picture's"
    assert [point.x for point in drawn.series[0].points] == [5.0, 12.5]
    head = ("", "5% of the tokens", "12.5% of the tokens", "all 576 tokens")
    assert tables.accuracy(summary).head == head
    said = report.findings(summary)
    assert any(line.startswith("Random picks of 5% of the tokens lose") for line in said)
    cells = as_json({"data": summary})["data"]["accuracy"]  # type: ignore[index]
    assert {cell["budget"] for cell in cells} == {576, "5%", "12.5%"}


def test_figures_hold_the_estimates() -> None:
    rows = made()
    rows += [replace(r, method="spare-reconstruction") for r in rows if r.method == "spare"]
    summary = summarise(rows)["held-out"]
    found = {figure.name: figure for figure in figures.all_figures(summary)}
    assert list(found) == ["accuracy", "skills", "reconstruction", "ablation"]
    chart = found["accuracy"].chart
    assert isinstance(chart, Lines)
    point = chart.series[0].points[0]
    estimate = summary.accuracy["spare", 16]
    assert (point.x, point.y, point.low, point.high) == (
        16, 100 * estimate.value, 100 * estimate.low, 100 * estimate.high,
    )  # fmt: skip
    assert chart.levels["All tokens"] == 100
    skills = figures.skills(summary, 16)
    bars = skills.chart
    assert isinstance(bars, Bars)
    assert bars.groups == ("1 skill", "2 skills")
    assert bars.series[0].points[1].y == 100 * summary.numbers[2]["spare", 16].value
    assert [s.name for s in found["ablation"].chart.series] == [
        "SPARE, reconstruction only",
        "SPARE",
    ]
    last = chart.series[0].points[-1].x
    said = f": SPARE {point.y:.3g} at 16 and 100 at {last:g}; "
    assert said in found["accuracy"].sentence
    two = f" at 1 skill and {bars.series[0].points[1].y:.3g} at 2 skills"
    assert two in skills.sentence
    # A method has its colour, whichever others stand beside it.
    for figure in found.values():
        for series in figure.chart.series:
            if series.name != "All tokens":
                assert cells.title_of(summary.methods[series.place]) == series.name


class _Elements(HTMLParser):
    """The elements of a page, scripts and styles among them as one element each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)


def test_markup_in_a_category_is_words_in_the_written_page(tmp_path: Path) -> None:
    markup = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
    pages = []
    for category in ("plain", markup):
        rows = [replace(row, category=category) for row in made()]
        write_files(tmp_path, {}, summarise(rows, resamples=20))
        pages.append(_Elements((tmp_path / "figures.html").read_text()).names)
    assert pages[0] == pages[1] and "img" not in pages[1]


def test_a_page_without_a_method_says_why_it_shows_nothing(tmp_path: Path) -> None:
    rows = [row for row in made() if row.method == "unpruned"]
    write_files(tmp_path, {}, summarise(rows, resamples=20))
    assert "there is no method to draw" in (tmp_path / "figures.html").read_text()


def many() -> list[Row]:
    """`made` with every method of the table, each as good as "spare"."""
    rows = made(24)
    spare = [row for row in rows if row.method == "spare"]
    others = [label for label in PRUNERS if label not in ("spare", "random")]
    return rows + [replace(row, method=label) for label in others for row in spare]


def test_all_methods_are_in_the_tables_by_group_and_a_few_in_the_figures() -> None:
    summary = summarise(many(), resamples=20)["held-out"]
    for table in (tables.accuracy(summary), tables.errors(summary), tables.divergences(summary)):
        groups: dict[str, list[str]] = {}
        for first, *rest in table.rows:
            if first.endswith(":"):
                assert first not in groups and not any(rest)
                group = groups.setdefault(first, [])
            elif groups:
                group.append(first)
        assert list(groups) == [f"{heading}:" for heading in GROUPS.values()]
        for group, heading in GROUPS.items():
            titles = [method.title for method in PRUNERS.values() if method.group == group]
            assert sorted(groups[f"{heading}:"]) == sorted(titles)
    for figure in figures.all_figures(summary):
        series = figure.chart.series
        assert len(series) <= 11
        assert len({look_of(one.place) for one in series}) == len(series)
        if figure.name in ("accuracy", "skills", "reconstruction"):
            shown = sum(one.name != "All tokens" for one in series)
            assert f"The chart shows {shown} of {len(PRUNERS)} methods" in figure.sentence


@pytest.mark.parametrize("inside", [True, False])
def test_a_chart_counts_the_methods_that_it_shows(inside: bool) -> None:
    """Those inside the language model have no error, and may have no small budget."""
    rows = [row for row in made(24) if row.method in ("unpruned", "spare")]
    spare = [row for row in rows if row.method == "spare"]
    error, budgets = (float("nan"), (64,)) if inside else (0.1, (16, 64))
    others = [replace(row, method="fastv", error=error) for row in spare if row.budget in budgets]
    summary = summarise([*rows, *others], resamples=20)["held-out"]
    for figure in (figures.errors(summary), figures.skills(summary, 16)):
        assert ("The chart shows 1 of 2 methods" in figure.sentence) == inside
    assert "The chart shows" not in figures.accuracy(summary).sentence


def test_a_few_methods_are_all_drawn_and_stand_without_headings() -> None:
    summary = summarise(made(24), resamples=20)["held-out"]
    assert figures.drawn(summary) == summary.methods
    assert [row[0] for row in tables.errors(summary).rows] == ["SPARE", "Random"]
    assert "methods" not in figures.accuracy(summary).sentence


def test_methods_that_no_table_knows_are_drawn_and_stand_last() -> None:
    rows = made(4)
    spare = [row for row in rows if row.method == "spare"]
    for number in range(12):
        rows += [replace(row, method=f"new {number}") for row in spare]
    summary = summarise(rows, resamples=20)["held-out"]
    assert list(cells.by_group(summary.methods))[-1] == "Others"
    assert len(cells.by_group(summary.methods)["Others"]) == 12
    none = [row for row in rows if row.method not in ("spare", "random")]
    assert len(figures.drawn(summarise(none, resamples=20)["held-out"])) == 10


def test_the_papers_tables_have_their_rows_at_32_where_all_of_them_were_measured() -> None:
    rows = made(24, budgets=(16, 32, 64))
    spare = [row for row in rows if row.method == "spare"]
    labels = [
        *("spare-reconstruction", "cdpruner-diversity", "dart-diversity", "spare:squash=minmax"),
        *("spare:aggregation=max", "spare:aggregation=max,squash=minmax", "spare@tokens"),
    ]
    for number, label in enumerate(labels):
        rows += [replace(row, method=label, error=0.1 * number) for row in spare]
    summary = summarise(rows)["held-out"]
    found = {table.title: table for table in tables.all_tables(summary)}
    table_6 = found["Without text at 32 tokens, as in Table 6"]
    assert [row[:2] for row in table_6.rows] == [
        ("SPARE, reconstruction only", "0.000 (0.000 to 0.000)"),
        ("CDPruner, diversity only", "0.100 (0.100 to 0.100)"),
        ("DART, diversity only", "0.200 (0.200 to 0.200)"),
    ]
    assert table_6.rows[0][2] == cells.percent(summary.accuracy["spare-reconstruction", 32])
    (title,) = [title for title in found if "Table A3" in title]
    assert title.startswith("SPARE at 32 tokens")  # not word by word, of which one was measured
    cell = cells.percent(summary.accuracy["spare:aggregation=max,squash=minmax", 32])
    assert [row[0] for row in found[title].rows] == ["mean", "max"]
    assert found[title].rows[1][1] == cell
    rows += [replace(row, method=f"{label}@tokens") for label in labels[3:6] for row in spare]
    whole, word_by_word = tables.aggregations(summarise(rows)["held-out"], 32)
    assert "one piece" in whole.note and "one piece" not in word_by_word.note
    for budget in (32, 64):
        assert f"Right answers by number of skills at {budget} tokens, in percent" in found
    assert cells.title_of("spare@tokens") == "SPARE, each word apart"


def test_two_draws_of_one_method_have_names_apart() -> None:
    titles = [cells.title_of(f"random:seed={seed}") for seed in (1, 2)]
    assert titles == ["Random, seed=1", "Random, seed=2"]
    assert cells.title_of("random:seed=1@original") == "Random, seed=1, original positions"
