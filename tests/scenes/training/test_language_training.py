"""Packed training is stock inference: the same ids, places, masks and so the same logits."""

from __future__ import annotations

import re

import numpy as np
import open_clip
import pytest
import torch
import torch.nn.functional as F
from transformers import LlavaForConditionalGeneration, LlavaProcessor, PreTrainedTokenizerFast

from spare_demo.models.generate.prompt import build_prompt
from spare_demo.scenes.draw import draw
from spare_demo.scenes.practice import practise
from spare_demo.scenes.questions import Question
from spare_demo.scenes.training import architecture, language, tower
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.training.language import IGNORED, batch, sequence
from spare_demo.scenes.training.packed import BLOCK
from spare_demo.scenes.training.phases import Phase
from spare_demo.scenes.world import Scene, World, rng_of, sample_scene

WHOLE = Phase("pictures", 1, 2, GRID, World(), 0.5, 5)
WINDOWS = Phase("windows", 1, 2, 8, World(side=8 * PATCH, things=(2, 4)), 0.5, 4)
FIRST = 3000


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


def sampled(phase: Phase, index: int) -> tuple[Scene, list[Question]]:
    """Scene and questions of one row of a batch, sampled once more."""
    rng = rng_of("train", FIRST + index)
    scene = sample_scene(phase.world, rng)
    rng.integers(0, GRID - phase.cells + 1, 2)  # the window's corner, drawn in between
    return scene, practise(scene, rng, phase.questions)


@torch.no_grad()
def packed_logits(
    training: language.LanguageTraining, data: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, float]:
    """(asked tokens, vocabulary), in the order of ``labels``, and the loss on the answers."""
    kept: list[torch.Tensor] = []
    hook = training.llava.lm_head.register_forward_hook(lambda _, __, out: kept.append(out))
    try:
        _, said = training(data, WHOLE)
    finally:
        hook.remove()
    assert len(kept) == 1
    return kept[0], said["answers"].item()


