"""What a harness's arguments and documents become, without a harness."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from spare_demo.evaluation.harness import HarnessOptions, PrunedModel, check_greedy, read_options
from spare_demo.evaluation.picks import picture_seed
from spare_demo.models import LlavaModel
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.random import Random
from spare_demo.pruners.views import budget_groups
from spare_demo.relevance import RelevanceOptions

DOCUMENT = {"question": "How many stars are there?", "hint": "Count the triangles."}
PROMPT = "How many stars are there?\nAnswer in one word."


def asked(model: LlavaModel, photo: Image.Image, number: int = 0, **options: Any) -> Any:
    pruned = PrunedModel(model, HarnessOptions(**{"budget": 5, **options}))
    return pruned.ask(PROMPT, DOCUMENT, [photo], "stars", number).pruned


def test_numbers_may_come_as_texts() -> None:
    options = read_options({"budget": "12.5%", "batch_size": "8", "method": "none"})
    assert (options.budget, options.batch_size, options.methods) == ("12.5%", 8, {})
    assert read_options({"budget": 32}) == HarnessOptions(budget=32)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "spar"}, "There is no method 'spar'. Did you mean spare?"),
        ({"method": "divprune:metric=x"}, "metric of DivPrune cannot be 'x'"),
        ({"budget": "many"}, "A budget of 'many' is not possible."),
        ({"budget": 6.5}, "A budget of '6.5' is not possible."),
        ({"budget": "0%"}, "share above 0%"),
        ({"batch_size": "auto"}, "batch_size=auto is not possible."),
        ({"max_new_tokens": 0}, "max_new_tokens=0 is not possible."),
        ({"seed": "x"}, "The seed must be a whole number"),
        ({"do_sample": True}, "do_sample is not possible, because answers are greedy."),
        ({"num_beams": 4}, "num_beams is not possible"),
        ({"model": "x"}, "There is no model argument model. Choose of: pretrained,"),
    ],
)
def test_a_bad_argument_is_refused_in_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        read_options(arguments)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_new_tokens": 16, "temperature": 0, "top_p": 1.0, "num_beams": 1, "do_sample": False},
        {"temperature": 0.0, "repetition_penalty": 1, "until": ["ASSISTANT:"]},
    ],
)
def test_greedy_settings_pass(settings: dict[str, Any]) -> None:
    check_greedy(settings, "stars")


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True},
        {"temperature": 0.2, "do_sample": False},
        {"num_beams": 5},
        {"repetition_penalty": 1.2},
        {"no_repeat_ngram_size": 3},
    ],
)
def test_others_are_refused_with_their_task(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"The task stars sets {next(iter(settings))}="):
        check_greedy(settings, "stars")


@pytest.mark.parametrize(
    ("options", "question"),
    [({}, DOCUMENT["question"]), ({"question_field": "hint"}, DOCUMENT["hint"])],
)
def test_relevance_is_of_the_bare_question_and_the_prompt_is_the_tasks(
    tiny_model: LlavaModel, photo: Image.Image, options: dict[str, Any], question: str
) -> None:
    view, kept = asked(tiny_model, photo, method="normal-relevance", **options)
    assert "Answer in one word." in view.prompt
    tokens = tiny_model.encode(photo, question).tokens
    assert kept.order.tolist() == PRUNERS["normal-relevance"].select(tokens, 5).order.tolist()


def test_a_document_without_a_question_is_pruned_by_its_prompt(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    pruned = PrunedModel(tiny_model, HarnessOptions(budget=5))
    _, kept = pruned.ask(PROMPT, {"question": None}, [photo], "stars", 0).pruned or (None, None)
    tokens = tiny_model.encode(photo, PROMPT).tokens
    assert kept.order.tolist() == PRUNERS["spare"].select(tokens, 5).order.tolist()  # type: ignore[union-attr]


def test_answers_come_in_the_order_of_the_documents(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    model = PrunedModel(tiny_model, HarnessOptions(budget="25%", positions="original"))
    documents = [
        model.ask(prompt, {}, pictures, "stars", i)
        for i, (prompt, pictures) in enumerate(
            [("What is it?", [photo]), ("How many?", []), ("Which word?", [photo.rotate(90)])]
        )
    ]
    (first, record), (second, alone), (third, _) = model.answer(documents, {"max_new_tokens": 4})
    views = [documents[i].pruned for i in (0, 2)]
    expected = [tiny_model.answer(*view, 4, "original").text for view in views]  # type: ignore[misc]
    assert expected != [tiny_model.answer(*view, 4).text for view in views]  # type: ignore[misc]
    assert [first, third] == expected
    assert second == tiny_model.answer_text("How many?", 4).text
    assert (record["all_visual_tokens"], record["visual_tokens"]) == (16, 4)
    assert (alone["all_visual_tokens"], alone["visual_tokens"]) == (0, 0)
    assert record["method"] == "spare" and record["revision"] == tiny_model.revision


@pytest.mark.parametrize("until", ["cut", ["nowhere", "cut"]])
def test_an_answer_ends_where_the_task_says(
    tiny_model: LlavaModel, photo: Image.Image, until: str | list[str]
) -> None:
    model = PrunedModel(tiny_model, HarnessOptions(budget=5, max_new_tokens=6))
    question = model.ask(PROMPT, {}, [photo], "stars", 0)
    ((whole, _),) = model.answer([question], {})
    assert len(whole) > 3
    middle = whole[2]
    at = (
        [middle if text == "cut" else text for text in until] if isinstance(until, list) else middle
    )
    ((text, record),) = model.answer([question], {"until": at})
    assert text == whole.split(middle)[0]
    assert record["output_tokens"] == 6


@pytest.mark.parametrize("positions", [None, "original"])
def test_a_continuation_has_its_likelihood(
    tiny_model: LlavaModel, photo: Image.Image, positions: Any
) -> None:
    model = PrunedModel(tiny_model, HarnessOptions(budget=5, positions=positions))
    question = model.ask(PROMPT, {}, [photo], "stars", 0)
    (likelihood, greedy), record = model.score(question, " blue")
    score = tiny_model.score_continuation(*question, " blue", positions)
    assert likelihood == pytest.approx(sum(score.log_probabilities), abs=1e-5)
    assert not greedy and record["visual_tokens"] == 5


def test_words_guide_where_the_option_says_so(tiny_model: LlavaModel, photo: Image.Image) -> None:
    by = RelevanceOptions(guidance_text="words")
    view = tiny_model.encode(photo, DOCUMENT["question"], relevance=by)
    _, kept = asked(tiny_model, photo, guidance_text="words")
    assert kept.order.tolist() == PRUNERS["spare"].select(view.tokens, 5).order.tolist()
    with pytest.raises(ValueError, match="Choose one of: clip, words"):
        read_options({"guidance_text": "bert"})


def test_pictures_are_seen_and_picked_from_as_the_options_say(
    tiny_next: LlavaNextModel, photo: Image.Image
) -> None:
    picture = tiny_next.look(photo, "any")
    tokens = tiny_next.ask(picture, DOCUMENT["question"], RelevanceOptions(), True).tokens
    view, kept = asked(tiny_next, photo, aspect="any", together=True)
    assert kept.order.tolist() == PRUNERS["spare"].select(tokens, 5).order.tolist()
    assert view.grid == picture.grid != asked(tiny_next, photo, aspect="fixed")[0].grid
    assert len(budget_groups(view.tokens)) == 1


def test_without_a_method_all_tokens_stay(tiny_model: LlavaModel, photo: Image.Image) -> None:
    _, kept = asked(tiny_model, photo, method="none")
    assert kept is None


def test_a_plan_meets_a_share_that_no_schedule_does(
    deep_model: LlavaModel, photo: Image.Image
) -> None:
    _, plan = asked(deep_model, photo, method="fastv", budget="1%")
    least = PRUNERS["fastv"].lowest(16, deep_model.layers)
    assert plan.budget == least


def test_every_document_is_drawn_anew_and_the_same_again(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    one, again, other = (
        asked(tiny_model, photo, number, method="random", seed=3)[1] for number in (0, 0, 1)
    )
    assert one.order.tolist() == again.order.tolist() != other.order.tolist()
    seeded = Random(seed=picture_seed(3, "stars", "0"))
    tokens = tiny_model.encode(photo, "").tokens
    assert one.order.tolist() == seeded.select(tokens, 5).order.tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"question_field": "caption"}, "Choose a question_field of: question, hint."),
        ({"budget": 17}, "A budget of 17 visual tokens is not possible."),
        ({"aspect": "fixed"}, "cannot fit a picture by 'fixed'"),
        ({"positions": "packed"}, "positions=packed is not possible. Choose one of: compact"),
    ],
)
def test_what_cannot_be_is_said(
    tiny_model: LlavaModel, photo: Image.Image, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        asked(tiny_model, photo, **options)
    assert sentence in str(refusal.value)


def test_a_model_without_relevance_names_the_text_free_form(tiny_qwen: QwenModel) -> None:
    with pytest.raises(ValueError, match="Choose method=spare-reconstruction"):
        PrunedModel(tiny_qwen, HarnessOptions(budget="20%"))


@pytest.mark.parametrize("number", [2, 1])
def test_other_than_one_picture_is_refused(
    tiny_model: LlavaModel, photo: Image.Image, number: int
) -> None:
    pictures: list[Any] = [photo] * 2 if number == 2 else ["clip.mp4"]
    model = PrunedModel(tiny_model, HarnessOptions(budget=5))
    with pytest.raises(ValueError, match="Document 4 of the task stars"):
        model.ask(PROMPT, DOCUMENT, pictures, "stars", 4)
