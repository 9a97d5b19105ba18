"""The examples of the page: drawn scenes for the built-in model, photos for every other one."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from visits import controls

from spare_demo.images.load import open_picture
from spare_demo.models import LlavaModel
from spare_demo.models.loading.catalogue import ASSETS, CATALOGUE
from spare_demo.settings import Settings
from spare_demo.ui import build, examples
from spare_demo.ui.examples import Example, load_examples
from spare_demo.ui.gradio_compat.files import cached_picture
from spare_demo.ui.handlers import Handlers

PHOTOS = load_examples("llava-1.5-7b")
LICENCES = {"CC0-1.0", "public domain"}


def name(example: Example) -> str:
    return Path(example.path).name


def test_scenes_are_for_the_built_in_model_and_photos_for_every_other(tiny_model) -> None:
    scenes = load_examples("built-in")
    assert len(scenes) == 6 and all(name(scene).endswith(".png") for scene in scenes)
    assert 4 <= len(PHOTOS) <= 6 and all(name(photo).startswith("photo-") for photo in PHOTOS)
    for model in (*CATALOGUE, tiny_model.name):
        assert load_examples(model) == (scenes if model == "built-in" else PHOTOS)


@pytest.mark.parametrize("example", [*load_examples("built-in"), *PHOTOS], ids=name)
def test_every_example_is_a_picture_with_questions_and_answers(example: Example) -> None:
    assert open_picture(example.path).mode == "RGB"
    for question, answer in example.answers.items():
        assert question.endswith("?") and question == question.strip() and answer


@pytest.mark.parametrize("photo", PHOTOS, ids=name)
def test_a_photo_is_small_free_and_has_two_questions(photo: Example) -> None:
    lines = (ASSETS / "README.md").read_text().splitlines()
    (row,) = [line.split("|") for line in lines if line.startswith(f"| `examples/{name(photo)}`")]
    assert row[2].strip(), "author and source"
    assert any(words in row[3] for words in LICENCES)
    with Image.open(photo.path) as picture:
        assert picture.mode == "RGB" and max(picture.size) <= 640
    assert len(photo.answers) == 2


def test_photos_are_of_several_shapes_and_ask_different_things() -> None:
    shapes = {Image.open(photo.path).size for photo in PHOTOS}
    assert any(width != height for width, height in shapes) and len(shapes) > 2
    assert len({question for photo in PHOTOS for question in photo.answers}) == 2 * len(PHOTOS)
    assert sum(Path(photo.path).stat().st_size for photo in PHOTOS) < 1_000_000


def test_a_photo_chosen_again_brings_its_other_question_and_its_truth(handlers: Handlers) -> None:
    photo = handlers.offered[1]
    first, second = photo.answers
    other = handlers.offered[0].question
    for before, now in ((other, first), (first, second), (f" {second}", first), ("", first)):
        assert handlers.load_example(1, before) == (photo.path, now)
    path, question = handlers.load_example(1, first)
    *_, shown = (step for step in handlers.ask(**controls(path, question)) if "truth" in step)
    assert f"<b>{photo.answers[second]}</b>" in shown["truth"]


def test_the_truth_is_found_however_its_question_is_typed() -> None:
    photo = PHOTOS[0]
    for text in (photo.question, photo.question.upper(), f" {photo.question.rstrip('?')}  "):
        assert examples.find(PHOTOS, photo.key, text) == (True, photo.answers[photo.question])
    assert examples.find(PHOTOS, photo.key, "What else?") == (True, None)
    assert examples.find(PHOTOS, "another", photo.question) == (False, None)


@pytest.mark.parametrize("built_in", [False, True])
def test_the_page_shows_the_examples_of_its_model(
    tiny_model: LlavaModel,
    small_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    built_in: bool,
) -> None:
    if built_in:
        monkeypatch.setattr(tiny_model, "name", "built-in")
    listed = load_examples(tiny_model.name)
    components = build(tiny_model, small_settings).config["components"]
    parts = {part["props"].get("elem_id"): part["props"] for part in components}
    pictures = [sample[0]["orig_name"] for sample in parts["examples"]["samples"]]
    assert pictures == [name(example) for example in listed]
    assert parts["question"]["value"] == listed[0].question
    assert listed[0].answers[listed[0].question] in parts["truth"]["value"]
    assert parts["scene"]["visible"] is built_in
    assert ("other question" in parts["examples"]["label"]) is not built_in


def test_old_scenes_leave_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_MOST_FILES", 3)
    made = [examples.new_scene(tmp_path).path for _ in range(5)]
    assert len(list(tmp_path.iterdir())) == 3
    assert Path(made[-1]).exists()
    listed = [*tmp_path.iterdir(), tmp_path / "deleted meanwhile, by another event"]
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(listed))
    assert Path(examples.new_scene(tmp_path).path).exists()


def test_missing_examples_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    for text in (None, "[{", '[{"picture": "gone.png", "question": "?", "answer": "!"}]'):
        if text is not None:
            (tmp_path / "photos.json").write_text(text)
        with pytest.raises(ValueError, match=r"are not all there, or photos\.json is"):
            examples.load_examples("tiny")


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"picture": "gone.png", "question": "?"}'])
def test_a_damaged_opening_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    offered = examples.load_examples("built-in")
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    if text is not None:
        (tmp_path / "opening.json").write_text(text)
    with pytest.raises(ValueError, match=r"or opening\.json is damaged"):
        examples.choose_opening("built-in", offered, Settings())


def test_examples_are_sent_small_and_stay_whole(
    tiny_model: LlavaModel, small_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model, "name", "built-in")
    demo = build(tiny_model, small_settings)
    [row] = [part for part in demo.blocks.values() if part.elem_id == "examples"]
    files = [Path(sample[0]["path"]) for sample in row.samples]
    listed = load_examples("built-in")
    assert 4 * sum(file.stat().st_size for file in files) < sum(
        Path(example.path).stat().st_size for example in listed
    )
    assert {*map(str, files), *(cached_picture(example.path) for example in listed)} <= {
        *demo.kept_files
    }