@torch.no_grad()
def test_packed_questions_get_the_logits_of_stock_inference(
    training: language.LanguageTraining,
    processor: LlavaProcessor,
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Each question by itself, as the app asks it: the checkpoint's own chat template and
    processor, one row, no packing."""
    data = batch(WHOLE, FIRST, language_tokenizer)
    logits, loss = packed_logits(training, data)
    asked = data["labels"] != IGNORED
    assert len(logits) == int(asked.sum())
    every, labels = [], []
    for row in range(WHOLE.batch):
        scene, questions = sampled(WHOLE, row)
        assert len(questions) == WHOLE.questions
        pixel_values = processor.image_processor(draw(scene), return_tensors="pt").pixel_values
        for index, question in enumerate(questions):
            _, prompt = build_prompt(processor, question.text, GRID * GRID)
            answer = language_tokenizer.encode(f" {question.answer}", add_special_tokens=False)
            ids = torch.cat([prompt, torch.tensor([answer])], 1)

            mine = data["owner"][row] == index
            image = [processor.image_token_id] * GRID * GRID
            packed = [*training.prefix.tolist(), *image, *data["ids"][row][mine].tolist()]
            assert packed == ids[0].tolist(), question.text
            target = [*answer, language_tokenizer.eos_token_id]
            assert data["labels"][row][mine & asked[row]].tolist() == target

            training.llava.model.language_model.set_attn_implementation("sdpa")
            stock = training.llava(input_ids=ids, pixel_values=pixel_values).logits[0]
            every.append(stock[prompt.shape[1] - 1 :])
            labels += target
    expected = torch.cat(every)
    assert expected.std() > 0.5  # far from flat, so that agreeing means something
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)
    assert loss == pytest.approx(F.cross_entropy(expected, torch.tensor(labels)).item(), rel=1e-4)


def test_the_prompt_is_what_the_stock_processor_makes(
    processor: LlavaProcessor, language_tokenizer: PreTrainedTokenizerFast
) -> None:
    question = "What number is on the star?"
    prompt, ids = build_prompt(processor, question, GRID * GRID)
    assert prompt == f"USER: <image>\n{question} ASSISTANT:"
    scene, _ = sampled(WHOLE, 0)
    stock = processor(images=draw(scene), text=prompt, return_tensors="pt")
    assert stock["input_ids"].tolist() == ids.tolist()
    assert ids[0, 0] == language_tokenizer.bos_token_id


@pytest.mark.parametrize("phase", [WHOLE, WINDOWS], ids=lambda phase: phase.name)
def test_a_question_knows_nothing_of_the_others(
    training: language.LanguageTraining, language_tokenizer: PreTrainedTokenizerFast, phase: Phase
) -> None:
    data = batch(phase, FIRST, language_tokenizer)
    together, _ = packed_logits(training, data)
    answered = data["labels"] != IGNORED
    owners = data["owner"][answered]
    rows = torch.arange(phase.batch)[:, None].expand_as(answered)[answered]
    for row in range(phase.batch):
        for index in range(int(data["owner"][row].max()) + 1):
            mine = data["owner"][row] == index
            own = {"ids": 0, "labels": IGNORED, "places": 0, "anchors": -1}
            room = BLOCK - int(mine.sum())
            alone = {
                key: F.pad(data[key][row, mine], (0, room), value=fill)[None]
                for key, fill in own.items()
            }
            alone["owner"] = torch.tensor([[0] * int(mine.sum()) + [-1] * room])
            pictures = ("pixels", "windows", "targets")
            alone |= {key: data[key][row][None] for key in pictures}
            logits, _ = packed_logits(training, alone)
            here = (owners == index) & (rows == row)
            torch.testing.assert_close(logits, together[here], atol=2e-4, rtol=1e-4)


def test_the_place_of_what_is_named_is_asked_for_right_before_the_answer(
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    data = batch(WHOLE, FIRST, language_tokenizer)
    found = 0
    for row in range(WHOLE.batch):
        scene, questions = sampled(WHOLE, row)
        for index, question in enumerate(questions):
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
    loss, _ = training(batch(WINDOWS, FIRST, language_tokenizer), WINDOWS)
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
    one, same = (batch(WINDOWS, FIRST, language_tokenizer) for _ in range(2))
    other = batch(WINDOWS, FIRST + 2, language_tokenizer)
    for key, value in one.items():
        assert torch.equal(value, same[key]), key
    assert not torch.equal(one["pixels"], other["pixels"])
    scene, _ = sampled(WINDOWS, 1)
    np.testing.assert_array_equal(one["pixels"][1].numpy(), np.asarray(draw(scene)))


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
    monkeypatch.setattr(tower, "random_corner", lambda cells, rng: (GRID - cells, 0))
    phase = Phase("windows", 1, 6, 12, World(things=(2, 4), sizes=(24.0, 60.0)), 0.5, 16)
    said: dict[str, set[str]] = {"left": set(), "top": set()}
    for first in range(0, 120, 6):
        for text in language_tokenizer.batch_decode(batch(phase, first, language_tokenizer)["ids"]):
            for half, answers in said.items():
                parts = re.split(rf"in the {half} or the \w+ half\? ASSISTANT: ", text)
                answers |= {re.split(r"[\n<]", part)[0] for part in parts[1:]}
    assert said == {"left": {"left"}, "top": {"bottom"}}


def test_a_question_too_long_for_its_block_is_refused(
    language_tokenizer: PreTrainedTokenizerFast,
) -> None:
    long = Question("What number is on the star left of " * 9, "3", ("ocr",))
    with pytest.raises(ValueError, match=f"longer than {BLOCK} tokens"):
        sequence([long], [], language_tokenizer)
    longest = 0
    for seed in range(200):
        rng = rng_of("train", seed)
        scene = sample_scene(World(), rng)
        rows = sequence(practise(scene, rng, 24), [0] * len(scene.things), language_tokenizer)
        longest = max(longest, max(rows["places"]))
    assert longest < BLOCK
