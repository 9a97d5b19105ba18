"""Folders side by side: common questions, paired tests, and what cannot be compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from spare_demo.cli.main import main
from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.board import Board, make_board, read_folders
from spare_demo.evaluation.board_page import board_html, board_tables
from spare_demo.evaluation.cells import percent
from spare_demo.evaluation.records import Row
from spare_demo.evaluation.results import Results
from spare_demo.evaluation.statistics import holm, sign_flip_test
from spare_demo.evaluation.summary import summarise
from spare_demo.pruners import PRUNERS

Write = Callable[..., Path]

MODEL = {"name": "m", "title": "M", "revision": "r1", "dtype": "float32", "device": "cpu"}


def rows_of(
    methods: Sequence[str],
    pictures: Sequence[int] = range(30),
    which: str = "data",
    questions: int = 2,
) -> list[Row]:
    """Answers that depend on nothing but picture, question, method and budget."""
    rows = []
    for picture in pictures:
        for number in range(questions):
            head = (which, f"{picture}.png", number, f"q{number}", "t", "a")
            rng = np.random.default_rng([picture, number])
            luck = rng.random()
            rows.append(Row(*head, luck < 0.9, "", "unpruned", 576, 0.0, 0.0))
            for label in methods:
                for k in (16, 64):
                    mean = {"spare": 0.4, "random": 0.2}.get(label, 0.3) + k / 200
                    right = 0.5 * luck + 0.5 * rng.random() < mean
                    rows.append(Row(*head, bool(right), "", label, k, 0.1, 0.5))
    return rows


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a folder of results by its name."""

    def make(name: str, rows: Sequence[Row], model: dict[str, str] = MODEL, **more: Any) -> Path:
        labels = dict.fromkeys(row.method for row in rows if row.method != "unpruned")
        methods = {label: {"name": label, "seed": 0} for label in labels}
        settings = {"model": model, "methods": methods, "budgets": [16, 64], "instruction": ""}
        with Results(tmp_path / name, settings | more, {}, 1) as results:
            results.add(rows)
        return tmp_path / name

    return make


def board_of(*folders: Path, baseline: str = "unpruned") -> Board:
    return make_board(read_folders(folders), baseline)


def test_two_folders_are_what_one_folder_of_all_methods_would_be(write: Write) -> None:
    both = rows_of(("spare", "random"))
    split = [
        # Of "unpruned" each machine may have words of its own.
        write(label, [replace(r, prediction=label) for r in both if r.method in (label, UNPRUNED)])
        for label in ("spare", "random")
    ]
    whole = board_of(write("both", both), baseline="spare")
    assert board_of(*split, baseline="spare").sets == whole.sets
    found, expected = whole.sets[0].summaries["m"], summarise(both, (), "spare")["data"]
    assert (found.accuracy, found.difference) == (expected.accuracy, expected.difference)
    assert (whole.sets[0].questions, whole.sets[0].left_out) == (60, 0)


@pytest.mark.parametrize("baseline", ["spare", "unpruned"])
def test_a_comparison_counts_and_tests_the_questions_one_by_one(
    write: Write, baseline: str
) -> None:
    rows = rows_of(("spare", "random"), questions=1)
    board = board_of(write("a", rows), baseline=baseline)
    (found,) = board.sets
    right = {(row.method, row.budget, row.picture): row.right for row in rows}
    pictures = dict.fromkeys(row.picture for row in rows)
    p_values = []
    for comparison in found.comparisons:
        k = 576 if baseline == "unpruned" else comparison.budget
        pairs = [
            (right[comparison.method, comparison.budget, p], right[baseline, k, p])
            for p in pictures
        ]
        gained, lost = pairs.count((True, False)), pairs.count((False, True))
        assert (comparison.gained, comparison.lost) == (gained, lost)
        assert comparison.difference.value == pytest.approx((gained - lost) / 30)
        p_values.append(binomtest(gained, gained + lost).pvalue)  # one question: McNemar's
        assert comparison.p == pytest.approx(p_values[-1])
    assert [row[3:6] for row in board_tables(board)[-1].rows] == [
        (percent(c.difference, signed=True), str(c.gained), str(c.lost)) for c in found.comparisons
    ]
    assert len(p_values) == (2 if baseline == "spare" else 4)
    assert [c.adjusted for c in found.comparisons] == pytest.approx(holm(p_values))


