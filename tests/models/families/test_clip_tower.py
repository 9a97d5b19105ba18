"""What methods read of CLIP's tower: equal to the stock tower's own attention, made on demand."""

from __future__ import annotations

import weakref

import pytest
import torch
from PIL import Image
from transformers import CLIPVisionModel

from spare_demo.models import LlavaModel, Picture
from spare_demo.models.families.clip_model import block_inputs, clip_reads
from spare_demo.models.generate.passes import Passes
from spare_demo.tokens import VisualTokens

QUESTION = "What colour is the circle?"


@pytest.fixture(scope="module")
def eager(tiny_model: LlavaModel) -> CLIPVisionModel:
    """A stock tower of the same weights that computes every weight of its attention."""
    stock = tiny_model.hf.model.vision_tower
    config = type(stock.config).from_dict(stock.config.to_dict())
    config._attn_implementation = "eager"
    tower = CLIPVisionModel(config).eval()
    tower.load_state_dict(stock.state_dict())
    return tower


@pytest.mark.parametrize(("block", "place"), [(-1, 2), (-2, 1), (6, 0)])
@torch.no_grad()
def test_the_class_tokens_row_is_the_stock_towers(
    eager: CLIPVisionModel, picture: Picture, block: int, place: int
) -> None:
    stock = eager(picture.pixel_values, output_attentions=True).attentions[place]  # (1, h, 17, 17)
    row = picture.reads["cls_attention"](block)
    torch.testing.assert_close(row, stock[0, :, 0, 1:], atol=1e-6, rtol=1e-5)
    assert row.shape == (2, 16) and not row.is_inference()


@pytest.mark.parametrize("block", [-1, -2])
@torch.no_grad()
def test_keys_and_the_joined_row_are_those_of_the_blocks_projections(
    eager: CLIPVisionModel, picture: Picture, block: int
) -> None:
    seen: dict[str, torch.Tensor] = {}
    attention = eager.encoder.layers[block].self_attn
    for name in ("q_proj", "k_proj", "v_proj"):
        layer = getattr(attention, name)
        layer.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out[0]}))
    eager(picture.pixel_values)
    q, k = seen["q_proj"], seen["k_proj"]  # (17, 32)
    for field, expected in (
        ("vision_keys", k[1:]),
        ("vision_values", seen["v_proj"][1:]),
        ("class_queries", q[:1].expand(16, -1)),
    ):
        read = picture.reads[field](block)
        assert read.shape == (2, 16, 16)
        torch.testing.assert_close(read.transpose(0, 1).flatten(1), expected, atol=1e-5, rtol=1e-5)
    joined = torch.softmax(q[0] @ k.T / 32**0.5, dim=-1)[1:]
    row = picture.reads["cls_attention"](block, joined=True)
    torch.testing.assert_close(row, joined[None], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("block", "layer"), [(-1, 2), (-2, 1), (9, 0)])
@torch.no_grad()
def test_what_patches_receive_is_the_mean_of_the_stock_towers_columns(
    eager: CLIPVisionModel, picture: Picture, block: int, layer: int
) -> None:
    """Block 9 of 24 is the first of three."""
    stock = eager(picture.pixel_values, output_attentions=True).attentions[layer]  # (1, h, 17, 17)
    received = picture.reads["attention_received"](block)
    torch.testing.assert_close(received, stock[0].mean(dim=(0, 1))[1:], atol=1e-6, rtol=1e-5)
    assert received.shape == (16,) and not received.is_inference()


def test_a_block_of_24_lies_at_the_same_share_of_another_tower() -> None:
    assert block_inputs(24) == {-2, -3, -17, -20}
    assert block_inputs(3) == {-2, -3, -4}
    assert block_inputs(1) == {-2}  # it has no last but one


def test_another_block_is_refused(picture: Picture) -> None:
    with pytest.raises(ValueError, match="Block -3 is not kept"):
        picture.reads["vision_keys"](-3)


def test_the_projector_and_the_states_it_was_given(picture: Picture) -> None:
    made = picture.reads["project"](picture.reads["states"].double())
    torch.testing.assert_close(made, picture.features, atol=1e-5, rtol=1e-5)
    assert made.dtype == torch.float32 and not made.is_inference()


def test_class_states_are_the_towers_class_token(tiny_model: LlavaModel, picture: Picture) -> None:
    stock = tiny_model.hf.model.vision_tower(picture.pixel_values, output_hidden_states=[-2])
    torch.testing.assert_close(picture.reads["class_states"], stock.hidden_states[-2][:, 0])


