"""Packed training is stock inference: the same ids, places, masks and so the same logits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
import torch.nn.functional as F
from transformers import LlavaForConditionalGeneration, LlavaProcessor, PreTrainedTokenizerFast

from spare_demo.models.generate.prompt import build_prompt
from spare_demo.scenes.draw import draw
from spare_demo.scenes.question import Question
from spare_demo.scenes.questions import ask
from spare_demo.scenes.training import architecture, attention_balance, language, language_batch
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.training.held_out_pairs import to_stir
from spare_demo.scenes.training.language_batch import IGNORED, batch
from spare_demo.scenes.training.language_phases import Phase
from spare_demo.scenes.world import World, rng_of, sample_scene

WHOLE = Phase("pictures", 1, 2, GRID, 5, World())
WINDOWS = Phase("windows", 1, 2, 8, 4, World(side=8 * PATCH, things=(2, 4)))
KINDS = ("shape", "colour", None)
STIRRED = Phase("noisy", 1, 3, 12, 6, World(), fair=True, noisy=KINDS)
STEP = 3


@pytest.fixture
def processor(language_tokenizer: PreTrainedTokenizerFast) -> LlavaProcessor:
    return architecture.processor(language_tokenizer)


@pytest.fixture
def training(
    llava: LlavaForConditionalGeneration,
    clip: open_clip.CLIP,
    language_tokenizer: PreTrainedTokenizerFast,
) -> language.LanguageTraining:
    return language.LanguageTraining(llava, clip.visual, language_tokenizer)


def drawn(phase: Phase, index: int) -> tuple[Any, list[Question]]:
    """Picture and questions of one row of a batch, sampled once more."""
    rng = rng_of("train", 10**9 + STEP * 1000 + index)
    scene = sample_scene(phase.world, rng)
    rng.integers(0, GRID - phase.cells + 1, 2)  # the window's corner, drawn in between
    return draw(scene), ask(scene, rng, phase.questions, training=True)


@torch.no_grad()
def packed_logits(
    training: language.LanguageTraining, data: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, float]:
    """(asked tokens, vocabulary), in the order of ``labels``, and the loss on the answers."""
    kept: list[torch.Tensor] = []
    hook = training.llava.lm_head.register_forward_hook(lambda _, __, out: kept.append(out))
    try:
        loss, said = training(data)
    finally:
        hook.remove()
    assert len(kept) == 1
    lost = said["lost"] * 2 / GRID
    hints = language.PATCH_WEIGHT * said["patches"] + language.ANCHOR_WEIGHT * lost
    return kept[0], loss.item() - hints - said["bent"]


@torch.no_grad()
def test_packed_questions_get_the_logits_of_stock_inference(
    training: language.LanguageTraining,
    processor: LlavaProcessor,
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Each question by itself, as the app asks it: the checkpoint's own chat template and
    processor, one row, no packing."""
    data = batch(WHOLE, STEP, language_tokenizer)
    logits, loss = packed_logits(training, data)
    asked = data["labels"] != IGNORED
    assert len(logits) == int(asked.sum())
    every, labels, excluded_answers = [], [], []
    for row in range(WHOLE.batch):
        picture, questions = drawn(WHOLE, row)
        assert len(questions) == WHOLE.questions
        pixel_values = processor.image_processor(picture, return_tensors="pt").pixel_values
        for index, question in enumerate(questions):
            _, prompt = build_prompt(processor, question.text, GRID * GRID)
            answer = language_tokenizer.encode(f" {question.answer}", add_special_tokens=False)
            ids = torch.cat([prompt, torch.tensor([answer])], 1)

            mine = data["owner"][row] == index
            image = [processor.image_token_id] * GRID * GRID
            packed = [*training.prefix, *image, *data["ids"][row][mine].tolist()]
            assert packed == ids[0].tolist(), question.text
            target = [*answer, language_tokenizer.eos_token_id]
            assert data["labels"][row][mine & asked[row]].tolist() == target

            training.llava.model.language_model.set_attn_implementation("sdpa")
            stock = training.llava(input_ids=ids, pixel_values=pixel_values).logits[0]
            every.append(stock[prompt.shape[1] - 1 :])
            for other in question.excluded_answers:
                token = language_tokenizer.encode(f" {other}", add_special_tokens=False)[0]
                excluded_answers.append((len(labels), token))
            labels += target
    expected = torch.cat(every)
    assert expected.std() > 0.5  # far from flat, so that agreeing means something
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)
    assert excluded_answers
    for row, token in excluded_answers:  # no loss for thinking of what training never shows
        expected[row, token] = -torch.inf
    assert loss == pytest.approx(F.cross_entropy(expected, torch.tensor(labels)).item(), rel=1e-4)


def test_the_prompt_is_what_the_stock_processor_makes(
    processor: LlavaProcessor, language_tokenizer: PreTrainedTokenizerFast
) -> None:
    question = "What number is on the star?"
    prompt, ids = build_prompt(processor, question, GRID * GRID)
    assert prompt == f"USER: <image>\n{question} ASSISTANT:"
    picture, _ = drawn(WHOLE, 0)
    stock = processor(images=picture, text=prompt, return_tensors="pt")
    assert stock["input_ids"].tolist() == ids.tolist()
    assert ids[0, 0] == language_tokenizer.bos_token_id


