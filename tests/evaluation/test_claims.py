"""What is said beside the paper follows the numbers, whichever way they come out."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from spare_demo.evaluation.built_in import BuiltIn, describe_built_in
from spare_demo.evaluation.claims import CLAIMS, reasons, verdicts
from spare_demo.evaluation.records import Place, Row
from spare_demo.evaluation.report import findings, write_report
from spare_demo.evaluation.summary import Summary, summarise
from spare_demo.models.loading.catalogue import ASSETS

WIDE = BuiltIn("About it.", 192, 7, 4)


def answers(shares: dict[str, float], error: dict[str, float] | None = None) -> list[Row]:
    """120 questions about 40 pictures; each method is right on its share of them."""
    rows = []
    rng = np.random.default_rng(1)
    for picture in range(40):
        for number in range(3):
            head = ("held-out", str(picture), number, "q", "t", "a")
            luck = float(rng.random())
            rows.append(Row(*head, True, "", "unpruned", 576, 0.0, 0.0))
            for k in (32, 192):
                for label, part in shares.items():
                    left = (error or {}).get(label, 0.1) * (0.5 + luck) if k < 192 else 1e-9
                    rows.append(Row(*head, luck < part, "", label, k, 0.1, left))
    return rows


def summary_of(shares: dict[str, float], error: dict[str, float] | None = None) -> Summary:
    return summarise(answers(shares, error), resamples=200)["held-out"]


@pytest.mark.parametrize(
    ("shares", "word"),
    [((0.9, 0.4), "agrees"), ((0.4, 0.9), "disagrees"), ((0.6, 0.6), "leaves it open")],
)
def test_a_claim_holds_or_not_as_the_paired_difference_says(
    shares: tuple[float, float], word: str
) -> None:
    summary = summary_of(dict(zip(("anti-relevance", "normal-relevance"), shares, strict=True)))
    (sentence,) = verdicts(summary)
    assert sentence.startswith("The tokens of lowest relevance alone")
    assert f"This model {word} at every budget: “Lowest relevance” minus “Highest" in sentence
    low, high = (summary.accuracy[m, 32].value for m in ("anti-relevance", "normal-relevance"))
    apart = 100 * (low - high)
    assert f"{apart:+.1f} (" in sentence


def test_the_budgets_of_each_verdict_are_told() -> None:
    rows = [
        replace(row, budget=k, right=row.right or k == 64)
        for row in answers({"anti-relevance": 0.9, "normal-relevance": 0.4})
        if row.budget == 32
        for k in (8, 16, 32, 64)
    ]
    (sentence,) = verdicts(summarise(rows, resamples=200)["held-out"])
    assert "This model agrees at 8, 16 and 32; leaves it open at 64:" in sentence


def test_a_smaller_error_is_what_is_claimed_and_rounding_is_no_evidence() -> None:
    labels = {"spare-reconstruction": 0.5, "dart-diversity": 0.5}
    better = summary_of(labels, {"spare-reconstruction": 1e-9, "dart-diversity": 0.3})
    worse = summary_of(labels, {"spare-reconstruction": 0.3, "dart-diversity": 0.1})
    for summary, word in ((better, "agrees"), (worse, "disagrees")):
        (sentence,) = verdicts(summary)
        assert f"This model {word} at 32:" in sentence and "192" not in sentence


def test_only_what_was_measured_is_spoken_of() -> None:
    assert verdicts(summary_of({"spare": 0.5, "random": 0.2})) == []
    labels = dict.fromkeys([label for claim in CLAIMS for label in (claim.a, claim.b)], 0.5)
    found = verdicts(summary_of(labels))
    assert len(found) == len(CLAIMS)
    assert "“Lowest relevance, layer -1” minus “Highest relevance, layer -1” in right" in found[-1]


def places(above: float) -> list[Place]:
    """AUCs about a value, on every picture."""
    return [
        Place("held-out", str(p), 0, -2, 0.2, 0.1, 0.1, above + 0.05 * math.sin(p), 0.5)
        for p in range(40)
    ]


@pytest.mark.parametrize(
    ("above", "words"),
    [(0.6, "the inversion is missing"), (0.2, "explains no disagreement"), (0.5, "is open")],
)
def test_whether_the_cosine_is_inverted_is_read_off_the_places(above: float, words: str) -> None:
    summary = summarise(answers({"spare": 0.5}), places(above), resamples=200)["held-out"]
    text = " ".join(reasons(summary, WIDE))
    assert words in text and "in 4 of 7 phases" in text


def test_a_few_pictures_decide_nothing() -> None:
    """Two pictures drawn again are the same two: the interval of a difference has no width."""
    rows = [
        replace(row, right=row.method != "cdpruner")
        for row in answers({"spare": 0.5, "cdpruner": 0.5})
        if row.picture in ("0", "1")
    ]
    summary = summarise(rows, places(0.8)[:2])["held-out"]
    assert summary.difference["cdpruner", 32].high == -1
    (sentence,) = verdicts(summary)
    assert "This model leaves it open at every budget" in sentence
    assert "at layer -2 is open" in " ".join(reasons(summary, WIDE))
    said = " ".join(findings(summary))
    assert "the other one does not differ from it reliably" in said
    open_words = "it is open whether high raw cosine falls on the things asked about or elsewhere"
    assert f"{open_words}; mean" in said
    assert "intervals of means and differences are too narrow to go by" in said


def test_the_width_is_held_against_the_budgets_and_the_errors_there() -> None:
    summary = summary_of({"spare": 0.5, "random": 0.5})
    text = reasons(summary, WIDE)[-1]
    assert "192 wide, and a picture has 576" in text
    assert "At 192 tokens or more the relative error is below 1e-06" in text
    assert "for 2 of 2 methods" in text
    wider = reasons(summary, replace(WIDE, width=4096))[-1]
    assert "4096 wide" in wider and "nothing left" not in wider


def test_the_report_says_it_of_every_set(tmp_path: Path) -> None:
    rows = answers({"spare": 0.4, "spare-reconstruction": 0.9})
    unseen = [replace(row, set="unseen-pairs") for row in rows]
    settings = {"model": dict.fromkeys(("name", "title", "revision", "dtype", "device"), "x")}
    file = tmp_path / "R.md"
    summaries = summarise(rows + unseen, resamples=50)
    for built_in, why in ((WIDE, 2), (None, 0)):
        write_report(file, tmp_path / "f", built_in, settings, summaries, "python")
        text = file.read_text()
        assert text.count("### Compared with the paper") == 2
        assert text.count("Why it may differ.") == why
        assert ("About it." in text) == bool(why)
        assert "Anti-relevance helps reconstruction (Figure 5). This model disagrees" in text


def test_a_report_finds_its_figures_whatever_it_is_called(tmp_path: Path) -> None:
    settings = {"model": dict.fromkeys(("name", "title", "revision", "dtype", "device"), "x")}
    file, pictures = tmp_path / "my report (1).md", tmp_path / "30 % of Ä"
    summaries = summarise(answers({"spare": 0.4}), resamples=50)
    write_report(file, pictures, None, settings, summaries, "python")
    addresses = re.findall(r"^!\[.*\]\((.*)\)$", file.read_text(), re.M)
    assert len(addresses) == len(list(pictures.iterdir())) > 0
    for address in addresses:  # blanks and brackets would end it
        assert not re.search(r"[\s()]", address) and (tmp_path / unquote(address)).is_file()


def test_the_built_in_model_is_described_from_its_files() -> None:
    folder = ASSETS / "built-in"
    described = describe_built_in(folder)
    config = json.loads((folder / "config.json").read_text())
    assert described.width == config["text_config"]["hidden_size"] < 576
    assert 0 < described.patch_phases <= described.phases
    assert "A LLaVA of 5.1 million parameters" in described.about
