"""Text guidance by words of the language model: its numbers, who can run by it, what says so."""

from __future__ import annotations

import math

import pytest
from PIL import Image

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.selections import explore
from spare_demo.models import LlavaModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate.prompt import keywords, word_ids
from spare_demo.pruners import PRUNERS
from spare_demo.relevance import RelevanceOptions
from spare_demo.render.canvas import Canvas
from spare_demo.render.maps import relevance_map
from spare_demo.results.export import command_line
from spare_demo.results.io import read_result, write_result
from spare_demo.tokens import VisualTokens
from spare_demo.ui.wire import comparison_data

BY_WORDS = RelevanceOptions(guidance_text="words")
QUESTION = "Which number is on the red circle?"
READERS = [name for name, method in PRUNERS.items() if method.reads_relevance]


def cosine(a: list[float], b: list[float]) -> float:
    """From the definition."""
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))


def test_relevance_is_the_cosine_of_projected_tokens_and_word_embeddings(
    tiny_qwen: QwenModel, photo: Image.Image
) -> None:
    view = tiny_qwen.encode(photo, QUESTION, relevance=BY_WORDS)
    table = tiny_qwen.hf.get_input_embeddings().weight
    words = table[word_ids(tiny_qwen.tokenizer, keywords(QUESTION))].tolist()
    expected = [
        math.fsum(cosine(row, word) for word in words) / len(words)
        for row in view.picture.features.tolist()
    ]
    assert view.relevance is not None
    assert view.relevance.tolist() == pytest.approx(expected, abs=1e-6)
    assert len(view.text_words) == len(words)
    assert "".join(view.text_words) == "".join(keywords(QUESTION))


def test_methods_read_it_as_they_read_clip(tiny_model: LlavaModel, photo: Image.Image) -> None:
    tokens = tiny_model.encode(photo, QUESTION, relevance=BY_WORDS).tokens
    assert tokens.words is not None
    by_hand = VisualTokens(tokens.features, clip_image=tokens.features, clip_text=tokens.words())
    for name in ("spare", "cdpruner", "spare-normal-relevance", "anti-relevance"):
        picks, same = (PRUNERS[name].select(each, 7) for each in (tokens, by_hand))
        assert picks.order.tolist() == same.order.tolist(), name


def test_no_text_side_runs_by_words(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("The CLIP text side ran.")

    for name in ("encode_stretches", "encode_tokens", "encode_sentence"):
        monkeypatch.setattr(tiny_model.text_tower, name, refuse)
    result = compare(tiny_model, photo, QUESTION, READERS, 5, 1, relevance=BY_WORDS)
    assert all(result.answers[name].visual_tokens == 5 for name in READERS)


def test_what_ran_says_that_it_was_by_words(tiny_qwen: QwenModel, photo: Image.Image) -> None:
    names = [n for n in READERS if tiny_qwen.reason_against(PRUNERS[n], "words") is None]
    assert {"spare", "cdpruner", "normal-relevance"} <= set(names)
    result = compare(tiny_qwen, photo, QUESTION, [*names, "uniform"], 5, 1, relevance=BY_WORDS)
    assert result.titles["uniform"] == PRUNERS["uniform"].title
    assert {result.titles[n] for n in names} == {f"{PRUNERS[n].title} by words" for n in names}
    assert any("not CLIP" in note for note in result.notes)
    assert "--guidance-text=words" in command_line(result)
    again = read_result(write_result(result)).result
    assert again.settings.relevance == BY_WORDS
    assert again.titles == result.titles
    assert result.relevance is not None
    picture = relevance_map(Canvas(result.photo, result.grid), result.relevance, "words")
    assert "words of the language model, not CLIP" in picture.sentence
    assert result.view is not None
    data = comparison_data(explore(result.view, {"uniform": PRUNERS["uniform"]}))
    assert data["by"] == "words"


def test_text_methods_are_off_until_words_are_chosen(
    tiny_qwen: QwenModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in READERS:
        assert "guidance_text=words" in (tiny_qwen.reason_against(PRUNERS[name]) or "class token")
    assert tiny_qwen.reason_against(PRUNERS["spare"], "words") is None
    with pytest.raises(ValueError, match=r"cannot run here: .*guidance_text=words"):
        compare(tiny_qwen, photo, QUESTION, ["normal-relevance"], 5, 1)
    stand_in = compare(tiny_qwen, photo, QUESTION, ["spare"], 5, 1)
    assert stand_in.methods["spare"].name == "spare-reconstruction"
    assert "guidance_text=words" in stand_in.notes[0]
    monkeypatch.setattr(tiny_qwen, "has_language_model", False)
    assert "without its language model" in (
        tiny_qwen.reason_against(PRUNERS["spare"], "words") or ""
    )
    with pytest.raises(ValueError, match=r"Choose guidance_text=clip"):
        tiny_qwen.encode(photo, QUESTION, relevance=BY_WORDS)


def test_a_blank_question_has_no_words(tiny_model: LlavaModel, photo: Image.Image) -> None:
    view = tiny_model.encode(photo, " ", relevance=BY_WORDS)
    assert view.relevance is None and view.text_words == ()
    result = compare(tiny_model, photo, " ", ["spare"], 5, 1, relevance=BY_WORDS)
    assert result.methods["spare"].title == PRUNERS["spare-reconstruction"].title


def test_unknown_guidance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Choose one of: clip, words\."):
        RelevanceOptions(guidance_text="bert")  # type: ignore[arg-type]
