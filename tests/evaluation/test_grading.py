"""Exact grading, with no judge."""

from __future__ import annotations

import pytest

from spare_demo.evaluation.grading import grade, grade_all, is_right
from spare_demo.evaluation.sheets import SheetQuestion

FREE = SheetQuestion("What colour?", ("light blue", "azure"))
CHOICE = SheetQuestion("Which?", ("a cat",), ("a dog", "A Cat", "two"))


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("light blue", True),
        ("  Light\n Blue . ", True),
        ('"azure"', True),
        ('"Azure."', True),
        ('"Azure".', True),
        ("“light blue”.", True),
        ("**Light blue.**", True),
        ("AZURE", True),
        ("blue", False),
        ("It is light blue", False),
        ("light blue..", False),
        ("highlight blue", False),
        ("", False),
    ],
)
def test_a_free_answer_is_right_word_for_word(said: str, right: bool) -> None:
    assert is_right(said, FREE) == right


def test_no_answer_is_not_a_mark_that_was_the_right_one() -> None:
    for mark, other in ((".", ","), ('"', ".")):
        for asked in (
            SheetQuestion("Which mark?", (mark,)),
            SheetQuestion("Which mark?", (mark,), (mark, other)),
        ):
            assert is_right(mark, asked) and is_right(f" {mark}\n", asked)
            assert not is_right("", asked) and not is_right(other, asked)
    assert is_right('"."', SheetQuestion("Which mark?", (".",)))


@pytest.mark.parametrize("text", ["A*", "A'", "2**3", "**"])
def test_a_star_or_a_prime_of_a_choice_is_its_own(text: str) -> None:
    asked = SheetQuestion("Which?", (text,), ("Dijkstra", text))
    assert is_right(text, asked)


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("B", True),
        ("b.", True),
        ("(B)", True),
        ("**B**\t", True),
        ('"B"', True),
        ("“b”.", True),
        ("'A'", False),
        ('"B. a cat"', True),
        ("**B.** a cat\n", True),
        ("B. a cat", True),
        (" B: whatever it says\n", True),
        ("a cat", True),
        ("A cat.", True),  # the choice's text, not the letter A
        ("A", False),
        ("two", False),
        ("C", False),
        ("D", False),
        ("Bats", False),
        ("", False),
    ],
)
def test_a_choice_is_named_by_letter_or_text(said: str, right: bool) -> None:
    assert is_right(said, CHOICE) == right


@pytest.mark.parametrize(
    ("said", "right"),
    [("A", True), ("(A)", True), ("a.", True), ("B", False), ("C: a drive", True), ("X", False)],
)
def test_a_letter_is_its_choice_where_another_ones_text_is_that_letter(
    said: str, right: bool
) -> None:
    """Of a figure with lettered parts the choices are letters, in any order."""
    lettered = SheetQuestion("Which part?", ("B", "C: a drive"), ("B", "A", "X", "C: a drive"))
    assert is_right(said, lettered) == right


@pytest.mark.parametrize(
    ("said", "truth", "right"),
    [
        ("Purple.", "purple", True),
        ("green", "purple", False),
        ("", "purple", False),
        ("It is purple", "purple", None),
        ("purple, purple", "purple", None),
        ("a green star", "purple", False),
        ("I cannot tell more", "purple", None),
        ("I cannot tell", "I cannot tell", True),
        ("top left of it", "top left", None),
        ("top right of it", "top left", False),
        ("left top", "top left", False),
        ("There are two stars", "2", None),
        ("2 stars", "2", None),
        ("3 stars", "2", False),
        ("I cannot tell more", "2", None),
        ("There is one", "yes", None),
        ("yes, there is", "yes", None),
        ("No, there is not", "yes", False),
        ("It is there", "Yes.", None),
    ],
)
def test_an_answer_with_more_words_than_the_truth_is_left_to_a_judge_unless_surely_another(
    said, truth, right
) -> None:
    assert grade(said, truth) is right


def test_all_answers_are_graded_where_the_true_one_is_known() -> None:
    texts = {"unpruned": "Red.", "A": "blue", "B": "it may be red"}
    assert grade_all(texts, "red") == {"unpruned": True, "A": False, "B": None}
    assert grade_all(texts, None) == {}