def test_the_questions_of_one_picture_are_tested_as_one(write: Write) -> None:
    rows = rows_of(("spare", "random"), questions=4)
    (found,) = board_of(write("a", rows), baseline="random").sets
    for comparison in found.comparisons:
        sums: Counter[str] = Counter()
        for row in rows:
            if row.budget == comparison.budget:
                sums[row.picture] += row.right * {"spare": 1, "random": -1}[row.method]
        assert max(map(abs, sums.values())) > 1
        assert comparison.p == sign_flip_test(list(sums.values()))
        assert comparison.difference.value == pytest.approx(sum(sums.values()) / 120)


def test_a_star_needs_the_adjusted_p_value(write: Write) -> None:
    def answers(label: str, right: int) -> list[Row]:
        kept = [row for row in rows_of((label,), range(24), questions=1) if row.budget == 16]
        return [replace(row, right=i < right) for i, row in enumerate(kept)]

    whole = rows_of((), range(24), questions=1)
    rows = [*whole, *answers("random", 0), *answers("spare", 6), *answers("uniform", 12)]
    board = board_of(write("a", [*rows, *answers("divprune", 5)]), baseline="random")
    # 6 of 6: 2 / 2^6; 12 of 12: 2 / 2^12; 5 of 5: 2 / 2^5. Times 2, 3 and 1, never falling.
    found = {c.method: (c.p, c.adjusted) for c in board.sets[0].comparisons}
    assert found["spare"] == pytest.approx((0.03125, 0.0625))
    assert found["uniform"] == pytest.approx((2 / 2**12, 6 / 2**12))
    assert found["divprune"] == pytest.approx((0.0625, 0.0625))
    scores = {row[0]: row[2] for row in board_tables(board)[1].rows}
    assert [name for name, cell in scores.items() if cell.endswith("*")] == ["Uniform grid"]


def test_only_questions_that_every_column_has_are_compared(write: Write) -> None:
    first = write("a", rows_of(("spare",), range(30)))
    second = write("b", rows_of(("random",), range(10, 40)))
    other_model = MODEL | {"name": "n"}
    third = write("c", rows_of(("spare",), range(5, 39), questions=1), other_model)
    (two,) = board_of(first, second).sets
    assert (two.questions, two.left_out) == (40, 40)
    (three,) = board_of(first, second, third).sets
    assert (three.questions, three.left_out) == (20, 60)
    assert {s.pictures for s in three.summaries.values()} == {20}
    note = board_tables(board_of(first, second))[1].note
    assert "40 questions about 20 pictures" in note and "Left out: 40 questions not asked" in note
    # The numbers are of those questions alone.
    rows = [row for row in rows_of(("spare",), range(10, 30)) if row.number == 0]
    assert three.summaries["n"].accuracy == summarise(rows, (), "unpruned")["data"].accuracy


@pytest.mark.parametrize("pictures", [19, 20])
def test_intervals_of_differences_on_a_few_pictures_are_not_to_go_by(
    write: Write, pictures: int
) -> None:
    board = board_of(write("few", rows_of(("spare",), range(pictures))))
    note = board_tables(board)[2].note
    assert ("too narrow to go by" in note) == (pictures < 20)


