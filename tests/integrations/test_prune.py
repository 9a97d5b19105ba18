"""Pruned inputs of stock models: what generate makes of them, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
import transformers
from PIL import Image
from stock import noise
from transformers import (
    AutoProcessor,
    BitsAndBytesConfig,
    LlavaForConditionalGeneration,
    TextIteratorStreamer,
)

from spare_demo import PRUNERS, Selection, VisualTokens, compare, prune
from spare_demo.integrations.prune import PrunedInputs
from spare_demo.models import Model, TextTower
from spare_demo.models.loading import text_tower
from spare_demo.pruners.uniform import Uniform
from spare_demo.relevance import RelevanceOptions
from spare_demo.threads import memoize

ROOT = Path(__file__).parents[2]
QUESTIONS = ("What colour is the circle?", "How many stars?", "Which word?", "Is it red?")
SIZES = ((90, 60), (60, 90), (57, 111), (168, 55))
OWN = {"tiny": "crop", "tiny_next": "any", "tiny_qwen": "native"}
"""How the stock processor of each family fits a picture, as `compare` calls it."""


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

    def prune(self, inputs: Any, **given: Any) -> PrunedInputs:
        return prune(self.model, self.processor, inputs, **given)

    def tokens(self, inputs: Any, **settings: Any) -> list[list[int]]:
        """The new tokens of each prompt."""
        start = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
        settings = {"max_new_tokens": 8, "do_sample": False, **settings}
        return self.model.generate(**inputs, **settings)[:, start:].tolist()


@pytest.fixture(scope="module")
def stocks(request: pytest.FixtureRequest) -> Callable[[str], Stock]:
    """Of each family one for all tests, which leave it as it is."""

    @functools.cache
    def load(name: str) -> Stock:
        ours = request.getfixturevalue("tiny_model" if name == "tiny" else name)
        return Stock(name, request.getfixturevalue(f"{name}_folder"), ours)

    return load


@pytest.fixture(params=OWN)
def stock(request: pytest.FixtureRequest, stocks: Callable[[str], Stock]) -> Stock:
    return stocks(request.param)


@pytest.fixture
def llava(stocks: Callable[[str], Stock]) -> Stock:
    return stocks("tiny")


@pytest.fixture
def qwen(stocks: Callable[[str], Stock]) -> Stock:
    return stocks("tiny_qwen")


def test_keeping_all_is_the_stock_call(stock: Stock) -> None:
    pictures = [noise(size) for size in SIZES]
    inputs = stock.inputs(pictures, QUESTIONS)
    pruned = stock.prune(inputs, method="divprune", budget="100%", question=QUESTIONS)
    assert stock.tokens(pruned) == stock.tokens(inputs)
    assert pruned["attention_mask"].tolist() == inputs["attention_mask"].tolist()


def test_a_batch_is_its_prompts_one_by_one(stock: Stock) -> None:
    pictures = [noise(size) for size in SIZES]
    given: dict[str, Any] = {"method": "spare", "budget": "25%"}
    together = stock.prune(stock.inputs(pictures, QUESTIONS), question=QUESTIONS, **given)
    alone = [
        stock.prune(stock.inputs([p], [q]), question=q, **given)
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
        pruned = stock.prune(inputs, method=name, budget="30%", question=question, seed=3)
        assert pruned.selections[0].order.tolist() == result.selections[name].order.tolist(), name
        answer = result.answers[name]
        assert pruned["inputs_embeds"].shape[1] == answer.prompt_tokens, name
        assert stock.tokens(pruned, max_new_tokens=6)[0] == list(answer.token_ids), name


@pytest.mark.parametrize("method", ["uniform", "visionzip"])
def test_original_positions_are_those_of_model_answer(
    stock: Stock, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a batch, with beams, and where the caller's settings switch the cache off."""
    if stock.ours.reason_against(PRUNERS[method]):
        method = "uniform"
    pictures = [noise(size) for size in SIZES]
    inputs = stock.inputs(pictures, QUESTIONS)
    given: dict[str, Any] = {"method": method, "budget": "25%", "positions": "original"}
    pruned = stock.prune(inputs, **given)
    expected = []
    for picture, text in zip(pictures, QUESTIONS, strict=True):
        view = stock.ours.encode(picture, text, OWN[stock.name])  # type: ignore[arg-type]
        prompt = stock.inputs([picture], [text])["input_ids"]
        view = dataclasses.replace(view, input_ids=prompt)
        kept = PRUNERS[method].select(view.tokens, round(view.tokens.n / 4))
        expected.append(list(stock.ours.answer(view, kept, 8, "original").token_ids))
    end = stock.processor.tokenizer.eos_token_id
    answers = [row[: row.index(end) + 1] if end in row else row for row in stock.tokens(pruned)]
    assert answers == expected
    alone = stock.prune(stock.inputs(pictures[:1], QUESTIONS[:1]), **given)
    beams = stock.tokens(alone, num_beams=3)
    monkeypatch.setattr(stock.model.generation_config, "use_cache", False)
    assert stock.tokens(alone)[0][: len(expected[0])] == expected[0]
    assert stock.tokens(alone, num_beams=3) == beams
    every = stock.prune(inputs, **given | {"budget": "100%"})
    if method == "uniform":  # else the merged rows of a whole picture are its tokens no more
        assert stock.tokens(every) == stock.tokens(inputs)