def test_nothing_is_computed_before_it_is_asked_for_and_nothing_twice(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    calls: list[str] = []
    tower = tiny_model.hf.model.vision_tower
    layers = {"tower": tower, "keys": tower.encoder.layers[-1].self_attn.k_proj}
    hooks = [
        layer.register_forward_hook(lambda *_, name=name: calls.append(name))
        for name, layer in layers.items()
    ]
    try:
        view = tiny_model.encode(photo, QUESTION)
        assert calls == ["keys", "tower"]  # the pass that every picture has
        assert view.tokens.vision_keys is not None and view.tokens.cls_attention is not None
        for _ in range(2):
            view.tokens.vision_keys(-1)
        assert calls == ["keys", "tower", "keys"]
        for _ in range(2):
            view.tokens.cls_attention(-1)
            view.tokens.cls_attention(-1, joined=True)
        assert calls == ["keys", "tower", "keys", "keys", "keys"]
        tiny_model.ask(view.picture, "And now?").tokens.cls_attention(-1)  # type: ignore[misc]
        assert len(calls) == 5  # the same picture
    finally:
        for hook in hooks:
            hook.remove()


def test_views_look_by_their_own_class_token_in_the_order_of_the_tokens(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    """Two pictures as one of two views, its tokens in another order than view after view."""
    pictures = [tiny_model.look(photo), tiny_model.look(photo.rotate(90))]
    tower = tiny_model.hf.model.vision_tower
    with torch.no_grad():
        pixels = torch.cat([p.pixel_values for p in pictures])
        hidden = tower(pixels, output_hidden_states=[-3, -2]).hidden_states
    order = torch.randperm(32, generator=torch.Generator().manual_seed(0))
    states = hidden[-2][:, 1:].flatten(0, 1)[order]
    together = clip_reads(
        tower, tiny_model.hf.model.multi_modal_projector, Passes(torch.device("cpu")),
        {-3: hidden[-3], -2: hidden[-2]}, states, hidden[-2][:, 0], order,
    )  # fmt: skip
    for name in ("cls_attention", "vision_keys", "vision_values", "class_queries"):
        apart = torch.cat([p.reads[name](-1) for p in pictures], dim=1)[:, order]
        torch.testing.assert_close(together[name](-1), apart, atol=1e-5, rtol=1e-4)
    received = torch.cat([p.reads["attention_received"](-1) for p in pictures])[order]
    torch.testing.assert_close(together["attention_received"](-1), received, atol=1e-5, rtol=1e-4)
    view = order // 16
    tokens = VisualTokens(torch.cat([p.features for p in pictures])[order], view=view, **together)
    assert tokens.class_states is not None and len(tokens.class_states) == 2


def test_no_function_holds_on_to_what_it_was_made_from(tiny_model: LlavaModel) -> None:
    """An open comparison keeps the functions; what lay on a GPU would stay there with them."""
    hidden, states, classes = torch.zeros(1, 17, 32), torch.zeros(16, 32), torch.zeros(1, 32)
    given = weakref.WeakSet([states, classes])
    model = tiny_model.hf.model
    reads = clip_reads(
        model.vision_tower, model.multi_modal_projector, Passes(torch.device("cpu")),
        dict.fromkeys(block_inputs(3), hidden), states, classes,
    )  # fmt: skip
    functions = [value for value in reads.values() if callable(value)]
    del states, classes, reads
    assert functions and not given


def test_the_model_says_what_it_can_fill(tiny_model: LlavaModel, photo: Image.Image) -> None:
    mute = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mute")
    assert mute.supplies == mute.reads | {"words"}  # its language model's
    for model in (mute, tiny_model):
        tokens = model.encode(photo, QUESTION).tokens
        filled = {name for name, value in vars(tokens).items() if value is not None}
        assert model.supplies == filled - {"features", "together", "by_words"}


def test_the_sentence_is_cut_where_clip_cuts_it(tiny_model: LlavaModel, photo: Image.Image) -> None:
    tower = tiny_model.text_tower
    assert tower is not None
    short = tiny_model.encode(photo, QUESTION).tokens
    assert short.clip_sentence is not None and short.clip_text is not None
    torch.testing.assert_close(short.clip_sentence(), short.clip_text[0])
    assert not short.clip_sentence().is_inference()
    long = QUESTION * 12
    ids = tower._ids(long)
    cut = torch.tensor([[*ids[:76], ids[-1]]])
    with torch.inference_mode():
        expected, _ = tower.text(cut)
    sentence = tiny_model.encode(photo, long).tokens.clip_sentence
    assert len(ids) > 77 and sentence is not None
    torch.testing.assert_close(sentence(), expected[0])
    assert tiny_model.encode(photo, "").tokens.clip_sentence is None