def test_a_method_in_two_folders_with_the_same_answers_is_one(write: Write) -> None:
    rows = rows_of(("spare", "uniform", "random"))
    fewer = rows[: 20 * len(rows) // 30]
    first = write("a", [row for row in rows if row.method != "random"])
    second = write("b", [row for row in fewer if row.method != "uniform"])
    (both,), (alone,) = board_of(first, second).sets, board_of(write("c", fewer)).sets
    assert (both.summaries, both.left_out) == (alone.summaries, 20)


def test_a_method_in_two_folders_is_compared_on_the_questions_of_both(write: Write) -> None:
    first = write("a", rows_of(("spare",), range(25)))
    second = write("b", rows_of(("spare",), range(5, 30)))
    (found,) = board_of(first, second).sets
    assert (found.questions, found.left_out) == (40, 20)
    with pytest.raises(ValueError, match="no question of the set data in common"):
        board_of(first, write("c", rows_of(("spare",), range(100, 130))))


def test_a_question_is_known_by_its_words_and_not_by_its_place(write: Write) -> None:
    rows = rows_of(("spare",), range(25))
    moved = [
        replace(row, number=0, method=row.method.replace("spare", "random"))
        for row in rows
        if row.number == 1
    ]
    (found,) = board_of(write("a", rows), write("b", moved)).sets
    assert (found.questions, found.left_out) == (25, 25)
    alike = [replace(row, question="same") for row in rows]
    (found,) = board_of(write("c", alike)).sets
    assert (found.questions, found.left_out) == (50, 0)


def test_a_picture_that_was_cut_off_is_left_out(write: Write) -> None:
    rows = rows_of(("spare", "random"), range(25))
    (found,) = board_of(write("a", rows[:-1])).sets
    assert (found.questions, found.left_out) == (49, 1)


def test_sets_have_their_own_questions_and_their_own_correction(write: Write) -> None:
    rows = rows_of(("spare", "random"), which="held-out") + rows_of(("spare",), which="data")
    board = board_of(write("a", rows))
    first, second = board.sets
    assert board_tables(board)[0].rows[0][-1] == "120"
    assert (first.name, second.name) == ("held-out", "data")
    assert (len(first.comparisons), len(second.comparisons)) == (4, 2)
    for each in (first, second):
        assert [c.adjusted for c in each.comparisons] == holm([c.p for c in each.comparisons])


def test_one_model_under_two_conditions_is_two_models_that_say_how(write: Write) -> None:
    rows = rows_of(("spare",))
    quantised = MODEL | {"revision": "r1-4bit", "title": "other words"}
    short = write("short", rows, instruction="Be brief.")
    folders = read_folders([write("a", rows), write("b", rows, quantised), short])
    assert [folder.model for folder in folders] == [
        "m (instruction none, revision r1)",
        "m (instruction none, revision r1-4bit)",
        "m (instruction Be brief., revision r1)",
    ]
    assert list(make_board(folders).sets[0].summaries) == [f.model for f in folders]


def test_a_label_measured_otherwise_makes_no_other_model_of_its_folder(write: Write) -> None:
    rows = rows_of(("spare", "random", "divprune"))
    label = "random@original"
    first = [
        replace(row, method=row.method.replace("random", label))
        for row in rows
        if row.method != "divprune"
    ]
    second = [row for row in rows if row.method in ("unpruned", "divprune")]
    original = {"variants": {label: {"relevance": {"layer": -2}, "positions": "original"}}}
    folders = write("a", first, **original), write("b", second)
    board = board_of(*folders, baseline="spare")
    assert {folder.model for folder in board.folders} == {"m"}
    assert {c.method for c in board.sets[0].comparisons} == {label, "divprune"}
    third = [row for row in first if row.budget != 64]
    other = {"variants": {label: {"relevance": {"layer": -1}, "positions": "original"}}}
    with pytest.raises(ValueError, match=f"hold {label} with different settings"):
        board_of(folders[0], write("c", third, **other))


def test_the_baseline_may_be_missing_for_one_model(write: Write) -> None:
    one = write("a", rows_of(("spare", "random")))
    settings = {"methods": {label: {"name": label, "seed": 1} for label in ("random", "uniform")}}
    another = MODEL | {"name": "n", "revision": "r2"}
    other = write("b", rows_of(("random", "uniform")), another, **settings)
    (found,) = board_of(one, other, baseline="spare").sets
    assert {(c.model, c.method) for c in found.comparisons} == {("m", "random")}
    assert set(found.summaries) == {"m", "n"}


def test_no_difference_is_tested_where_no_budget_is_shared(write: Write) -> None:
    rows = rows_of(("spare", "random"))
    apart = [row for row in rows if (row.method, row.budget) not in (("spare", 64), ("random", 16))]
    folder = write("a", apart)
    (_, scores) = board_tables(board_of(folder, baseline="spare"))
    assert [row[0] for row in scores.rows] == ["All tokens", "SPARE", "Random"]
    assert "besides SPARE with the same model at the same budget here" in scores.note
    alone = write("b", [row for row in rows if row.method == "unpruned"])
    assert "No method was measured besides All tokens here" in board_tables(board_of(alone))[1].note


def test_what_cannot_be_compared_is_one_sentence(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spare = write("a", rows_of(("spare",)))
    *first, last = rows_of(("spare",))
    again = write("again", [*first, replace(last, prediction="other")])
    blank = write("blank", [*first, replace(last, method="blank")])
    elsewhere = write("elsewhere", rows_of(("random",), range(100, 130)))
    seeded = [row for row in rows_of(("random",)) if row.budget != 64]
    seed = {"methods": {"random": {"name": "random", "seed": 1}}}
    one_seed, other_seed = write("s0", rows_of(("random",))), write("s1", seeded, **seed)
    empty, damaged, list_, nameless, bare = (
        tmp_path / n for n in ("empty", "damaged", "list", "no", "bare")
    )
    for folder, text in (
        (empty, (spare / "settings.json").read_text()),
        (damaged, "{"),
        (list_, "[1]"),
        (nameless, '{"model": "m"}'),
        (bare, '{"model": {"name": "m"}}'),
    ):
        folder.mkdir()
        (folder / "settings.json").write_text(text)
    later = write("later", rows_of(("spare",)))
    settings = json.loads((later / "settings.json").read_text())
    (later / "settings.json").write_text(json.dumps(settings | {"format": 9}))
    for words, sentence in (
        ([spare, again], "a and .*again both hold spare at 64 tokens for m on data, with diff"),
        ([spare, elsewhere], "no question of the set data in common"),
        ([one_seed, other_seed], "s0 and .*s1 hold random with different settings"),
        ([tmp_path / "nowhere"], "nowhere holds no results"),
        ([empty], "empty holds no answers yet"),
        ([damaged], "settings.json in .*damaged is damaged"),
        ([list_], "settings.json in .*list is damaged"),
        ([nameless], "no does not say its model"),
        ([bare], "bare does not say its methods"),
        ([later], "later has format 9"),
        ([spare, "--baseline", "random"], "no folder has the method 'random'.*unpruned, spare"),
        ([blank, "--baseline", "blank"], "no folder has the method 'blank'.*unpruned, spare"),
    ):
        page = tmp_path / "page.html"
        assert main(["board", *map(str, words), "--html", str(page)]) == 1
        err = capsys.readouterr().err
        assert re.search(sentence, err, re.IGNORECASE) and err.count("\n") == 1, err
        assert not page.exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".", "is a folder. Name a file."),
        ("a/settings.json/x.html", "has to be a folder"),
        ("-", "- is not a file name"),
        ("a/results.csv", "a/results.csv cannot both be written"),
    ],
)
def test_a_page_that_cannot_be_is_refused_before_any_folder_is_read(
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    sentence: str,
) -> None:
    folder = write("a", rows_of(("spare",)))
    monkeypatch.chdir(tmp_path)
    assert main(["board", str(folder), "--html", name]) == 1
    out, err = capsys.readouterr()
    assert not out and sentence in err
    assert not (tmp_path / "-").exists()


