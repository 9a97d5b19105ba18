"""The likeliest first words of several answers, on logits made by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import spare_demo.analysis.first_words
from spare_demo.analysis.first_words import first_words, share_text
from spare_demo.models import Answer

WORDS = ["red", " green", "blue", " "]


def decode(tokens) -> str:
    return "".join(WORDS[token] for token in tokens)


@pytest.fixture
def one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_demo.analysis.first_words, "MOST", 1)


def answer(*probabilities: float) -> Answer:
    logits = torch.tensor(probabilities, dtype=torch.float64).log().float()
    return Answer("x", (0,), 5, 4, 0.1, 0.1, 100, (4,), "end", first_logits=logits)


@pytest.mark.usefixtures("one_each")
def test_every_answer_has_its_best_on_the_list_with_the_probability_under_all() -> None:
    found = first_words(
        {"unpruned": answer(0.7, 0.1, 0.15, 0.05), "A": answer(0.2, 0.6, 0.1, 0.1)}, decode
    )
    assert [word.text for word in found] == ["red", "green"]
    assert found[0].probabilities == pytest.approx({"unpruned": 0.7, "A": 0.2})
    assert found[1].probabilities == pytest.approx({"unpruned": 0.1, "A": 0.6})


@pytest.mark.usefixtures("one_each")
def test_a_token_of_blanks_keeps_its_blanks() -> None:
    (found,) = first_words({"unpruned": answer(0.1, 0.1, 0.1, 0.7)}, decode)
    assert found.text == " "


def test_an_answer_read_back_from_a_file_has_none() -> None:
    none = dataclasses.replace(answer(1.0, 0, 0, 0), first_logits=torch.empty(0))
    assert first_words({"unpruned": none}, decode) == []


def test_a_probability_is_told_apart_from_0_and_1() -> None:
    written = [share_text(share) for share in (0.0, 1e-9, 0.006, 0.994, 0.996, 1.0)]
    assert written == ["0", "<0.01", "0.01", "0.99", ">0.99", "1"]
    three = [share_text(share, decimals=3) for share in (1e-9, 0.006, 0.996, 0.9996)]
    assert three == ["<0.001", "0.006", "0.996", ">0.999"]
