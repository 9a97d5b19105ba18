"""The BibTeX of a result: this software, and the papers of the methods in it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

import spare_demo
from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.results.papers import PAPERS
from spare_demo.results.references import SOFTWARE_AUTHORS, SOFTWARE_TITLE, references

CITATION = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text("utf-8"))


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(tiny_model, photo, "What is it?", ("spare", "random"), 5, max_new_tokens=1)


def with_methods(result: Result, *names: str | None) -> Result:
    records = {f"{name}": MethodRecord(name, str(name)) for name in names}
    return dataclasses.replace(result, methods=records)


def entries(text: str) -> dict[str, dict[str, str]]:
    """The fields of each entry by its key, read as BibTeX."""
    found: dict[str, dict[str, str]] = {}
    for key, body in re.findall(r"^@\w+\{([\w-]+),\n(.*?)^\}$", text, re.M | re.S):
        assert key not in found
        found[key] = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.M))
    assert text.count("{") == text.count("}")
    return found


def test_software_and_papers_of_the_citation_file_are_cited_alike() -> None:
    assert (CITATION["title"], CITATION["authors"]) == (
        SOFTWARE_TITLE,
        [{"name": SOFTWARE_AUTHORS}],
    )
    assert CITATION["version"] == spare_demo.__version__
    listed = {
        paper["url"].rpartition("/")[2]: (
            paper["title"],
            " and ".join(f"{a['family-names']}, {a['given-names']}" for a in paper["authors"]),
        )
        for paper in CITATION["references"]
    }
    assert listed == {number: PAPERS[number] for number in listed}


def test_title_and_authors_of_every_paper_are_known() -> None:
    numbers = {m.link.rpartition("/")[2] for m in PRUNERS.values() if "arxiv.org" in m.link}
    assert numbers == set(PAPERS), (
        "Give the paper of each method, and no other, a line of spare_demo/results/papers.py."
    )
    for _, authors in PAPERS.values():
        assert all(re.fullmatch(r"[^,]+, [^,]+", name) for name in authors.split(" and "))


def test_software_and_papers_of_what_was_compared(result: Result) -> None:
    found = entries(references(with_methods(result, "fastv", "spare", "random", "cdpruner", None)))
    assert list(found) == ["spare-demo", "fastv", "spare", "cdpruner"]
    assert found["spare-demo"]["version"] == spare_demo.__version__
    assert found["fastv"]["title"].startswith("{An Image is Worth 1/2 Tokens")
    assert found["fastv"]["author"].startswith("Chen, Liang and ")
    assert found["spare"]["author"].startswith("Lee, Jaeyeon and ")
    assert "note" not in found["spare"]


def test_of_an_unknown_paper_the_entry_has_the_short_name(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(PAPERS, "2403.06764")
    found = entries(references(with_methods(result, "fastv")))
    assert found["fastv"] == {
        "title": "{FastV}",
        "year": "2024",
        "eprint": "2403.06764",
        "archiveprefix": "arXiv",
        "url": "https://arxiv.org/abs/2403.06764",
        "note": "ECCV 2024",
    }


def test_a_paper_stands_there_once_however_many_of_its_methods_were_compared(
    result: Result,
) -> None:
    found = entries(references(with_methods(result, *PRUNERS)))
    links = {method.link for method in PRUNERS.values() if method.link}
    cited = [fields["url"] for key, fields in found.items() if key != "spare-demo"]
    assert sorted(cited) == sorted(links)  # FasterVLM is the first version of VisPruner's
    same = entries(references(with_methods(result, "spare", "anti-relevance")))
    assert list(same) == ["spare-demo", "spare"]