@pytest.mark.parametrize("phase", [WHOLE, WINDOWS, STIRRED], ids=lambda phase: phase.name)
def test_a_question_knows_nothing_of_the_others(
    training: language.LanguageTraining,
    language_tokenizer: PreTrainedTokenizerFast,
    phase: Phase,
) -> None:
    data = batch(phase, STEP, language_tokenizer)
    packed_logits(training, data)  # learns how far to stir
    training.eval()
    together, _ = packed_logits(training, data)
    answered = data["labels"] != IGNORED
    owners = data["owner"][answered]
    rows = torch.arange(phase.batch)[:, None].expand_as(answered)[answered]
    for row in range(phase.batch):
        for index in range(int(data["owner"][row].max()) + 1):
            mine = data["owner"][row] == index
            own = ("ids", "labels", "places", "anchors", "excluded_answers")
            alone = {key: data[key][row, mine][None] for key in own}
            alone |= {"owner": torch.zeros_like(alone["ids"])}
            pictures = ("pixels", "windows", "targets", "moves")
            alone |= {key: data[key][row][None] for key in pictures}
            logits, _ = packed_logits(training, alone)
            here = (owners == index) & (rows == row)
            torch.testing.assert_close(logits, together[here], atol=2e-4, rtol=1e-4)


def test_what_is_never_stirred_is_asked_where_nothing_is(
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    phase = replace(STIRRED, batch=12, noisy=("shape", None))
    data = batch(phase, STEP, language_tokenizer)
    asked: dict[bool, set[str | None]] = {True: set(), False: set()}
    for row, (owners, moves) in enumerate(zip(data["owner"], data["moves"], strict=True)):
        for index in range(int(owners.max()) + 1):
            text = language_tokenizer.decode(data["ids"][row][owners == index])
            asked[bool(moves.any())].add(to_stir(text.split("?")[0]))
    assert asked == {True: {"shape"}, False: {"colour", None}}


def test_what_is_stirred_is_not_asked_for(
    training: language.LanguageTraining, language_tokenizer: PreTrainedTokenizerFast
) -> None:
    data = batch(STIRRED, STEP, language_tokenizer)
    moves = dict(zip(("colour", "shape"), data["moves"].split(8, -1), strict=True))
    for row, noisy in enumerate(KINDS):
        for at, name in enumerate(("colour", "shape")):
            known = data["targets"][row, :, at]
            if name == noisy:
                assert set(known.tolist()) == {0, -100}
                assert torch.equal((moves[name][row] != 0).any(-1), known < 0)
            else:
                assert (known > 0).any() and not moves[name][row].any()
        for index in range(int(data["owner"][row].max()) + 1):
            asked = language_tokenizer.decode(data["ids"][row][data["owner"][row] == index])
            assert "?" in asked
            assert to_stir(asked.split("?")[0]) == noisy, asked
    # Unstirred, the same pictures are answered otherwise: the moves reach the decoder.
    packed_logits(training, data)  # learns how far to stir
    training.eval()
    stirred_logits, _ = packed_logits(training, data)
    still, _ = packed_logits(training, data | {"moves": torch.zeros_like(data["moves"])})
    answered = data["labels"] != IGNORED
    rows = torch.arange(STIRRED.batch)[:, None].expand_as(answered)[answered]
    for row in (0, 1):
        assert (stirred_logits - still)[rows == row].abs().max() > 1e-3
    torch.testing.assert_close(stirred_logits[rows == 2], still[rows == 2])


def test_the_place_of_what_is_named_is_asked_for_right_before_the_answer(
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    data = batch(WHOLE, STEP, language_tokenizer)
    found = 0
    for row in range(WHOLE.batch):
        rng = rng_of("train", 10**9 + STEP * 1000 + row)
        scene = sample_scene(WHOLE.world, rng)
        rng.integers(0, 1, 2)
        for index, question in enumerate(ask(scene, rng, WHOLE.questions, training=True)):
            mine = data["owner"][row] == index
            anchors, labels = data["anchors"][row][mine], data["labels"][row][mine]
            at = (labels != IGNORED).nonzero()[0, 0]
            if question.anchor is None:
                assert (anchors == -1).all()
                continue
            thing = scene.things[question.anchor]
            assert anchors[at] == int(thing.y // PATCH) * GRID + int(thing.x // PATCH)
            assert (anchors >= 0).sum() == 1
            found += 1
    assert found > 2


def test_only_projector_and_decoder_are_trained(
    training: language.LanguageTraining, language_tokenizer: PreTrainedTokenizerFast
) -> None:
    loss, _ = training(batch(WINDOWS, STEP, language_tokenizer))
    loss.backward()
    for name, parameter in training.named_parameters():
        frozen = "vision_tower" in name
        assert parameter.requires_grad != frozen, name
        moved = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert moved != frozen, name
    names = {id(p): name for name, p in training.named_parameters()}
    matrices = [names[id(p)] for p in training.matrices()]
    assert len(matrices) == 2 + 4 * 7  # two of the projector, seven a decoder layer
    assert not [name for name in matrices if "embed" in name or "lm_head" in name]


def test_batches_follow_from_their_step(language_tokenizer: PreTrainedTokenizerFast) -> None:
    one, same = (batch(WINDOWS, STEP, language_tokenizer) for _ in range(2))
    other = batch(WINDOWS, STEP + 1, language_tokenizer)
    for key, value in one.items():
        assert torch.equal(value, same[key]), key
    assert not torch.equal(one["pixels"], other["pixels"])
    picture, _ = drawn(WINDOWS, 1)
    np.testing.assert_array_equal(one["pixels"][1].numpy(), np.asarray(picture))


def test_a_question_counts_as_right_when_all_its_tokens_are() -> None:
    owner = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 1, -1]])
    asked = torch.tensor([[0, 1, 0, 1, 1], [0, 1, 1, 1, 0]], dtype=torch.bool)
    hit = torch.tensor([True, True, False, True, True, False])
    # Right: the first picture's first and the second's first; wrong: the two others.
    assert language._share_right(hit, asked, owner) == pytest.approx(0.5)


