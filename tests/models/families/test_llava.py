"""Looking and asking: one vision pass, the stock pixels, the stock prompt, CLIP's own patches."""

from __future__ import annotations

from pathlib import Path

import open_clip
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, CLIPImageProcessor

from spare_demo.images.load import PictureError
from spare_demo.models import LlavaModel, ModelError, Picture
from spare_demo.relevance import RelevanceOptions

QUESTION = "What colour is the circle?"


def test_a_picture_is_seen_once_whatever_is_asked(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    calls: list[str] = []
    tower = tiny_model.hf.model.vision_tower
    with tower.register_forward_hook(lambda *_: calls.append("tower")):
        picture = tiny_model.look(photo)
        assert calls == ["tower"]
        for question in (QUESTION, "How many stars?", ""):
            view = tiny_model.ask(picture, question)
            tiny_model.answer(view, max_new_tokens=2)
        for layer in (-1, -2):
            tiny_model.ask(picture, QUESTION, RelevanceOptions(layer=layer, text="tokens"))
        assert calls == ["tower"]


def levels_of(picture: Picture, model: LlavaModel) -> torch.Tensor:
    """(3, S, S) what the tower is given, 0..255."""
    images = model.processor.image_processor
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (images.image_mean, images.image_std))
    return (picture.pixel_values[0] * std + mean) * 255


@pytest.mark.parametrize("aspect", ["pad", "crop"])
def test_pixels_are_those_of_the_stock_processor(
    tiny_model: LlavaModel, photo: Image.Image, aspect: str
) -> None:
    """Given the square we fitted, stock processing changes nothing but the numbers' scale."""
    picture = tiny_model.look(photo, aspect)  # type: ignore[arg-type]
    levels = levels_of(picture, tiny_model).round().to(torch.uint8)
    square = Image.fromarray(levels.permute(1, 2, 0).numpy())
    stock = tiny_model.processor.image_processor
    assert isinstance(stock, CLIPImageProcessor)
    expected = stock(square, return_tensors="pt").pixel_values
    torch.testing.assert_close(picture.pixel_values, expected, atol=1e-6, rtol=0)
    assert picture.pixel_values.shape == (1, 3, 56, 56)


def test_pixels_while_another_thread_makes_a_model(
    tiny_model: LlavaModel, photo: Image.Image, request: pytest.FixtureRequest
) -> None:
    expected = tiny_model.look(photo).pixel_values
    request.getfixturevalue("half_by_default")
    assert torch.equal(tiny_model.look(photo).pixel_values, expected)


def test_crop_is_what_stock_processing_does_to_the_photo(
    tiny_model: LlavaModel, photo: Image.Image, tiny_folder: Path
) -> None:
    picture = tiny_model.look(photo, "crop")
    pillow = AutoProcessor.from_pretrained(tiny_folder, backend="pil").image_processor
    expected = pillow(photo, return_tensors="pt").pixel_values
    torch.testing.assert_close(picture.pixel_values, expected, atol=1e-6, rtol=0)


def test_padding_is_the_mean_colour(tiny_model: LlavaModel, photo: Image.Image) -> None:
    picture = tiny_model.look(photo)
    assert picture.photo.size == photo.size == picture.grid.photo_size
    top = levels_of(picture, tiny_model)[:, 0]
    assert top.round().unique(dim=1).flatten().tolist() == [122.0, 116.0, 104.0]
    assert picture.grid.inside[0] < 1  # the first row of tokens looks at padding


@torch.inference_mode()
def test_features_are_the_stock_models(tiny_model: LlavaModel, picture: Picture) -> None:
    stock = tiny_model.hf.get_image_features(pixel_values=picture.pixel_values)
    assert torch.equal(picture.features, stock.pooler_output[0])
    assert torch.equal(picture.hidden[-2], stock.hidden_states[-2][0, 1:])
    assert torch.equal(picture.hidden[-1], stock.last_hidden_state[0, 1:])
    assert picture.features.shape == (16, 32) and set(picture.hidden) == {-2, -1}
    assert picture.encode_seconds > 0


@pytest.mark.parametrize("layer", [-1, -2])
@torch.inference_mode()
def test_the_two_towers_agree(
    tiny_model: LlavaModel, picture: Picture, tiny_folder: Path, layer: int
) -> None:
    """LLaVA's states through our norm and projection are open_clip's own patch embeddings."""
    reference = open_clip.create_model(f"local-dir:{tiny_folder / 'clip'}").eval()
    states = reference.visual.forward_intermediates(
        picture.pixel_values, output_fmt="NLC", normalize_intermediates=True
    )["image_intermediates"][layer][0]
    view = tiny_model.ask(picture, QUESTION, RelevanceOptions(layer=layer))
    assert view.tokens.clip_image is not None
    torch.testing.assert_close(
        view.tokens.clip_image, states @ reference.visual.proj, atol=1e-4, rtol=0
    )


def test_what_is_handed_out_is_plain_tensors(tiny_model: LlavaModel, picture: Picture) -> None:
    """Not inference-mode ones, which refuse arithmetic in place and gradients."""
    tokens = tiny_model.ask(picture, QUESTION).tokens
    for tensor in (picture.features, *picture.hidden.values(), tokens.clip_image, tokens.clip_text):
        assert tensor is not None
        assert not tensor.is_inference() and not tensor.requires_grad


def test_the_prompt_is_the_one_of_llava_1_5(tiny_model: LlavaModel, picture: Picture) -> None:
    view = tiny_model.ask(picture, QUESTION)
    assert view.prompt == f"USER: <image>\n{QUESTION} ASSISTANT:"
    stock = tiny_model.processor(images=picture.photo, text=view.prompt, return_tensors="pt")
    assert torch.equal(view.input_ids, stock.input_ids)
    assert int((view.input_ids == tiny_model.hf.config.image_token_id).sum()) == 16


TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>|{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}"
)


@pytest.mark.parametrize("owner", ["processor", "tokenizer"])
def test_a_checkpoints_own_template_is_used(
    tiny_model: LlavaModel, picture: Picture, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getattr(tiny_model, owner), "chat_template", TEMPLATE)
    view = tiny_model.ask(picture, QUESTION)
    between = "|" if owner == "processor" else "\n"
    assert view.prompt == f"<s>[user]<image>{between}{QUESTION}[answer]"
    assert int((view.input_ids == tiny_model.tokenizer.bos_token_id).sum()) == 1  # not doubled
    assert int((view.input_ids == tiny_model.hf.config.image_token_id).sum()) == 16


def test_a_template_without_a_place_for_the_picture_is_refused(
    tiny_model: LlavaModel, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.processor, "chat_template", "no picture here")
    with pytest.raises(ModelError, match="template"):
        tiny_model.ask(picture, QUESTION)


@pytest.mark.parametrize("question", ["", "  \n"])
def test_without_a_question_there_is_a_prompt_but_no_text(
    tiny_model: LlavaModel, picture: Picture, question: str
) -> None:
    view = tiny_model.ask(picture, question)
    assert view.tokens.clip_text is None and view.tokens.clip_image is not None
    assert (view.text_stretches, view.text_words) == (0, ())
    assert view.prompt == "USER: <image>\n ASSISTANT:"
    assert tiny_model.answer(view, max_new_tokens=2).token_ids


def test_typing_the_image_token_adds_no_picture(tiny_model: LlavaModel, picture: Picture) -> None:
    view = tiny_model.ask(picture, "Is <image> here? <ima<image>ge>")
    assert view.prompt.count("<image>") == 1
    assert int((view.input_ids == tiny_model.hf.config.image_token_id).sum()) == 16
    assert view.question == "Is <image> here? <ima<image>ge>"


def test_text_read_by_stretch_and_by_token(tiny_model: LlavaModel, picture: Picture) -> None:
    tower = tiny_model.text_tower
    assert tower is not None
    stretches = tiny_model.ask(picture, QUESTION)
    tokens = tiny_model.ask(picture, QUESTION, RelevanceOptions(text="tokens"))
    assert stretches.tokens.clip_text is not None and tokens.tokens.clip_text is not None
    assert stretches.tokens.clip_text.shape == (1, 16) and stretches.text_words == ()
    vectors, words = tower.encode_tokens(QUESTION)
    assert tokens.text_words == tuple(words) and len(words) > 5
    torch.testing.assert_close(tokens.tokens.clip_text, vectors, atol=1e-6, rtol=0)
    assert stretches.text_stretches == tokens.text_stretches == 1
    assert stretches.relevance_seconds > 0


def test_a_question_of_several_stretches_says_so(tiny_model: LlavaModel, picture: Picture) -> None:
    question = "How many small green triangles stand above the yellow star? " * 8
    for text in ("stretches", "tokens"):
        view = tiny_model.ask(picture, question, RelevanceOptions(text=text))  # type: ignore[arg-type]
        assert view.text_stretches > 1
    stretches = tiny_model.ask(picture, question)
    assert stretches.tokens.clip_text is not None
    assert len(stretches.tokens.clip_text) == stretches.text_stretches


def test_a_question_beyond_the_models_memory_is_refused(
    tiny_model: LlavaModel, picture: Picture
) -> None:
    with pytest.raises(ValueError, match=r"too long.*room for 512.*Shorten"):
        tiny_model.ask(picture, "why? " * 2000)


def test_the_relevance_layer_matters_and_is_checked(
    tiny_model: LlavaModel, picture: Picture
) -> None:
    second, last = (
        tiny_model.ask(picture, QUESTION, RelevanceOptions(layer=layer)).tokens.clip_image
        for layer in (-2, -1)
    )
    assert second is not None and last is not None and not torch.allclose(second, last)
    with pytest.raises(ValueError, match="-2 or -1"):
        tiny_model.ask(picture, QUESTION, RelevanceOptions(layer=-3))


def test_a_model_without_a_text_side_still_answers(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    mute = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mute")
    view = mute.encode(photo, QUESTION)
    assert view.tokens.clip_image is None and view.tokens.clip_text is None
    assert mute.answer(view, max_new_tokens=3).token_ids


def test_encode_is_look_then_ask(tiny_model: LlavaModel, photo: Image.Image) -> None:
    view = tiny_model.encode(photo, QUESTION, "crop", RelevanceOptions(layer=-1))
    apart = tiny_model.ask(tiny_model.look(photo, "crop"), QUESTION, RelevanceOptions(layer=-1))
    assert torch.equal(view.pixel_values, apart.pixel_values)
    assert view.tokens.clip_image is not None and apart.tokens.clip_image is not None
    assert torch.equal(view.tokens.clip_image, apart.tokens.clip_image)
    assert view.grid.boxes.shape == (16, 4) and view.photo.size == photo.size


def test_a_bad_picture_is_refused(tiny_model: LlavaModel) -> None:
    with pytest.raises(PictureError):
        tiny_model.look(b"no picture")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vision_feature_select_strategy": "full"}, "class token"),
        ({"image_token_index": 0}, "image token"),
    ],
)
def test_checkpoints_of_another_kind_are_refused(
    tiny_model: LlavaModel,
    change: dict[str, object],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in change.items():
        monkeypatch.setattr(tiny_model.hf.config, name, value)
    with pytest.raises(ModelError, match=sentence):
        LlavaModel(tiny_model.hf, tiny_model.processor, None, name="other")