@pytest.mark.parametrize(
    "settings",
    [{"num_beams": 3}, {"do_sample": True, "temperature": 1.5, "num_return_sequences": 2}],
    ids=["beams", "samples"],
)
@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_beams_samples_and_penalties_are_those_of_the_stock_call(
    stock: Stock, settings: dict[str, Any], penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock.model.generation_config, "repetition_penalty", penalty)
    inputs = stock.inputs([noise((90, 60)), noise((60, 90))], ["Which word?"] * 2)
    pruned = stock.prune(inputs, method="uniform", budget="100%")
    answers = []
    for each in (inputs, pruned):
        torch.manual_seed(1)
        answers.append(stock.tokens(each, **settings))
    assert answers[0] == answers[1]
    assert ("logits_processor" in pruned) == (penalty != 1.0)


def test_the_default_device_of_a_program_changes_nothing(stock: Stock) -> None:
    inputs, text = stock.inputs([noise((90, 60))], ["Which word?"]), "Which word?"
    expected = stock.prune(inputs, budget=3, question=text)
    result = compare(stock.ours, noise((90, 60)), text, budget=3, max_new_tokens=2)
    with torch.device("meta"):  # as torch.set_default_device("cuda") in a script
        pruned = stock.prune(inputs, budget=3, question=text)
        again = compare(stock.ours, noise((90, 60)), text, budget=3, max_new_tokens=2)
    assert torch.equal(pruned["inputs_embeds"], expected["inputs_embeds"])
    for label, answer in result.answers.items():
        assert again.answers[label].token_ids == answer.token_ids


def test_inputs_can_be_saved_and_hold_no_model(
    stock: Stock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stock.model.generation_config, "repetition_penalty", 3.0)
    inputs = stock.inputs([noise((90, 60))], ["Which word?"])
    pruned = stock.prune(inputs, method="uniform", budget=3)
    torch.save(pruned, tmp_path / "pruned.pt")
    assert (tmp_path / "pruned.pt").stat().st_size < 50_000
    loaded = torch.load(tmp_path / "pruned.pt", weights_only=False)
    assert loaded.methods == ["uniform"] and stock.tokens(loaded) == stock.tokens(pruned)


