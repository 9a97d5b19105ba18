"""The headline of every kind of comparison, on results made by hand."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.analysis.finding import headline, informed_sentence, is_off_topic, kept_sentence
from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.request import RequestOptions
from spare_demo.comparison.result import Result
from spare_demo.evaluation.grading import grade
from spare_demo.images.geometry import Grid
from spare_demo.measures import expected_jaccard
from spare_demo.models import Answer
from spare_demo.scenes.asked import Asked
from spare_demo.tokens import Selection

WORDS = ["FOX", "TEA", "CUP", "BED"]
N = 16
A, B = Selection([0, 1, 2, 3]), Selection([2, 3, 4, 5])
SPARE, CDPRUNER = MethodRecord("spare", "SPARE"), MethodRecord("cdpruner", "CDPruner")
FASTV = MethodRecord("fastv", "FastV", inside=True)
RANDOM = MethodRecord("random", "Random")
CHANCE = expected_jaccard(N, 4, 8)


def answer(text: str, share: float) -> Answer:
    """An answer whose first word is the first of `WORDS` with probability `share`."""
    token = WORDS.index(text) if text in WORDS else 0
    chances = [share, *[(1 - share) / 3] * 3]
    logits = torch.tensor(chances, dtype=torch.float64).log().float()
    return Answer(text, (token, 9), 5, 4, 0.1, 0.1, 100, (4,), "end", first_logits=logits)


def result(
    whole: tuple[str, float], a: tuple[str, float], b: tuple[str, float], **changes: Any
) -> Result:
    grid = Grid((56, 56), 4, 4, 14, (1.0, 1.0), (0.0, 0.0))
    return replace(
        Result(
            model="made-up", revision="0", photo=Image.new("RGB", (56, 56)), grid=grid,
            question="What word is written?", prompt="", settings=RequestOptions(budget=4),
            visual_tokens=N, encode_seconds=0.1, relevance_seconds=0.1, relevance=None, notes=(),
            methods={"A": SPARE, "B": CDPRUNER}, selections={"A": A, "B": B},
            weights={}, select_seconds={}, plans={},
            answers={"unpruned": answer(*whole), "A": answer(*a), "B": answer(*b)},
        ),
        **changes,
    )  # fmt: skip


def head(made: Result, truth: str | None = "FOX", asked: Asked | None = None) -> str:
    grades = {label: grade(a.text, truth) for label, a in made.answers.items() if truth}
    return headline(made, truth, grades, asked)


def shown(*tokens: int, kind: Any = "word", answer: str = "FOX") -> Asked:
    return Asked(answer, kind, np.isin(np.arange(N), tokens))


def test_both_still_right_is_agreement() -> None:
    assert head(result(("FOX", 0.9), ("fox.", 0.8), ("FOX", 0.7))) == (
        "With 4 of 16 tokens, SPARE and CDPruner both still answer FOX, as all tokens do "
        "(probability of the right first word 0.80 and 0.70)."
    )


def test_only_a_method_whose_criterion_ran_out_is_said_to_have() -> None:
    titles, kept = {"A": "SPARE", "B": "CDPruner"}, {"A": replace(A, informed=4), "B": B}
    assert informed_sentence(titles, kept) == ""
    ran_out = informed_sentence(titles, kept | {"A": replace(A, informed=3)})
    assert ran_out.startswith("SPARE chose 3 of its 4 tokens by its criterion;")


def test_one_method_has_a_headline_too() -> None:
    fox = ("FOX", 0.9)
    answers = {"unpruned": answer(*fox), "A": answer(*fox)}
    one = result(fox, fox, fox, methods={"A": SPARE}, selections={"A": A}, answers=answers)
    assert head(one).startswith("With 4 of 16 tokens, SPARE still answers FOX, as all tokens do")


def test_sets_made_by_hand_are_counted_as_they_are() -> None:
    same, small, one = ("FOX", 0.9), Selection([0, 1]), Selection([5])
    hand = result(same, same, same, selections={"A": small, "B": small})
    assert head(hand).startswith("With 2 of 16 tokens, ")
    beside = result(same, same, same, selections={"A": A, "B": one})
    assert head(beside).startswith("With a budget of 4 of 16 tokens, ")


def test_one_loses() -> None:
    one = result(("FOX", 0.9), ("FOX", 0.8), ("TEA", 0.05))
    assert head(one) == (
        "With 4 of 16 tokens, SPARE still answers FOX; CDPruner answers TEA "
        "(probability of the right first word 0.80 and 0.05)."
    )
    # Whichever it is comes second, with its own number.
    assert (
        "CDPruner still answers FOX; SPARE answers TEA (probability of the right first word "
        in (head(result(("FOX", 0.9), ("TEA", 0.05), ("FOX", 0.8))))
    )


def test_both_lose() -> None:
    assert head(result(("FOX", 0.9), ("TEA", 0.1), ("CUP", 0.001))) == (
        "With 4 of 16 tokens, SPARE answers TEA, CDPruner answers CUP (probability of the right "
        "first word 0.10 and <0.01); all tokens answer FOX, which is right."
    )
    assert "SPARE and CDPruner both answer TEA (probability of the right first word 0.10 and" in (
        head(result(("FOX", 0.9), ("TEA", 0.1), ("TEA", 0.1)))
    )


def test_gain_is_a_right_answer_where_all_tokens_are_wrong() -> None:
    assert head(result(("TEA", 0.2), ("FOX", 0.6), ("BED", 0.1))) == (
        "With 4 of 16 tokens, SPARE answers FOX, which is right; all tokens answer TEA, CDPruner "
        "answers BED (probability of the right first word 0.60, 0.20 and 0.10)."
    )


def test_all_wrong_claims_no_loss() -> None:
    made = result(("FOX", 0.6), ("TEA", 0.1), ("TEA", 0.1))
    assert head(made, truth="BED") == (
        "With 4 of 16 tokens, SPARE and CDPruner both answer TEA; all tokens answer FOX "
        "(probability of FOX 0.60). The right answer is BED."
    )


def test_without_a_true_answer_it_is_held_against_all_tokens() -> None:
    same = result(("a red fox", 0.9), ("a red fox", 0.8), ("a red fox", 0.7))
    assert head(same, truth=None) == (
        "With 4 of 16 tokens, SPARE and CDPruner both answer “a red fox”, as all tokens do "
        "(probability of “a” as the first word 0.80 and 0.70)."
    )
    one = result(("fox", 0.9), ("fox", 0.8), ("dog", 0.7))
    assert head(one, None) == (
        "With 4 of 16 tokens, SPARE answers fox; CDPruner answers dog (probability of fox 0.80 and "
        "0.70); all tokens answer fox."
    )
    both = result(("a red fox", 0.9), ("a dog", 0.8), ("no", 0.7))
    assert head(both, None).endswith(" 0.80 and 0.70); all tokens answer “a red fox”.")
    assert "SPARE answers “a dog”, CDPruner answers no (probability of" in head(both, None)
    neither = result(("", 0.9), ("fox", 0.8), ("fox", 0.7))
    assert (
        "SPARE and CDPruner both answer fox (probability of ending at once 0.80 and 0.70); all "
        "tokens answer nothing." in head(neither, None)
    )
    stops = result(("fox", 0.9), ("fox.", 0.8), ("fox", 0.7))
    assert "CDPruner answers as all tokens do; SPARE differs from word 1 on" in head(stops, None)


def test_long_answers_are_not_quoted_but_where_they_part_is_said() -> None:
    long = "a red fox that runs over a field of snow and ice"
    same = result((long, 0.9), (long, 0.8), (long, 0.7))
    assert "both answer as all tokens do (probability of “a” as the first" in head(same, None)
    one = result((long, 0.9), (long, 0.8), ("a red dog", 0.7))
    assert "SPARE answers as all tokens do; CDPruner differs from word 3 on (" in head(one, None)
    both = result((long, 0.9), ("a dog", 0.8), ("no", 0.7))
    assert (
        "SPARE differs from the answer with all tokens from word 2 on; CDPruner differs from word "
        "1 on (" in head(both, None)
    )


def test_a_long_answer_without_spaces_is_cut_and_two_of_them_are_told_apart() -> None:
    whole, a, b = "画" * 60, "像" * 60, "像" * 59 + "素"
    made = result((whole, 0.9), (a, 0.1), (b, 0.2))
    cut = "像" * 38 + " …"
    assert head(made, "spoon") == (
        f"With 4 of 16 tokens, SPARE answers “{cut}”, CDPruner answers “{cut}”; all tokens answer "
        f"“{'画' * 38} …” (probability of “{'画' * 38} …” 0.90). The right answer is spoon."
    )


def test_what_only_a_judge_could_grade_is_not_graded() -> None:
    made = result(("it may well be FOX", 0.9), ("FOX", 0.8), ("FOX", 0.7))
    assert "right" not in head(made)


def test_kept_patches_lead_where_none_shows_what_is_asked_about() -> None:
    one = result(("FOX", 0.9), ("FOX", 0.8), ("TEA", 0.05))
    assert head(one, asked=shown(9, 10)) == (
        "With 4 of 16 tokens, no kept patch shows a letter of FOX. SPARE still answers FOX; "
        "CDPruner answers TEA (probability of the right first word 0.80 and 0.05)."
    )
    digit = result(("5", 0.9), ("5", 0.8), ("0", 0.05))
    assert "no kept patch shows any part of the digit 5. " in (
        head(digit, "5", shown(9, kind="number", answer="5"))
    )


def test_kept_patches_are_counted_where_an_answer_is_lost_and_only_there() -> None:
    one, about = result(("FOX", 0.9), ("FOX", 0.8), ("TEA", 0.05)), shown(0, 1, 9, kind="things")
    assert head(one, asked=about).endswith(
        ". SPARE keeps 2 of the 3 patches that show any part of what is asked about, CDPruner none."
    )
    assert "patch" not in head(result(("FOX", 0.9), ("FOX", 0.8), ("FOX", 0.7)), asked=about)


@pytest.mark.parametrize(
    "change",
    [
        {"selections": {"A": A}, "methods": {"A": SPARE, "B": FASTV}},
        {"selections": {"A": A, "B": Selection([1], sources=torch.ones(1, N) / N)}},
        {
            "methods": {"A": SPARE, "B": CDPRUNER, "C": CDPRUNER, "D": CDPRUNER},
            "selections": dict.fromkeys("ABCD", A),
            "answers": {"unpruned": answer("FOX", 0.9), "A": answer("FOX", 0.8)}
            | {label: answer("TEA", 0.05) for label in "BCD"},
        },
    ],
)
def test_no_patches_are_counted_of_many_sets_or_of_what_is_no_set_of_patches(change: dict) -> None:
    made = result(("FOX", 0.9), ("FOX", 0.8), ("TEA", 0.05), **change)
    assert "patch" not in head(made, asked=shown(9)) and "FOX; " in head(made)


def test_inside_the_language_model_tokens_are_a_budget() -> None:
    inside = {"selections": {"A": A}, "methods": {"A": SPARE, "B": FASTV}}
    made = result(("FOX", 0.9), ("FOX", 0.8), ("FOX", 0.7), **inside)
    assert head(made).startswith("With a budget of 4 of 16 tokens, SPARE and FastV both still")


def test_a_refused_schedule_is_said_beside_the_other_answer() -> None:
    made = result(("FOX", 0.9), ("FOX", 0.8), ("FOX", 0.7), refused={"B": "No schedule. Take 8."})
    alone = {label: made.answers[label] for label in ("unpruned", "A")}
    text = head(replace(made, answers=alone))
    assert "SPARE still answers FOX, as all tokens do" in text
    assert text.endswith("CDPruner cannot meet this budget.")
    both = {"A": "No schedule A.", "B": "No schedule B."}
    none = replace(made, answers={"unpruned": alone["unpruned"]}, refused=both)
    assert head(none) == "No schedule A. No schedule B."


def test_what_the_built_in_model_was_not_made_for_is_not_weighed() -> None:
    made = result(("small model answers green", 0.9), ("green", 0.8), ("green", 0.7))
    of_built_in = replace(made, model="built-in")
    assert head(of_built_in, None).endswith("tokens in common.")
    assert "answer green" in head(made, None)  # another model may speak of a small model
    assert "in common" not in head(of_built_in, "green")


def test_until_the_unpruned_answer_is_whole_any_words_tell_what_is_off_topic() -> None:
    made = replace(result(*(("This small model", 0.9),) * 3), model="built-in")
    assert is_off_topic(made, None) and not is_off_topic(made, "green")
    pruned = {label: answer for label, answer in made.answers.items() if label != "unpruned"}
    assert is_off_topic(replace(made, answers=pruned), None)
    begun = replace(made, answers={}, partial_text={"unpruned": "", "A": "This small"})
    assert not is_off_topic(begun, None)
    begun = replace(begun, partial_text={"unpruned": "", "A": "This small model"})
    assert is_off_topic(begun, None)
    whole = {"unpruned": replace(made.answers["unpruned"], text="green")}
    assert not is_off_topic(replace(begun, answers=whole), None)


def test_until_all_answers_are_there_it_says_what_is_kept() -> None:
    made = result(("FOX", 0.9), ("FOX", 0.8), ("FOX", 0.7))
    for label in made.answers:
        part = {name: a for name, a in made.answers.items() if name != label}
        assert head(replace(made, answers=part)) == (
            "SPARE and CDPruner keep 2 of their 4 tokens in common."
        )


def test_without_a_language_model_it_is_the_overlap_beside_chance() -> None:
    made = result(("", 0.1), ("", 0.1), ("", 0.1), answers={}, language_model=False)
    sets = [set(c) for c in itertools.combinations(range(8), 4)]
    few = kept_sentence(made.methods, made.selections, 8, jaccard=True)
    chance = np.mean([len(s & sets[0]) / len(s | sets[0]) for s in sets])
    assert few == (
        "SPARE and CDPruner keep 2 of their 4 tokens in common. Jaccard 0.33; two random picks of "
        f"these sizes: {chance:.2f}."
    )
    assert "in common. Jaccard 0.33; two random picks" in head(made)


def test_what_is_kept_of_sets_of_other_sizes_merged_rows_and_layers() -> None:
    methods = {"A": SPARE, "B": CDPRUNER}
    assert kept_sentence(methods, {"A": A, "B": Selection([2, 3, 4])}, N) == (
        "SPARE and CDPruner keep 2 of their 4 and 3 tokens in common."
    )
    by_chance = kept_sentence(methods, {"A": A, "B": Selection([3, *range(8, 15)])}, N, True)
    assert by_chance.endswith(f" Jaccard 0.09; two random picks of these sizes: {CHANCE:.2f}.")
    three, kept = methods | {"C": RANDOM}, {"A": A, "B": Selection([2, 3, 4])}
    assert kept_sentence(three, kept | {"C": Selection([3, 9])}, N, True) == (
        "SPARE, CDPruner and Random keep 1 of their 4, 3 and 2 tokens in common."
    )
    assert kept_sentence(methods | {"C": FASTV}, kept, N).endswith(
        "CDPruner keeps 3 of 16 tokens; FastV chooses inside the language model."
    )
    five = {f"set {number}": SPARE for number in range(5)}
    kept = {label: Selection([*range(n + 1)]) for n, label in enumerate(five)}
    assert kept_sentence(five, kept, N) == "5 methods keep 1 token in common."
    one = kept_sentence(methods, {"A": Selection([5]), "B": Selection([3])}, N)
    assert one == "SPARE and CDPruner keep 0 of their 1 token in common."
    merged = Selection([1], sources=torch.ones(1, N) / N)
    assert kept_sentence(methods, {"A": A, "B": merged}, N) == (
        "SPARE keeps 4 of 16 tokens; CDPruner merges 16 tokens into 1."
    )
    assert kept_sentence({"A": SPARE, "B": FASTV}, {"A": A}, N) == (
        "SPARE keeps 4 of 16 tokens; FastV chooses inside the language model."
    )
    assert kept_sentence({}, {}, N) == ""
    draws = {f"random:seed={seed}": MethodRecord("random", "Random") for seed in (1, 2)}
    assert kept_sentence(draws, dict.fromkeys(draws, A), N).startswith(
        "Random, seed=1 and Random, seed=2 keep"
    )


def test_one_method_twice_asks_for_another_and_one_with_other_settings_is_told_apart() -> None:
    made = result(("FOX", 0.9), ("FOX", 0.8), ("FOX", 0.8), methods={"A": SPARE, "B": SPARE})
    assert head(made) == "A and B are the same method, SPARE. Choose another for one of them."
    other = replace(SPARE, settings={"weight": 2})
    assert "A SPARE and B SPARE both still" in (
        head(replace(made, methods={"A": SPARE, "B": other}))
    )


def test_answers_without_scores_or_words_are_said_without_numbers() -> None:
    made = result(("FOX", 0.9), ("", 0.8), ("FOX", 0.7))
    bare = {n: replace(a, first_logits=torch.empty(0)) for n, a in made.answers.items()}
    assert head(replace(made, answers=bare)) == (
        "With 4 of 16 tokens, CDPruner still answers FOX; SPARE answers nothing."
    )


def test_three_methods_are_quoted_each() -> None:
    fox = ("FOX", 0.9)
    words = zip(["unpruned", "A", "B", "C"], WORDS, strict=True)
    made = result(fox, fox, fox, methods={"A": SPARE, "B": CDPRUNER, "C": RANDOM})
    three = replace(made, answers={label: answer(word, 0.5) for label, word in words})
    quoted = "SPARE answers TEA, CDPruner answers CUP, Random answers BED"
    for truth in ("FOX", None):
        assert re.search(rf"{quoted} \([^)]*\); all tokens answer FOX", head(three, truth))


def test_of_many_methods_it_gives_counts() -> None:
    methods = {str(i): MethodRecord(str(i), f"M{i}") for i in range(6)}
    made = result(("a", 0.9), ("a", 0.8), ("a", 0.7), methods=methods)
    answers = {str(i): answer("a" if i == 0 else "b", 0.5) for i in range(6)}
    many = replace(made, answers={"unpruned": answer("a", 0.9), **answers})
    assert head(many, None) == (
        "With 4 of 16 tokens, M0 answers as all tokens do; 5 methods answer otherwise."
    )
    assert head(many, "a") == "With 4 of 16 tokens, M0 still answers a; 5 methods answer b."
    by_hand = replace(many, methods={**methods, "5": MethodRecord(None, "5")})
    assert "; 5 selections answer otherwise." in head(by_hand, None)
    assert "; 5 selections answer b." in head(by_hand, "a")
    sets = dict.fromkeys(methods, A)
    assert kept_sentence(methods, sets, N).startswith("6 methods keep 4 of")
    assert kept_sentence(by_hand.methods, sets, N).startswith("6 selections keep 4 of")


ALL = list(itertools.product(["FOX", "TEA", "CUP"], repeat=3))


@pytest.mark.parametrize("truth", ["FOX", None])
@pytest.mark.parametrize("asked", [None, shown(9, 10), shown(0, 3, 4, 9, kind="things")])
def test_no_headline_has_a_number_that_the_result_does_not_have(
    truth: str | None, asked: Asked | None
) -> None:
    """And each is one or two sentences of a line or two, whatever was answered."""
    shares = (0.91, 0.52, 0.07)
    for texts in ALL:
        made = result(*zip(texts, shares, strict=True))
        known = {4, N, 1} | {a.first_logits.softmax(0)[t] for a in made.answers.values()
                             for t in range(4)}  # fmt: skip
        if asked is not None and asked.tokens is not None:
            total = asked.tokens.sum()
            known |= {total, *(asked.tokens[kept.order].sum() for kept in (A, B))}
        text = head(made, truth, asked)
        for number in map(float, re.findall(r"\d+(?:\.\d+)?", text)):
            assert any(abs(number - float(value)) < 0.0051 for value in known), (number, text)
        assert text[0].isupper() and text.endswith(".") and len(text) <= 260
