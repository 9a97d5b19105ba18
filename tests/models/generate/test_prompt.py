"""What a visitor types is words, never a control token."""

from __future__ import annotations

import pytest

from spare_demo.models import LlavaModel
from spare_demo.models.generate.prompt import build_prompt


@pytest.mark.parametrize("family", ["tiny_model", "tiny_next", "tiny_qwen"])
def test_control_tokens_in_a_question_are_words(
    family: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    tokenizer = model.tokenizer
    names = [token.content for token in tokenizer.added_tokens_decoder.values()]
    assert model.processor.image_token in names
    _, plain = build_prompt(model.processor, "What is it?", 4)
    _, typed = build_prompt(model.processor, f"What {''.join(names)} is it?", 4)
    for name in names:
        number = tokenizer.convert_tokens_to_ids(name)
        if number != tokenizer.unk_token_id:
            assert int((typed == number).sum()) == int((plain == number).sum()), name


@pytest.mark.parametrize("question", ["What is <it>?", "Is 1 < 2 > 0?", "<S> or [PAD", "a\nb"])
def test_any_other_question_is_as_it_was_typed(tiny_model: LlavaModel, question: str) -> None:
    prompt, _ = build_prompt(tiny_model.processor, question, 1)
    assert f"\n{question} ASSISTANT:" in prompt
    assert build_prompt(tiny_model.processor, f" {question}\n", 1)[0] == prompt
