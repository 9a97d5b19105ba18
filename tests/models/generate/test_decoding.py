"""The answer: stock ``generate`` is the reference, for all tokens and for some."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from stock import keep_all_as_stock, stock
from torch.nn.attention import SDPBackend, sdpa_kernel

from spare_demo.models import Answer, LlavaModel, Picture, View
from spare_demo.models.generate.decoding import Text
from spare_demo.models.loading import number_format
from spare_demo.tokens import Selection

QUESTIONS = [
    "What colour is the circle?",
    "How many stars are there?",
    "Is the word 日本語 above the green one? 🙂",
    "",
]
PICKS = [[5], [3, 0, 15, 7], [15, 2, 9, 1, 4, 12, 11], list(range(15, -1, -1))]


def drain(pieces: Generator[str, None, Answer]) -> tuple[list[str], Answer]:
    got: list[str] = []
    while True:
        try:
            got.append(next(pieces))
        except StopIteration as end:
            return got, end.value


def embeds_by_hand(model: LlavaModel, view: View, kept: list[int]) -> torch.Tensor:
    """(1, T', d): the stock embeddings of the whole prompt, the dropped tokens' columns cut out."""
    ids = view.input_ids
    image = ids[0] == model.hf.config.image_token_id
    embeds = model.hf.get_input_embeddings()(ids).clone()
    embeds[0, image] = model.hf.get_image_features(pixel_values=view.pixel_values).pooler_output[0]
    keep = ~image
    keep[image.nonzero().flatten()[sorted(kept)]] = True
    return embeds[:, keep]


def test_a_view_of_another_model_is_refused(
    tiny_model: LlavaModel, deep_model: LlavaModel, view: View
) -> None:
    reason = rf"encoded by {tiny_model.name} {tiny_model.revision}, and this model is deep-llava"
    assert deep_model.hf.config.text_config.hidden_size == view.tokens.features.shape[1]
    for call in (
        lambda: deep_model.answer(view),
        lambda: deep_model.answer_many([(view, None)]),
        lambda: deep_model.ask(view.picture, "What is it?"),
    ):
        with pytest.raises(ValueError, match=reason):
            call()


@pytest.mark.parametrize("question", QUESTIONS)
@torch.inference_mode()
def test_keeping_all_is_stock_generate(
    tiny_model: LlavaModel, picture: Picture, question: str
) -> None:
    view = tiny_model.ask(picture, question)
    mask = torch.ones_like(view.input_ids)
    inputs = {"input_ids": view.input_ids, "attention_mask": mask}
    answers = keep_all_as_stock(tiny_model, view, 24, **inputs, pixel_values=view.pixel_values)
    assert view.grid.n == 16 and all(answer.newline_tokens == 0 for answer in answers)


def test_first_logits_are_a_plain_float32_tensor(tiny_model: LlavaModel, view: View) -> None:
    logits = tiny_model.answer(view, max_new_tokens=1).first_logits
    assert logits.dtype == torch.float32 and not logits.is_inference()
    assert logits.shape == (tiny_model.hf.config.text_config.vocab_size,)


@pytest.mark.parametrize("kept", PICKS)
@torch.inference_mode()
def test_pruned_is_stock_generate_on_shortened_embeddings(
    tiny_model: LlavaModel, view: View, kept: list[int]
) -> None:
    embeds = embeds_by_hand(tiny_model, view, kept)
    mask = torch.ones(embeds.shape[:2], dtype=torch.long)
    expected = stock(tiny_model, inputs_embeds=embeds, attention_mask=mask)
    answer = tiny_model.answer(view, Selection(order=torch.tensor(kept)), max_new_tokens=20)
    assert list(answer.token_ids) == expected.sequences[0].tolist()
    torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-5, rtol=0)
    assert answer.visual_tokens == len(kept)
    assert answer.prompt_tokens == embeds.shape[1]
    assert answer.kept_per_layer == (len(kept),) * 3


def test_pruning_changes_what_the_model_knows(tiny_model: LlavaModel, view: View) -> None:
    whole = tiny_model.answer(view, max_new_tokens=1).first_logits
    pruned = tiny_model.answer(view, Selection(order=[0, 1]), max_new_tokens=1).first_logits
    assert (whole - pruned).abs().max() > 1e-2


@pytest.mark.parametrize("kept", [None, *PICKS])
def test_cache_bytes_are_the_arithmetic(
    tiny_model: LlavaModel, view: View, kept: list[int] | None
) -> None:
    selection = None if kept is None else Selection(order=kept)
    answer = tiny_model.answer(view, selection, max_new_tokens=5)
    text = tiny_model.hf.config.text_config
    head = text.hidden_size // text.num_attention_heads
    per_token = text.num_hidden_layers * 2 * text.num_key_value_heads * head * 4  # float32
    tokens = view.input_ids.shape[1] - 16 + (16 if kept is None else len(kept))
    assert answer.kv_cache_bytes == tokens * per_token
    assert answer.prefill_seconds > 0 and answer.decode_seconds > 0


def test_merged_rows_stand_in_for_picked_ones(tiny_model: LlavaModel, view: View) -> None:
    features = view.tokens.features
    copied = Selection(order=[9, 2, 4], features=features[[2, 4, 9]].clone())
    plain = Selection(order=[9, 2, 4])
    assert (
        tiny_model.answer(view, copied, max_new_tokens=8).token_ids
        == tiny_model.answer(view, plain, max_new_tokens=8).token_ids
    )
    merged = Selection(order=[9, 2, 4], features=features[:2] * 0.5 + features[8:10] * 0.5)
    answer = tiny_model.answer(view, merged, max_new_tokens=8)
    assert answer.visual_tokens == 2
    assert answer.prompt_tokens == view.input_ids.shape[1] - 14


def test_bad_arguments_are_refused_before_the_first_piece(
    tiny_model: LlavaModel, view: View
) -> None:
    with pytest.raises(ValueError, match=r"16.*0 to 15"):
        tiny_model.stream(view, Selection(order=[3, 16]))
    with pytest.raises(ValueError, match="rows of 32"):
        tiny_model.stream(view, Selection(order=[3], features=torch.zeros(1, 31)))
    name: Any = "spare"
    for longest in (0, True, name):
        with pytest.raises(ValueError, match="max_new_tokens"):
            tiny_model.stream(view, max_new_tokens=longest)
    with pytest.raises(ValueError, match=r"A str does not say which .* select\(view\.tokens"):
        tiny_model.stream(view, name)
    with pytest.raises(ValueError, match=r"A str does not say what is asked about\. Pass what"):
        tiny_model.stream(name)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_pieces_join_to_the_text(
    tiny_model: LlavaModel, picture: Picture, question: str
) -> None:
    view = tiny_model.ask(picture, question)
    pieces, answer = drain(tiny_model.stream(view, max_new_tokens=40))
    assert len(pieces) > 1 and all(pieces)
    whole = tiny_model.tokenizer.decode(
        answer.token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    assert "".join(pieces) == answer.text == whole.strip()
    assert answer.token_ids == tiny_model.answer(view, max_new_tokens=40).token_ids


def test_no_piece_holds_half_a_character(tiny_model: LlavaModel) -> None:
    text = "  a 漢字 🦊🦊  end.  "
    ids = tiny_model.tokenizer(text, add_special_tokens=False).input_ids
    assert len(ids) > len(text)  # the fox and the signs take several tokens each
    incremental = Text(tiny_model.tokenizer)
    pieces = [incremental.add(token) for token in ids]
    pieces.append(incremental.rest())
    assert "".join(pieces) == text.strip()
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert any("🦊" in piece for piece in pieces) and any("漢" in piece for piece in pieces)


def test_an_unfinished_character_is_shown_only_at_the_end(tiny_model: LlavaModel) -> None:
    ids = tiny_model.tokenizer("a🦊", add_special_tokens=False).input_ids[:-1]
    incremental = Text(tiny_model.tokenizer)
    assert "".join(incremental.add(token) for token in ids) == "a"
    assert set(incremental.rest()) == {"\N{REPLACEMENT CHARACTER}"}


def test_how_an_answer_ended(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = tiny_model.answer(view, max_new_tokens=12)
    assert (free.ended, len(free.token_ids)) == ("length", 12)
    third = free.token_ids[2]
    position = free.token_ids.index(third)
    for eos in (third, [third, 1]):
        monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", eos)
        for most in (12, position + 1):
            closed = tiny_model.answer(view, max_new_tokens=most)
            assert closed.ended == "end"
            assert closed.token_ids == free.token_ids[: position + 1]


def test_nothing_runs_once_a_stream_is_closed(tiny_model: LlavaModel, view: View) -> None:
    calls: list[int] = []
    with tiny_model.hf.register_forward_hook(lambda *_: calls.append(1)):
        pieces = tiny_model.stream(view, max_new_tokens=200)
        assert not calls  # not before the first piece is asked for
        next(pieces)
        before = len(calls)
        pieces.close()
        answer = tiny_model.answer(view, max_new_tokens=1)
    assert len(calls) == before + 1 and answer.token_ids


def test_a_paused_or_closed_stream_blocks_nobody(tiny_model: LlavaModel, view: View) -> None:
    expected = tiny_model.answer(view, max_new_tokens=6).token_ids
    paused = tiny_model.stream(view, max_new_tokens=30)
    next(paused)
    box: list[Answer] = []
    other = threading.Thread(
        target=lambda: box.append(tiny_model.answer(view, max_new_tokens=6)), daemon=True
    )
    other.start()
    other.join(30)
    assert box and box[0].token_ids == expected
    paused.close()
    assert tiny_model.answer(view, max_new_tokens=6).token_ids == expected


def test_a_failed_pass_frees_the_device(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("device lost")

    decoder = tiny_model.hf.model.language_model
    with decoder.register_forward_pre_hook(fail), pytest.raises(RuntimeError, match="device lost"):
        tiny_model.answer(view)
    assert tiny_model.answer(view, max_new_tokens=2).token_ids


def test_two_at_once_answer_as_if_alone(tiny_model: LlavaModel, picture: Picture) -> None:
    views = [tiny_model.ask(picture, question) for question in QUESTIONS[:2]]
    selections = [Selection(order=[1, 8, 3]), None]
    alone = [
        tiny_model.answer(v, s, max_new_tokens=30) for v, s in zip(views, selections, strict=True)
    ]
    assert alone[0].token_ids != alone[1].token_ids
    start = threading.Barrier(2)
    together: dict[int, list[tuple[list[str], Answer]]] = {0: [], 1: []}

    def visit(i: int) -> None:
        start.wait(30)
        for _ in range(3):
            stream = tiny_model.stream(views[i], selections[i], max_new_tokens=30)
            together[i].append(drain(stream))

    threads = [threading.Thread(target=visit, args=(i,), daemon=True) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for i in (0, 1):
        assert len(together[i]) == 3
        for pieces, answer in together[i]:
            assert answer.token_ids == alone[i].token_ids
            assert "".join(pieces) == alone[i].text
            assert torch.equal(answer.first_logits, alone[i].first_logits)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_on_a_gpu_in_half_precision(
    tiny_folder: Any,
    tmp_path: Path,
    photo: Image.Image,
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
) -> None:
    from spare_demo.models import load_model

    folder = tmp_path / "half"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("model*"))
    load_model(str(tiny_folder), device="cpu").hf.to(dtype).save_pretrained(folder)
    monkeypatch.setattr(number_format, "LARGE", 0)  # a small one would be in single precision
    model = load_model(str(folder), device="cuda")
    assert model.dtype == dtype
    view = model.encode(photo, QUESTIONS[0])
    assert view.tokens.features.dtype == dtype and view.tokens.features.is_cuda
    assert view.tokens.clip_image is not None and view.tokens.clip_image.dtype == torch.float32
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        expected = stock(  # cuDNN's attention rounds in other places
            model,
            16,
            input_ids=view.input_ids.cuda(),
            pixel_values=view.pixel_values.to("cuda", dtype),
            attention_mask=torch.ones_like(view.input_ids).cuda(),
        )
    answer = model.answer(view, max_new_tokens=16)
    assert list(answer.token_ids) == expected.sequences[0, view.input_ids.shape[1] :].tolist()
    assert model.answer(view, Selection(order=[4, 1]), max_new_tokens=4).visual_tokens == 2
