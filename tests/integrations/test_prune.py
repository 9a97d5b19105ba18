"""Pruned inputs of stock models: what generate makes of them, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers
from PIL import Image
from stock import noise
from transformers import AutoProcessor

from spare_demo import PRUNERS, compare, prune
from spare_demo.models import Model

FAMILIES = ("tiny", "tiny_next", "tiny_qwen")
QUESTIONS = ("What colour is the circle?", "How many stars?", "Which word?", "Is it red?")
SIZES = ((90, 60), (60, 90), (57, 111), (168, 55))
OWN = {"tiny": "crop", "tiny_next": "any", "tiny_qwen": "native"}
"""How each stock processor fits a picture, as `compare` calls it."""


class Stock:
    """A model as a caller loads it: transformers' class and processor, and our model beside it."""

    def __init__(self, name: str, folder: Path, ours: Model) -> None:
        self.name, self.ours = name, ours
        self.model = getattr(transformers, ours.hf_class).from_pretrained(folder)
        # Of LLaVA-1.5's pictures `compare` makes what Pillow makes; the others' it leaves to the
        # stock processor.
        backend = {"backend": "pil"} if name == "tiny" else {}
        self.processor = AutoProcessor.from_pretrained(folder, **backend)

    def inputs(self, pictures: Sequence[Image.Image], questions: Sequence[str]) -> Any:
        image = self.processor.image_token
        text = [f"{image}\n{question} ASSISTANT:" for question in questions]
        return self.processor(images=list(pictures), text=text, padding=True, return_tensors="pt")

    def tokens(self, inputs: Any, **settings: Any) -> list[list[int]]:
        """The new tokens of each prompt."""
        start = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
        settings = {"max_new_tokens": 8, "do_sample": False, **settings}
        return self.model.generate(**inputs, **settings)[:, start:].tolist()


@pytest.fixture(params=FAMILIES)
def stock(request: pytest.FixtureRequest) -> Stock:
    name = request.param
    ours = request.getfixturevalue("tiny_model" if name == "tiny" else name)
    return Stock(name, request.getfixturevalue(f"{name}_folder"), ours)


def test_keeping_all_is_the_stock_call(stock: Stock) -> None:
    pictures = [noise(size) for size in SIZES]
    inputs = stock.inputs(pictures, QUESTIONS)
    pruned = prune(
        stock.model, stock.processor, inputs, method="divprune", budget="100%", question=QUESTIONS
    )
    assert stock.tokens(pruned) == stock.tokens(inputs)
    assert pruned["attention_mask"].tolist() == inputs["attention_mask"].tolist()


def test_a_batch_is_its_prompts_one_by_one(stock: Stock) -> None:
    pictures = [noise(size) for size in SIZES]
    given: dict[str, Any] = {"method": "spare", "budget": "25%"}
    together = prune(
        stock.model,
        stock.processor,
        stock.inputs(pictures, QUESTIONS),
        question=QUESTIONS,
        **given,
    )
    alone = [
        prune(stock.model, stock.processor, stock.inputs([p], [q]), question=q, **given)
        for p, q in zip(pictures, QUESTIONS, strict=True)
    ]
    assert stock.tokens(together) == [stock.tokens(each)[0] for each in alone]
    assert [s.order.tolist() for s in together.selections] == [
        each.selections[0].order.tolist() for each in alone
    ]


def test_every_method_keeps_and_answers_what_compare_does(stock: Stock, photo: Image.Image) -> None:
    names = [
        name
        for name, method in PRUNERS.items()
        if not method.inside and stock.ours.reason_against(method) is None
    ]
    question = QUESTIONS[0]
    result = compare(stock.ours, photo, question, names, "30%", 6, seed=3, aspect=OWN[stock.name])
    inputs = stock.processor(images=photo, text=result.view.prompt, return_tensors="pt")
    for name in names:
        pruned = prune(
            stock.model,
            stock.processor,
            inputs,
            method=name,
            budget="30%",
            question=question,
            seed=3,
        )
        assert pruned.selections[0].order.tolist() == result.selections[name].order.tolist(), name
        answer = result.answers[name]
        assert pruned["inputs_embeds"].shape[1] == answer.prompt_tokens, name
        assert stock.tokens(pruned, max_new_tokens=6)[0] == list(answer.token_ids), name
