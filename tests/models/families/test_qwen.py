"""Qwen2.5-VL: a size of its own, rotary positions of three axes, and nothing else than stock."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from stock import keep_all_as_stock, noise, stock

from spare_demo import PRUNERS, Selection
from spare_demo.comparison.pipeline import compare
from spare_demo.images.load import PictureError
from spare_demo.models import ModelError, View
from spare_demo.models.families.qwen import QwenModel

QUESTION = "What colour is the circle?"
SIZES = [(90, 60), (60, 90), (56, 56), (57, 211), (2000, 10), (3, 7), (1, 1), (640, 480)]


@pytest.fixture(scope="module")
def view(tiny_qwen: QwenModel) -> View:
    return tiny_qwen.encode(noise((200, 120)), QUESTION)


@pytest.mark.parametrize("size", SIZES)
def test_keeping_all_is_stock_generate(tiny_qwen: QwenModel, size: tuple) -> None:
    view = tiny_qwen.encode(noise(size), QUESTION)
    inputs = tiny_qwen.processor(images=view.photo, text=view.prompt, return_tensors="pt")
    assert torch.equal(view.input_ids, inputs.input_ids)
    assert torch.equal(view.pixel_values, inputs.pixel_values)
    answers = keep_all_as_stock(tiny_qwen, view, **inputs)
    assert all(answer.newline_tokens == 0 for answer in answers)


@pytest.mark.parametrize("kept", [[0], [7, 3, 26], list(range(0, 28, 2))])
@torch.inference_mode()
def test_pruned_is_the_stock_model_fed_kept_embeddings_and_their_positions(
    tiny_qwen: QwenModel, view: View, kept: list[int]
) -> None:
    hf, ids = tiny_qwen.hf, view.input_ids
    inputs = tiny_qwen.processor(images=view.photo, text=view.prompt, return_tensors="pt")
    image = ids[0] == hf.config.image_token_id
    embeds = hf.get_input_embeddings()(ids).clone()
    embeds[0, image] = hf.get_image_features(
        inputs.pixel_values, inputs.image_grid_thw
    ).pooler_output[0]
    positions, _ = hf.model.get_rope_index(
        ids, mm_token_type_ids=inputs.mm_token_type_ids, image_grid_thw=inputs.image_grid_thw
    )
    keep = ~image
    keep[image.nonzero().flatten()[sorted(kept)]] = True
    expected = stock(
        tiny_qwen,
        inputs_embeds=embeds[:, keep],
        position_ids=positions[:, :, keep],
        attention_mask=torch.ones(1, int(keep.sum()), dtype=torch.long),
    )
    answer = tiny_qwen.answer(view, Selection(kept), max_new_tokens=20)
    assert list(answer.token_ids) == expected.sequences[0].tolist()
    torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-5, rtol=0)
    assert (answer.visual_tokens, answer.prompt_tokens) == (len(kept), int(keep.sum()))


@torch.inference_mode()
def test_dropped_tokens_are_as_if_masked_in_the_whole_prompt(
    tiny_qwen: QwenModel, view: View
) -> None:
    """Positions stand as they stood: the same as hiding the dropped columns from all others."""
    hf, kept = tiny_qwen.hf, [2, 11, 19]
    inputs = tiny_qwen.processor(images=view.photo, text=view.prompt, return_tensors="pt")
    image = view.input_ids[0] == hf.config.image_token_id
    seen = ~image
    seen[image.nonzero().flatten()[kept]] = True
    length = len(seen)
    mask = torch.ones(length, length, dtype=torch.bool).tril() & seen
    mask |= torch.eye(length, dtype=torch.bool)
    given = {**inputs, "attention_mask": {"full_attention": mask[None, None]}}
    positions, _ = hf.model.get_rope_index(
        view.input_ids,
        mm_token_type_ids=inputs.mm_token_type_ids,
        image_grid_thw=inputs.image_grid_thw,
    )
    expected = hf(**given, position_ids=positions).logits[0, -1]
    answer = tiny_qwen.answer(view, Selection(kept), max_new_tokens=1)
    torch.testing.assert_close(answer.first_logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", SIZES)
def test_every_token_is_28_input_pixels_and_lies_on_the_photo(
    tiny_qwen: QwenModel, size: tuple
) -> None:
    grid = tiny_qwen.look(noise(size)).grid.parts[0]
    assert grid.patch == 28 and 1 <= grid.n <= 60
    assert grid.shift == (0.0, 0.0)
    assert grid.scale == pytest.approx((grid.cols * 28 / size[0], grid.rows * 28 / size[1]))
    assert float(grid.inside.min()) > 1 - 1e-9


def test_tokens_lie_where_the_pixels_come_from(tiny_qwen: QwenModel) -> None:
    """A photo with one bright patch: the token there is given the bright pixels."""
    for token in (0, 9, 27):
        photo = Image.new("RGB", (196, 112))
        column, row = token % 7, token // 7
        photo.paste((255, 255, 255), (column * 28, row * 28, column * 28 + 28, row * 28 + 28))
        picture = tiny_qwen.look(photo)
        assert (picture.grid.rows, picture.grid.cols) == (4, 7)
        x0, y0, x1, y1 = picture.grid.boxes[token].tolist()
        assert (x0, y0, x1, y1) == (column * 28, row * 28, column * 28 + 28, row * 28 + 28)
        # Rows of pixels come in blocks of two by two patches; a block is a token.
        brightness = picture.pixel_values.view(28, -1).mean(dim=1)
        assert int(brightness.argmax()) == token


def test_too_long_a_strip_is_refused_with_the_limit(tiny_qwen: QwenModel) -> None:
    assert tiny_qwen.look(noise((2000, 10))).grid.n >= 1
    with pytest.raises(PictureError, match="at most 200 times as long as wide"):
        tiny_qwen.look(noise((2001, 10)))


@pytest.mark.parametrize("name", ["fastv", "dart"])
def test_pruning_inside_keeps_its_positions(tiny_qwen: QwenModel, view: View, name: str) -> None:
    n = view.tokens.n
    whole = tiny_qwen.answer(view, None, max_new_tokens=6)
    same = tiny_qwen.answer(view, PRUNERS[name].plan(view, n), max_new_tokens=6)  # type: ignore[attr-defined]
    assert same.token_ids == whole.token_ids
    torch.testing.assert_close(same.first_logits, whole.first_logits, atol=1e-5, rtol=0)
    plan = PRUNERS[name].plan(view, n // 2)  # type: ignore[attr-defined]
    assert tiny_qwen.answer(view, plan, max_new_tokens=3).kept_per_layer == plan.per_layer


def test_methods_with_text_run_in_their_text_free_form(
    tiny_qwen: QwenModel, photo: Image.Image
) -> None:
    result = compare(tiny_qwen, photo, QUESTION, ("spare", "cdpruner"), 3, 2)
    assert [record.name for record in result.methods.values()] == [
        "spare-reconstruction",
        "cdpruner-diversity",
    ]
    assert result.relevance is None


def test_merged_rows_stand_at_their_largest_source(tiny_qwen: QwenModel, view: View) -> None:
    """A merged row that is one patch is that patch, position and all."""
    kept = [4, 17]
    sources = torch.zeros(2, view.grid.n)
    sources[0, 4] = sources[1, 17] = 1.0
    merged = Selection(kept, features=view.tokens.features[kept].clone(), sources=sources)
    plain = tiny_qwen.answer(view, Selection(kept), max_new_tokens=6)
    assert tiny_qwen.answer(view, merged, max_new_tokens=6).token_ids == plain.token_ids


def test_stock_calls_in_between_change_nothing(tiny_qwen: QwenModel, view: View) -> None:
    """The stock model keeps an offset of the last picture; our positions never ask for it."""
    before = tiny_qwen.answer(view, Selection([1, 5]), max_new_tokens=6).token_ids
    other = tiny_qwen.encode(noise((400, 20)), "Which?")
    inputs = tiny_qwen.processor(images=other.photo, text=other.prompt, return_tensors="pt")
    stock(tiny_qwen, **inputs)
    assert tiny_qwen.answer(view, Selection([1, 5]), max_new_tokens=6).token_ids == before


def test_without_a_chat_template_it_is_refused(
    tiny_qwen: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_qwen.processor, "chat_template", None)
    with pytest.raises(ModelError, match="chat template"):
        QwenModel(tiny_qwen.hf, tiny_qwen.processor, None, name="other")