def test_a_streamer_gets_the_words_of_the_answer(stock: Stock) -> None:
    inputs = stock.inputs([noise((90, 60))], ["Which word?"])
    pruned = stock.prune(inputs, method="uniform", budget=3)
    streamer = TextIteratorStreamer(stock.processor.tokenizer)
    tokens = stock.tokens(pruned, streamer=streamer)[0]
    assert "".join(streamer) == stock.processor.tokenizer.decode(tokens)


def test_nothing_stays_behind_on_the_model(stock: Stock, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(f"{stock.name}_folder")
    stock = Stock(stock.name, folder, stock.ours)  # one that no other test has pruned

    def snapshot() -> list[Any]:
        parts = [
            (name, sorted(vars(part)), part.training, len(part._forward_hooks), part.forward)
            for name, part in stock.model.named_modules()
        ]
        weights = {name: value.clone() for name, value in stock.model.state_dict().items()}
        settings = stock.model.config.to_dict(), stock.model.generation_config.to_dict()
        return [parts, settings, getattr(stock.model.model, "rope_deltas", None), weights]

    inputs = stock.inputs([noise((90, 60))], ["Which word?"])
    stock.tokens(inputs)  # transformers leaves hooks on a tower when it first reads its states
    given = {key: value.clone() for key, value in inputs.items()}
    *before, weights = snapshot()
    stock.prune(inputs, budget=3, question="Which word?")
    *after, weights_after = snapshot()
    assert before == after and weights.keys() == weights_after.keys()
    assert all(torch.equal(value, weights_after[name]) for name, value in weights.items())
    assert given.keys() == inputs.keys()
    assert all(torch.equal(value, inputs[key]) for key, value in given.items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_model_spread_by_a_device_map(
    stock: Stock, dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(f"{stock.name}_folder")
    model = type(stock.model).from_pretrained(folder, dtype=dtype, device_map="auto")
    inputs = stock.inputs([noise(size) for size in SIZES], QUESTIONS)
    pruned = prune(model, stock.processor, inputs, budget="100%", question=QUESTIONS)
    assert pruned["inputs_embeds"].dtype == dtype
    start = inputs["input_ids"].shape[1]
    expected = model.generate(**inputs, max_new_tokens=4, do_sample=False)[:, start:]
    assert torch.equal(model.generate(**pruned, max_new_tokens=4, do_sample=False), expected)


def test_a_callers_autocast_changes_no_picks_of_a_half_precision_model(
    stock: Stock, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(f"{stock.name}_folder")
    model = type(stock.model).from_pretrained(folder, dtype=torch.bfloat16)
    inputs = stock.inputs([noise((90, 60))], ["Which word?"])
    for name, method in PRUNERS.items():
        if method.inside or stock.ours.reason_against(method):
            continue
        given: dict[str, Any] = {"method": name, "budget": 4, "question": "Which word?"}
        plain = prune(model, stock.processor, inputs, **given).selections[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            picks = prune(model, stock.processor, inputs, **given).selections[0]
        assert picks.order.tolist() == plain.order.tolist(), name


def test_each_picture_of_a_batch_is_looked_at_in_its_own_views(
    tiny_next_folder: Path, tiny_next: Model
) -> None:
    """The processor fills all of a batch up to the most views."""
    stock = Stock("tiny_next", tiny_next_folder, tiny_next)
    views: list[int] = []
    stock.model.model.vision_tower.register_forward_pre_hook(
        lambda tower, given: views.append(len(given[0]))
    )
    inputs = stock.inputs([noise((168, 55)), noise((112, 112))], ["Which word?"] * 2)
    assert inputs["pixel_values"].shape[1] == 5
    stock.prune(inputs, method="uniform", budget=3)
    assert views == [4, 5]


# --- relevance's text side ---


def test_the_text_side_is_read_when_a_method_needs_it_and_once(
    llava: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    from_folder = TextTower.from_folder

    def spy(folder: Path) -> TextTower:
        read.append(folder)
        return from_folder(folder)

    monkeypatch.setattr(TextTower, "from_folder", spy)
    anew = memoize(text_tower.shared_text_side.__wrapped__)
    monkeypatch.setattr(text_tower, "shared_text_side", anew)
    inputs = llava.inputs([noise((90, 60))], ["Which word?"])
    for method, question in (("divprune", "Which word?"), ("spare", None), ("spare", " ")):
        llava.prune(inputs, method=method, budget=3, question=question)
    assert read == []
    for method in ("spare", "cdpruner"):
        found = llava.prune(inputs, method=method, budget=3, question="Which word?")
        assert found.methods == [method]
    assert [folder.name for folder in read] == ["clip"]


def test_by_words_every_model_compares_and_no_text_side_is_read(
    stock: Stock, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spare_demo.integrations.prune.text_side_of_model", None)
    by, question = RelevanceOptions(guidance_text="words"), QUESTIONS[0]
    view = stock.ours.encode(photo, question, OWN[stock.name], by)
    inputs = stock.processor(images=photo, text=view.prompt, return_tensors="pt")
    given: dict[str, Any] = {"question": question, "budget": 4, "guidance_text": "words"}
    for name in ("spare", "normal-relevance"):
        pruned = stock.prune(inputs, method=name, **given)
        assert (pruned.methods, pruned.guidance_text) == ([name], "words")
        expected = PRUNERS[name].select(view.tokens, 4)
        assert pruned.selections[0].order.tolist() == expected.order.tolist(), name


def test_a_text_side_that_is_given_is_used(llava: Stock, tiny_folder: Path) -> None:
    inputs = llava.inputs([noise((90, 60))], ["Which word?"])
    given: dict[str, Any] = {"method": "normal-relevance", "budget": 5, "question": "Which word?"}
    own = llava.prune(inputs, **given).selections[0]
    tower = TextTower.from_folder(tiny_folder / "clip")
    same = llava.prune(inputs, text=tower, **given).selections[0]
    assert same.order.tolist() == own.order.tolist()
    with torch.no_grad():
        tower.proj.neg_()  # what was most like the question is now least like it
    other = llava.prune(inputs, text=tower, **given).selections[0]
    assert set(other.order.tolist()).isdisjoint(own.order.tolist())


def test_without_a_question_the_text_free_form_runs_and_is_named(
    llava: Stock, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = llava.inputs([noise((90, 60)), noise((60, 90))], ["Which word?"] * 2)
    found = llava.prune(inputs, budget=4, question=["Which word?", ""])
    assert found.methods == ["spare", "spare-reconstruction"]
    assert "spare-reconstruction ran in the place of spare: it needs a question." in caplog.text
    caplog.clear()
    assert llava.prune(inputs, budget=4).methods == ["spare-reconstruction"] * 2
    assert "spare-reconstruction ran in the place of spare: it needs a question." in caplog.text
    plain = llava.prune(inputs, method="spare-reconstruction", budget=4)
    assert found.selections[1].order.tolist() == plain.selections[1].order.tolist()


@dataclasses.dataclass(frozen=True)
class Biased(Uniform):
    """A method of a caller's own whose rows have a bias."""

    merges = True

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return Selection(range(k), features=tokens.features[:k], bias=torch.ones(k))


def test_a_bias_that_only_the_selection_shows_is_refused(llava: Stock) -> None:
    inputs = llava.inputs([noise((90, 60))], ["Which word?"])
    with pytest.raises(ValueError, match=r"no input for a bias.*model\.answer"):
        llava.prune(inputs, method=Biased(), budget=3)


def test_a_set_made_by_hand_and_a_method_with_settings(llava: Stock) -> None:
    inputs = llava.inputs([noise((90, 60))], ["Which word?"])
    found = llava.prune(inputs, method=Selection([7, 2]))
    assert found.selections[0].order.tolist() == [7, 2]
    euclidean = dataclasses.replace(PRUNERS["divprune"], metric="euclidean")
    for budget in (6, "37.5%"):
        by_name, ready = (
            llava.prune(inputs, method=method, budget=budget)
            for method in ("divprune:metric=euclidean", euclidean)
        )
        assert by_name.selections[0].order.tolist() == ready.selections[0].order.tolist()
        assert by_name.selections[0].size == 6


# --- what is refused, before any pass ---


def one_picture(stock: Stock, **changes: Any) -> dict[str, Any]:
    inputs = dict(stock.inputs([noise((90, 60))], ["Which word?"]))
    return {key: value for key, value in {**inputs, **changes}.items() if value is not None}


@pytest.fixture
def no_pass(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a picture was encoded")

    monkeypatch.setattr(type(stock.ours), "see", fail)


@pytest.mark.usefixtures("no_pass")
def test_inputs_that_do_not_fit_are_refused_with_a_sentence(stock: Stock) -> None:
    image, start = stock.processor.image_token, "ASSISTANT:"
    two_in_one = stock.processor(
        images=[noise((90, 60)), noise((60, 90))],
        text=[f"{image} and {image} {start}"],
        return_tensors="pt",
    )
    two_in_the_first, side_by_side = (
        stock.processor(
            images=[noise((90, 60)), noise((60, 90))],
            text=[f"{image}{between}{image} {start}", f"no picture {start}"],
            padding=True,
            return_tensors="pt",
        )
        for between in (" and ", "")
    )
    only_text = stock.processor(text=[f"Hello {start}"], return_tensors="pt")
    good = one_picture(stock)
    ids = good["input_ids"]
    placeholder = ids[ids == stock.model.config.image_token_id][:1]
    first = int((ids[0] == placeholder).nonzero()[0])
    torn = torch.cat([ids, placeholder[None]], dim=1)
    longer = torch.cat([ids[:, :first], placeholder[None], ids[:, first:]], dim=1)
    run = ids[ids == placeholder][None]  # once more than the pictures, as LLaVA's processor allows
    doubled = torch.cat([ids[:, :first], run, ids[:, first:]], dim=1)
    for inputs, given, said in (
        (only_text, {}, "hold no picture"),
        (two_in_one, {}, "number of pictures, 2, is not that of the prompts, 1"),
        (two_in_the_first, {}, "Prompt 1 has several pictures"),
        (side_by_side, {}, "Prompt 1 has several pictures"),
        ({**good, "input_ids": doubled, "attention_mask": None}, {}, "several pictures"),
        ({**good, "input_ids": torn, "attention_mask": None}, {}, "several pictures"),
        ({**good, "input_ids": longer, "attention_mask": None}, {}, "belongs to another model"),
        ({**good, "input_ids": ids + 400 * (ids != placeholder)}, {}, "only those below 3"),
        ({**good, "input_ids": None}, {}, "hold no prompt"),
        ({**good, "input_ids": ids[:, -3:], "attention_mask": None}, {}, "has no picture in it"),
        (good, {"budget": 4000}, "from 1 to"),
        (good, {"budget": "0%"}, "share above 0%"),
        (good, {"budget": 0.125}, 'or a share such as "12.5%"'),
        (good, {"method": "fastv"}, r"inside the language model.*model\.answer"),
        (good, {"method": "vscan-whole"}, r"VScan chooses inside.*model\.answer"),
        (good, {"method": "fast"}, "fastv"),
        (good, {"method": None}, r'name such as "spare", .* or a Selection, not None\.'),
        (good, {"method": ["spare"]}, r'name such as "spare", .* or a Selection, not list\.'),
        (good, {"method": Uniform}, r"not its class\. Write Uniform\(\)\."),
        (good, {"text": "Which word?"}, "must be a TextTower .*The question goes into question="),
        (good, {"method": "vscan:size_bias=log"}, r"no input for a bias.*model\.answer"),
        (good, {"positions": "packed"}, r"cannot give kept tokens 'packed' positions\."),
        (good, {"question": ["a", "b"]}, "number of questions, 2, is not that of the prompts, 1"),
        (good, {"method": "trim"}, "TRIM needs a question"),
        (good, {"question": 5}, "question must be text.*None for none"),
        (good, {"question": "Which\ud800"}, "The question has a character that is not valid"),
        (good, {"positions": ["compact"]}, r"cannot give kept tokens \['compact'\] positions\."),
        (good, {"question": [5]}, "question must be text.*None for none"),
        ([1], {}, "not list. Pass processor"),
        ({**good, "attention_mask": [[1]]}, {}, "attention_mask of these inputs is not a tensor"),
        ({**good, "attention_mask": torch.ones(1, 3)}, {}, r"attention_mask \(1, 3\)\. Both must"),
        ({**good, "input_ids": ids[0], "attention_mask": None}, {}, "Both must be"),
        ({**good, "input_ids": ids[:0], "attention_mask": None}, {}, "Both must be"),
        ({**good, "pixel_values_videos": ids}, {}, "hold a video, which cannot be pruned"),
    ):
        with pytest.raises(ValueError, match=said):
            stock.prune(inputs, **{"budget": 3, **given})


@pytest.mark.parametrize("name", ["tiny_next", "tiny_qwen"])
def test_pictures_of_other_shapes_than_the_processors_are_refused(
    name: str, stocks: Callable[[str], Stock]
) -> None:
    stock = stocks(name)
    good = one_picture(stock)
    sizes = "image_sizes" if name == "tiny_next" else "image_grid_thw"
    for key, value in (
        ("pixel_values", good["pixel_values"][0]),
        (sizes, good[sizes][0]),
        (sizes, good[sizes].repeat(2, 1)),
        (sizes, 0 * good[sizes]),
    ):
        said = f"No pictures can be made of {sizes} of shape .*as the processor makes them"
        with pytest.raises(ValueError, match=said):
            stock.prune({**good, key: value}, budget=3)


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize("kind", [{}, {"return_tensors": "np"}])
def test_a_processor_that_made_no_tensors_is_told_of_the_argument(
    stock: Stock, kind: dict[str, str]
) -> None:
    text = f"{stock.processor.image_token} ASSISTANT:"
    inputs = stock.processor(images=[noise((90, 60))], text=[text], **kind)
    with pytest.raises(ValueError, match='Pass return_tensors="pt" to the processor'):
        stock.prune(inputs, budget=3)


def test_compact_positions_of_a_family_without_them_are_refused(qwen: Stock) -> None:
    inputs = qwen.inputs([noise((90, 60))], ["Which word?"])
    with pytest.raises(ValueError, match="say the row and the column of a token"):
        qwen.prune(inputs, method="uniform", budget=3, positions="compact")


@pytest.mark.usefixtures("no_pass")
def test_a_processor_of_another_class_is_refused(
    stock: Stock, stocks: Callable[[str], Stock]
) -> None:
    for name in OWN.keys() - {stock.name}:
        other = stocks(name)
        with pytest.raises(ValueError, match="belongs to another model"):
            prune(stock.model, other.processor, one_picture(other), budget=3)


@pytest.mark.usefixtures("no_pass")
def test_other_classes_and_training_are_refused(
    stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = one_picture(stock)
    for model in (stock.model.model, stock.model.model.language_model, None):
        with pytest.raises(ValueError, match="LlavaForConditionalGeneration"):
            prune(model, stock.processor, inputs, budget=3)
    with pytest.raises(ValueError, match=r"load_model that is model\.hf\."):
        prune(stock.ours, stock.processor, inputs, budget=3)
    with pytest.raises(ValueError, match=r"OptimizedModule .* pass the model inside;"):
        prune(torch.compile(stock.model), stock.processor, inputs, budget=3)
    with torch.device("meta"):
        offloaded = type(stock.model)(stock.model.config).eval()
    with pytest.raises(ValueError, match="keeps both on a device"):
        prune(offloaded, stock.processor, inputs, budget=3)
    part = stock.model.model.language_model.layers[0]  # as a caller leaves it who trains that part
    monkeypatch.setattr(part, "training", True)
    with pytest.raises(ValueError, match=r"model\.eval"):
        stock.prune(inputs, budget=3)
    assert part.training


def test_the_language_model_can_be_offloaded_and_what_makes_the_tokens_cannot(
    stock: Stock, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(f"{stock.name}_folder")
    inputs = stock.inputs([noise((90, 60))], ["Which word?"])
    # The language model embeds the question's words, too.
    given: dict[str, Any] = {"budget": 3, "question": "Which word?", "guidance_text": "words"}
    for name in stock.model.model._modules:
        model = type(stock.model).from_pretrained(folder)
        accelerate.cpu_offload(model.model.get_submodule(name), execution_device="cpu")
        if name == "language_model":
            pruned = prune(model, stock.processor, inputs, **given)
            expected = stock.prune(inputs, **given)
            assert torch.equal(pruned["inputs_embeds"], expected["inputs_embeds"])
        else:
            with pytest.raises(ValueError, match="keeps both on a device"):
                prune(model, stock.processor, inputs, **given)


def test_the_warning_says_what_the_method_lacks(
    qwen: Stock, caplog: pytest.LogCaptureFixture
) -> None:
    qwen.prune(one_picture(qwen), budget=3, question="Which word?")
    assert "spare-reconstruction ran in the place of spare: this model has no CLIP" in caplog.text
    assert "(guidance_text=words)" in caplog.text


def test_a_method_that_the_tower_does_not_serve_says_why(qwen: Stock) -> None:
    given: dict[str, Any] = {"budget": 3, "question": "Which word?"}
    for method, reason in (("visionzip", "no class token"), ("trim", "no CLIP text side")):
        with pytest.raises(ValueError, match=reason):
            qwen.prune(one_picture(qwen), method=method, **given)


# --- the guide ---


def test_the_guides_lines_run_and_answer_as_compare_does(
    built_in: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    section = (ROOT / "docs" / "GUIDE.md").read_text().split("## In your own code\n")[1]
    code = section.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "GUIDE.md", "exec"), names)
    result = compare(built_in, names["photo"], names["question"], ("spare",), 64, aspect="crop")
    assert names["tokens"][0].tolist() == list(result.answers["spare"].token_ids)
    kept = names["inputs"].selections[0].order
    assert kept.tolist() == result.selections["spare"].order.tolist()


@pytest.mark.parametrize("bits", [4, 8])
def test_a_model_quantised_by_its_caller_tower_and_all(bits: int, tiny_folder: Path) -> None:
    # The tiny checkpoint is too narrow for 4 bits, whose weights go in blocks of 64.
    folder = ROOT / "assets" / "built-in" if bits == 4 else tiny_folder
    settings = BitsAndBytesConfig(load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    model = LlavaForConditionalGeneration.from_pretrained(
        folder, quantization_config=settings, device_map={"": "cpu"}
    )
    processor = AutoProcessor.from_pretrained(folder)
    prompt = "USER: <image>\nWhich word? ASSISTANT:"
    inputs = processor(images=noise((336, 336)), text=prompt, return_tensors="pt")
    for method in ("spare", "visionzip"):  # which read the tower, and the projector too
        pruned = prune(model, processor, inputs, method=method, budget=7, question="Which word?")
        assert pruned.selections[0].size == 7 and pruned.methods == [method]
        assert pruned["inputs_embeds"].isfinite().all()
    whole = prune(model, processor, inputs, method="uniform", budget="100%")
    given: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False}
    expected = model.generate(**inputs, **given)[:, inputs["input_ids"].shape[1] :]
    assert torch.equal(model.generate(**whole, **given), expected)