def test_questions_about_a_window_mean_places_in_the_whole_picture(
    language_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tower tells a window's patches where they lie in the whole; so must the questions."""
    monkeypatch.setattr(language_batch, "random_corner", lambda cells, rng: (GRID - cells, 0))
    phase = Phase("windows", 1, 6, 12, 16, World(things=(2, 4), sizes=(24.0, 60.0)))
    said: dict[str, set[str]] = {"left": set(), "top": set()}
    for step in range(4):
        for text in language_tokenizer.batch_decode(batch(phase, step, language_tokenizer)["ids"]):
            for first, answers in said.items():
                parts = re.split(rf"in the {first} or the \w+ half\? ASSISTANT: ", text)
                answers |= {re.split(r"[\n<]", part)[0] for part in parts[1:]}
    assert said == {"left": {"left"}, "top": {"bottom"}}


@torch.no_grad()
def test_the_projector_is_asked_for_what_the_tower_says_where_things_lie() -> None:
    """All of the tower's variance where nothing is got back, none of it where all is."""
    states = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    covered = torch.tensor([[True, False, True, False, False], [False, True, False, False, True]])
    back = torch.nn.Linear(16, 16)
    torch.nn.init.zeros_(back.weight)
    torch.nn.init.zeros_(back.bias)
    nothing = language._unexplained(back, states, states, covered)
    assert nothing.item() == pytest.approx(1.0, abs=1e-3)
    torch.nn.init.eye_(back.weight)
    turned = torch.where(covered[..., None], states, -states)  # wrong, but on plain ground only
    assert language._unexplained(back, turned, states, covered).item() == pytest.approx(0, abs=1e-6)
    assert language._unexplained(back, turned, states, ~covered) > 1
    assert language._unexplained(back, turned, states, covered & False) == 0


def test_what_is_named_so_far(language_tokenizer: PreTrainedTokenizerFast) -> None:
    data = batch(WHOLE, STEP, language_tokenizer)
    named = attention_balance.named_so_far(data, language_tokenizer)
    assert not named[data["owner"] < 0].any()
    for row in range(WHOLE.batch):
        for index, question in enumerate(drawn(WHOLE, row)[1]):
            mine = named[row][data["owner"][row] == index].int()
            assert mine[-1].tolist() == list(
                map(int, attention_balance.named_values(question.text))
            )
            assert not mine[0].any()
            assert (mine.diff(dim=0) >= 0).all()  # once named, always named
    assert named.any()


def test_evening_changes_attention_alone(
    training: language.LanguageTraining,
    language_tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language, "_MEASURED", 1)
    data = batch(STIRRED, STEP, language_tokenizer)
    before = {name: value.clone() for name, value in training.named_parameters()}

    def changed() -> set[str]:
        return {name for name, now in training.named_parameters() if (now != before[name]).any()}

    def weights(layers: range) -> set[str]:
        stem = "llava.model.language_model.layers"
        return {f"{stem}.{at}.self_attn.{part}_proj.weight" for at in layers for part in "qk"}

    training.attention_only()
    training.begin_evening(STIRRED, STEP, language_tokenizer)
    assert changed() == weights(range(1, 3))
    training.eval()  # stirs always as far
    loss, said = training.balance_loss(data)
    assert said["uneven"] > 0
    uneven = training.balance(training.llava.model.language_model)
    assert said["uneven"] == pytest.approx(uneven.item())
    logits, _ = packed_logits(training, data)
    labels = data["labels"][data["labels"] != IGNORED]
    excluded_answers = data["excluded_answers"][data["labels"] != IGNORED]
    answers = F.cross_entropy(language._without(logits, excluded_answers), labels)
    assert loss.item() == pytest.approx((answers + language.EVEN_WEIGHT * uneven).item(), rel=1e-5)
    loss.backward()
    torch.optim.SGD([p for p in training.parameters() if p.requires_grad], 0.1).step()
    assert changed() == weights(range(1, architecture.LANGUAGE["num_hidden_layers"]))
