"""The paper's tables from folders as lmms-eval 0.7.3 leaves them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import paper_table
import pytest


def write_run(
    folder: Path,
    model_args: str,
    results: dict[str, dict[str, float | str]],
    date: str = "20261124_101500",
    model: str = "spare_demo",
    limit: float | None = None,
) -> None:
    """A results file where and as lmms-eval writes it, its samples beside it."""
    place = folder / model_args.partition("pretrained=")[2].partition(",")[0].replace("/", "__")
    place.mkdir(parents=True, exist_ok=True)
    whole = {
        "results": {task: {"alias": task, **scores} for task, scores in results.items()},
        "configs": {},
        "n-samples": {task: {"original": 9, "effective": 9} for task in results},
        "config": {"model": model, "model_args": model_args, "batch_size": "8", "limit": limit},
        "date": date,
    }
    (place / f"{date}_results.json").write_text(json.dumps(whole, indent=2))
    (place / f"{date}_samples_gqa.jsonl").write_text('{"doc_id": 0, "filtered_resps": "yes"}\n')


def gqa(score: float) -> dict[str, dict[str, float | str]]:
    return {"gqa": {"exact_match,none": score, "exact_match_stderr,none": "N/A"}}


def pope(*scores: float) -> dict[str, dict[str, float | str]]:
    names = ("pope_adv", "pope_pop", "pope_random")
    return {
        name: {"pope_f1_score,none": f1, "pope_accuracy,none": 0.1}
        for name, f1 in zip(names, scores, strict=False)
    }


def cells(folder: Path, published: str = "") -> list[list[str]]:
    """The rows of the table, their cells."""
    path = folder / "published.csv"
    path.write_text("model,method,budget,benchmark,score\n" + published)
    text = paper_table.table(paper_table.read_scores([folder]), paper_table.read_published(path))
    rows = [line.strip("| ").split("|") for line in text.splitlines()]
    return [[cell.strip() for cell in row] for row in (rows[0], *rows[2:])]


def test_a_row_has_its_scores_differences_and_share_of_the_unpruned(tmp_path: Path) -> None:
    write_run(tmp_path, "pretrained=llava-1.5-7b,method=none", gqa(0.62) | pope(0.8, 0.85, 0.9))
    write_run(
        tmp_path / "more",
        "pretrained=llava-1.5-7b,method=spare,budget=64",
        gqa(0.589) | pope(0.7, 0.8, 0.9) | {"mme": {"mme_perception_score,none": 1401.25}},
    )
    published = "llava-1.5-7b,spare,64,GQA,59.4\nllava-1.5-7b,spare,64,Rel. Acc,95.0\n"
    head, unpruned, pruned = cells(tmp_path, published)
    assert head == ["model", "method", "budget", "GQA", "POPE", "MME", "Rel. Acc"]
    assert unpruned == ["llava-1.5-7b", "none", "", "62.0", "85.0", "–", "100.0 of 2"]
    share = 100 * (0.589 / 0.62 + 0.8 / 0.85) / 2
    assert pruned[:6] == ["llava-1.5-7b", "spare", "64", "58.9 (-0.5)", "80.0", "1401.2"]
    assert pruned[6] == f"{share:.1f} ({share - 95:+.1f}) of 2"


def test_rows_go_from_the_unpruned_model_to_the_smallest_budget(tmp_path: Path) -> None:
    for number, args in enumerate(("budget=32", "method=none", "budget=128", "budget=10%")):
        write_run(tmp_path, f"pretrained=m,{args}", gqa(0.5), f"20261124_10150{number}")
    assert [row[2] for row in cells(tmp_path)[1:]] == ["", "128", "32", "10%"]


def test_a_setting_that_changes_answers_makes_a_row_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path, "pretrained=m,batch_size=4", gqa(0.5), "20261124_101501")
    write_run(tmp_path, "pretrained=m,device=cpu", gqa(0.6), "20261124_101502")
    write_run(tmp_path, "pretrained=m,together=True", gqa(0.7), "20261124_101503")
    _, *rows = cells(tmp_path)
    assert [(row[1], row[3]) for row in rows] == [
        ("spare", "60.0"),
        ("spare (together=True)", "70.0"),
    ]


def test_a_column_needs_all_of_its_tasks(tmp_path: Path) -> None:
    write_run(tmp_path, "pretrained=m", gqa(0.5) | pope(0.8, 0.9))
    assert "POPE" not in cells(tmp_path)[0]


def test_limited_runs_and_other_models_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, "pretrained=m", gqa(0.5), "20261124_101501", limit=8)
    write_run(tmp_path, "pretrained=n", gqa(0.5), "20261124_101502", model="llava_hf")
    with pytest.raises(ValueError, match=r"There is no .*_results.json of --model spare_demo"):
        cells(tmp_path)
    assert "is left out: it ran with --limit" in capsys.readouterr().err


def test_a_published_score_that_is_no_number_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "pretrained=m", gqa(0.5))
    with pytest.raises(ValueError, match=r"no number: .*about 60"):
        cells(tmp_path, "m,spare,64,GQA,about 60\n")


def test_the_command_prints_the_table_or_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, "pretrained=llava-next-7b,budget=160", gqa(0.612))
    monkeypatch.setattr(sys, "argv", ["paper_table.py", str(tmp_path)])
    paper_table.main()
    assert "61.2 (+0.2)" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["paper_table.py", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit, match="Give the harness's --output_path"):
        paper_table.main()


def test_published_numbers_are_of_rows_that_can_be_run() -> None:
    published = paper_table.read_published(paper_table.PUBLISHED)
    assert len(published) > 800
    for setting, benchmark in published:
        pruned = f",budget={setting.budget}" if setting.budget else ""
        arguments = f"pretrained={setting.model},method={setting.method}{pruned}"
        assert paper_table.read_setting(arguments) == setting
        assert benchmark in paper_table.BENCHMARKS