def test_a_folder_whose_run_was_not_finished_is_named(write: Write) -> None:
    whole, begun = write("whole", rows_of(("spare",))), write("begun", rows_of(("random",)))
    (whole / "summary.json").write_text("{}")
    note = board_tables(board_of(whole, begun))[0].note
    assert str(begun) in note and str(whole) not in note
    assert "The same evaluate command resumes a run" in note
    assert not board_tables(board_of(whole))[0].note


class Cells(HTMLParser):
    """The text of every cell of every table of a page, and the names of its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("th", "td") and data.strip():
            self.tables[-1][-1][-1] += data


def test_many_methods_of_a_folder_are_counted_and_not_named_in_one_cell(write: Write) -> None:
    few, many = list(PRUNERS)[:8], list(PRUNERS)[8:17]
    folders = write("few", rows_of(few, range(2))), write("many", rows_of(many, range(2)))
    read, *_ = board_tables(board_of(*folders))
    assert [row[3] for row in read.rows] == [", ".join(few), "9, listed below"]


def test_terminal_and_page_say_the_same(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [write("a", rows_of(("spare", "random"))), write("b", rows_of(("uniform",)))]
    file = tmp_path / "new" / "page.html"
    words = [str(folder) for folder in folders]
    assert main(["board", *words, "--html", str(file), "--baseline", "random"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith(f"The page is {file}.")
    page = file.read_text()
    assert page == board_html(make_board(read_folders(folders), "random"))
    assert not re.search(r"(src|href)=['\"](?!data:)", page)
    read, scores, differences = board_tables(make_board(read_folders(folders), "random"))
    html = Cells(page).tables
    assert [[list(t.head), *map(list, t.rows)] for t in (scores, differences, read)] == html
    assert {row[0] for row in scores.rows} == {"All tokens", "SPARE", "Random", "Uniform grid"}
    for table in (read, scores, differences):
        assert table.text() in out
        assert all(len(row) == len(table.head) for row in table.rows)
    # A star stands exactly where the adjusted p-value is below 0.05.
    starred = {
        (row[0], scores.head[i])
        for row in scores.rows
        for i, cell in enumerate(row)
        if cell.endswith("*")
    }
    small = {
        (row[0], row[2]) for row in differences.rows if float(row[-1].removeprefix("<")) < 0.05
    }
    assert starred == small and 0 < len(small) < len(differences.rows)


LEGEND = re.compile(
    r'stroke="([^"]+)" stroke-width="3"(?: stroke-dasharray="([^"]*)")?/><text[^>]*>([^<]+)'
)
"""Of each curve in the legend of a chart: colour, dash and title."""


def test_no_two_curves_look_alike_and_each_method_looks_the_same_in_every_chart(
    write: Write,
) -> None:
    every, few = write("every", rows_of(tuple(PRUNERS))), rows_of(("uniform", "fastv"))
    page = board_html(board_of(every, write("few", few, MODEL | {"name": "n"})))
    legend = LEGEND.findall(page)
    titles, looks = {title for *_, title in legend}, {entry[:2] for entry in legend}
    assert {"SPARE", "SparseVLM", "FastV"} < titles
    assert len(legend) > len(titles) == len(looks) == len({*legend})


def test_numbers_of_tokens_and_shares_have_an_axis_each(write: Write) -> None:
    tokens = [
        replace(row, budget=128 if row.budget == 64 else row.budget)
        for row in rows_of(("spare", "random"))
    ]
    shares = [replace(row, budget=f"{row.budget}%") for row in rows_of(("spare",))]
    shares = [row for row in shares if row.method == "spare"]
    board = board_of(write("a", tokens), write("b", shares))
    (of_set,) = board.sets
    compared = [row.budget for row in of_set.comparisons if row.method == "spare"]
    assert compared == [16, 128, "16%", "64%"]
    assert board_tables(board)[1].head[2:4] == ("16 tokens", "128 tokens")
    page = board_html(board)
    of_tokens, of_shares = page.split("<figure")[1:]
    assert ">tokens kept<" in of_tokens and ">tokens kept, % of the picture&#x27;s<" in of_shares
    assert [title for *_, title in LEGEND.findall(of_tokens)] == ["SPARE", "Random"]
    assert [title for *_, title in LEGEND.findall(of_shares)] == ["SPARE"]
    for chart in (of_tokens, of_shares):
        assert {points.count(",") for points in re.findall('line points="([^"]*)"', chart)} == {2}


def test_a_setting_of_another_version_stands_under_its_label(write: Write) -> None:
    labels = ("spare:later=1", "spare:squash=later", "spare")
    tables = board_tables(board_of(write("a", rows_of(labels))))
    for table in tables[1:]:
        assert {*labels[:2], "SPARE"} <= {row[0] for row in table.rows}


def test_markup_in_names_and_settings_is_words_on_the_page(write: Write) -> None:
    names = []
    for text in ("plain", "</script><img src=x onerror=alert(1)>$title"):
        model = MODEL | {"name": text, "revision": text}
        rows = [
            replace(row, set=text, method=row.method.replace("mine", text))
            for row in rows_of(("mine",))
        ]
        page = board_html(board_of(write(f"markup-{len(names)}", rows, model)))
        names.append(Cells(page).names)
        assert page.count("<script>") == page.count("</script>") == 1
    assert names[0] == names[1]
