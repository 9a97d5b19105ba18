"""LiteLVLM against an independent reference: texts first, then what fills up."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.litelvlm import LiteLVLM

Array = NDArray[np.float64]
N, HEADS, WIDTH = 40, 2, 6
few = settings(max_examples=25)


def drawn(seed: int, texts: int) -> VisualTokens:
    """Random tokens; the fields of the tower in double precision."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    query, keys, values = draw(HEADS, 1, WIDTH), draw(HEADS, N, WIDTH), draw(HEADS, N, WIDTH)

    def of_the_last_block(rows: torch.Tensor, block: int) -> torch.Tensor:
        assert block == -1
        return rows

    return VisualTokens(
        torch.ones(N, 3),
        draw(N, 5) * draw(N, 1).exp(),
        draw(texts, 5),
        class_queries=lambda block: of_the_last_block(query.expand(-1, N, -1), block),
        vision_keys=lambda block: of_the_last_block(keys, block),
        vision_values=lambda block: of_the_last_block(values, block),
    )


def arrays(tokens: VisualTokens) -> list[Array]:
    """Image and text embeddings; query (w,), keys and values (n, w), heads side by side."""
    assert tokens.class_queries and tokens.vision_keys and tokens.vision_values
    read = (tokens.class_queries(-1), tokens.vision_keys(-1), tokens.vision_values(-1))
    rows = [np.concatenate([head.numpy() for head in part], axis=1) for part in read]
    image, text = tokens.image_and_text()
    return [image.numpy(), text.numpy(), rows[0][0], rows[1], rows[2]]


def litelvlm(image: Array, text: Array, q: Array, keys: Array, values: Array, k: int) -> list[int]:
    """The released tower's picks for one picture: the union, sorted, then what fills up."""
    n, union = len(image), set()
    for t in text:
        products = [float(e @ t) for e in image]
        union |= set(sorted(range(n), key=lambda i, p=products: p[i])[: k // len(text)])
    logits = [
        float(q @ key) / math.sqrt(q @ q) / math.sqrt(key @ key) / math.sqrt(len(q)) for key in keys
    ]
    total = sum(math.exp(logit) for logit in logits)
    context = [
        math.sqrt(sum((math.exp(logit) / total * v) ** 2))
        for logit, v in zip(logits, values, strict=True)
    ]
    rest = sorted((i for i in range(n) if i not in union), key=lambda i: -context[i])
    return sorted(union) + rest[: k - len(union)]


@given(seed=st.integers(0, 9999), texts=st.integers(1, 6), k=st.integers(1, N))
@few
def test_it_is_the_reference(seed: int, texts: int, k: int) -> None:
    tokens = drawn(seed, texts)
    expected = litelvlm(*arrays(tokens), k)
    order = LiteLVLM().select(tokens, k).order.tolist()
    assert sorted(order) == sorted(expected)
    image, text = tokens.image_and_text()
    union = {i for t in text for i in (image @ t).argsort()[: k // texts].tolist()}
    assert set(order[: len(union)]) == union and order[len(union) :] == expected[len(union) :]


@given(seed=st.integers(0, 999), k=st.integers(1, N))
@few
def test_one_text_asks_nothing_of_the_tower_and_is_lowest_relevance(seed: int, k: int) -> None:
    tokens = drawn(seed, 1)
    image, text = tokens.image_and_text()
    unread = dataclasses.replace(
        tokens, **dict.fromkeys(("class_queries", "vision_keys", "vision_values"), pytest.fail)
    )
    order = LiteLVLM().select(unread, k).order
    assert order.tolist() == (image @ text[0]).argsort(stable=True)[:k].tolist()
    alike = torch.nn.functional.normalize(image, dim=1)  # without lengths it is SPARE's Fig. 3
    same = dataclasses.replace(unread, clip_image=alike)
    assert torch.equal(
        LiteLVLM().select(same, k).order, PRUNERS["anti-relevance"].select(same, k).order
    )


def test_a_question_is_one_text_however_long() -> None:
    tokens = drawn(3, 4)
    sentence = tokens.image_and_text()[1][2]
    asked = dataclasses.replace(tokens, clip_sentence=lambda: sentence)
    alone = dataclasses.replace(tokens, clip_text=sentence[None])
    for k in (1, 7, N):
        got = LiteLVLM().select(asked, k).order
        assert torch.equal(got, LiteLVLM().select(alone, k).order)
    assert torch.equal(LiteLVLM().weight(asked), LiteLVLM().weight(alone))


def test_more_texts_than_tokens_leave_the_context_alone_and_ties_go_to_the_lower_index() -> None:
    tokens = drawn(5, 6)
    order = LiteLVLM().select(tokens, 5).order.tolist()
    assert order == litelvlm(*arrays(tokens), 5)
    flat = torch.ones(HEADS, N, WIDTH)
    same = dict.fromkeys(("class_queries", "vision_keys", "vision_values"), lambda block: flat)
    alike = dataclasses.replace(tokens, clip_image=torch.ones(N, 5).double(), **same)
    assert LiteLVLM().select(alike, 9).order.tolist() == list(range(9))


def test_the_weight_is_that_of_the_text_least_like_the_token() -> None:
    tokens = drawn(1, 3)
    image, texts = tokens.image_and_text()
    expected = -(image.numpy() @ texts.numpy().T).min(axis=1)
    np.testing.assert_allclose(LiteLVLM().weight(tokens).numpy(), expected, atol=1e-12)
