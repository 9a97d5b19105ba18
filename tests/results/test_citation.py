"""The zip: what is in it, that it says how to be repeated, and that it is the same bytes again."""

from __future__ import annotations

import dataclasses
import io
import json
import shlex
import xml.etree.ElementTree as ET
import zipfile

import numpy as np
import pytest
from PIL import Image

from spare_demo.analysis.answer_shift import kl_curves
from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import explore
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS, Pruner
from spare_demo.relevance import RelevanceOptions
from spare_demo.results.drawings import PANELS
from spare_demo.results.export import cite, command_line
from spare_demo.results.io import read_result
from spare_demo.results.references import references
from spare_demo.tokens import Selection

QUESTION = "--Which 'number' is <written> & where?"


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    methods = {"spare": PRUNERS["spare"], "cdpruner": PRUNERS["cdpruner"]}
    return compare(tiny_model, photo, QUESTION, methods, budget=5, max_new_tokens=3)


def opened(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_holds_every_panel_chosen_as_png_and_svg(
    tiny_model: LlavaModel, result: Result, photo: Image.Image
) -> None:
    assert result.view is not None
    exploration = explore(result.view, result.request.labelled)
    *_, kl = kl_curves(tiny_model, exploration, result.answers["unpruned"], 4)
    measured = dataclasses.replace(result, kl=kl)
    files = opened(cite(measured, PANELS, "https://example.org/?k=5"))
    saved = read_result(files["result.json"].decode()).result
    assert saved.kl == kl
    # That all other panels come back is in test_io.py.
    assert cite(saved, ("kl", "difference")) == cite(measured, ("kl", "difference"))
    panels = [f"{what}-{label}" for what in ("kept", "order", "weight", "leftover")
              for label in ("spare", "cdpruner")]  # fmt: skip
    panels += ["comparison", "relevance", "difference", "reconstruction", "kl"]
    assert set(files) == {
        *(f"{name}.{kind}" for name in panels for kind in ("png", "svg")),
        *("result.json", "picture.png", "README.txt", "references.bib"),
    }
    written = json.loads(files["result.json"])
    assert written["picture"]["png"] and written["versions"]["pillow"]
    assert [len(shares) for shares in written["leftover"].values()] == [16, 16]
    assert files["references.bib"].decode() == references(result)
    for name, data in files.items():
        if name.endswith(".png"):
            with Image.open(io.BytesIO(data)) as image:
                image.load()
                if name != "picture.png":
                    origin = image.info["Description"]
                    assert QUESTION in origin and f"{result.model} {result.revision}" in origin
                    assert f"Budget: {result.budget} of 16 tokens. Seed: 0." in origin
                    inches = image.width / image.info["dpi"][0]
                    assert 3 < inches < 7.01, name  # a column of a paper, at most the page's two
                    if name.startswith("kept"):
                        assert inches == pytest.approx(8.5 / 2.54, abs=0.02)
        if name.endswith(".svg"):
            root = ET.fromstring(data.decode())
            title = root.find("{http://www.w3.org/2000/svg}title")
            assert title is not None
            assert title.text in files["README.txt"].decode()
            origin = root.find("{http://www.w3.org/2000/svg}desc")
            assert origin is not None and QUESTION in (origin.text or "")
    with Image.open(io.BytesIO(files["picture.png"])) as image:
        np.testing.assert_array_equal(np.asarray(image), np.asarray(photo))
    readme = files["README.txt"].decode()
    assert command_line(result) in readme
    drawn = "kept order weight leftover relevance difference comparison reconstruction kl"
    assert f" --from result.json --out again --panels {drawn}\n" in readme
    assert "https://example.org/?k=5" in readme
    assert f"Question: {QUESTION}" in readme
    assert result.answers["unpruned"].text in readme


def test_an_svg_is_xml_whatever_was_pasted_into_the_question(result: Result) -> None:
    pasted = dataclasses.replace(result, question="Which\x02ever\x0c\uffff?")
    for name, data in opened(cite(pasted, ("comparison", "kept"))).items():
        if name.endswith(".svg"):
            assert "Which?ever??" in "".join(ET.fromstring(data.decode()).itertext())


def test_a_panel_that_is_not_there_is_refused(result: Result) -> None:
    with pytest.raises(ValueError, match=r"There is no panel 'nonsense'\. Choose from: comp"):
        cite(result, ("nonsense",))
    with pytest.raises(ValueError, match="at least one picture"):
        cite(result, ())


def test_the_command_line_is_read_as_it_was_meant(result: Result) -> None:
    from spare_demo.cli.main import _parser
    from spare_demo.settings import Settings

    by = RelevanceOptions(layer=-1, text="tokens", guidance_text="words")
    settings = dataclasses.replace(
        result.settings, seed=7, together=True, positions="original", relevance=by
    )  # none of which is what the command takes by itself
    changed = dataclasses.replace(result, settings=settings, system="vicuna_v1")
    words = shlex.split(command_line(dataclasses.replace(changed, language_model=False)))
    assert words[:3] == ["python", "-m", "spare_demo"]
    read = _parser(Settings(), "compare").parse_args(words[3:])
    assert (read.image, read.question) == ("picture.png", QUESTION)
    assert read.methods == ["spare", "cdpruner"]
    assert (read.model, int(read.budget), read.seed) == (result.model, 5, 7)
    assert (read.max_new_tokens, read.aspect) == (3, "pad")
    assert (read.relevance_layer, read.relevance_text) == (-1, "tokens")
    assert read.guidance_text == "words"
    assert (read.positions, read.system, read.bits) == ("original", "vicuna_v1", 16)
    assert read.together and read.without_language_model


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("What's on it, red & blue?", '"What\'s on it, red & blue?"'),
        ("", '""'),
        ("Was ist größer?", '"Was ist größer?"'),
        ('Is "$5" 50% off?', "'Is \"$5\" 50% off?'"),
        ("Two\nlines", "'Two\nlines'"),
    ],
)
def test_quotes_are_those_that_unix_and_windows_read_alike_where_there_are_some(
    result: Result, question: str, written: str
) -> None:
    line = command_line(dataclasses.replace(result, question=question))
    assert line.endswith(f" -- picture.png {written}")
    assert shlex.split(line)[-1] == question


@pytest.mark.parametrize(
    ("revision", "bits"),
    [("0123456789ab", 16), ("0123456789ab-8bit", 8), ("-4bit", 4), ("", 16), ("main-2bit", 16)],
)
def test_weights_are_asked_for_as_they_were_held(result: Result, revision: str, bits: int) -> None:
    """Of a hub's model without a commit the revision is the bits alone."""
    quantised = dataclasses.replace(result, revision=revision)
    assert f"--bits={bits} " in command_line(quantised)


@pytest.mark.parametrize(
    ("label", "method", "explicit"),
    [
        ("spare", PRUNERS["spare"], True),
        ("spare (2)", PRUNERS["spare"], True),
        ("random", dataclasses.replace(PRUNERS["random"], seed=4), True),  # type: ignore[type-var]
        ("random", dataclasses.replace(PRUNERS["random"], seed=5), False),  # type: ignore[type-var]
        ("mine", PRUNERS["spare"], False),
        ("spare", dataclasses.replace(PRUNERS["spare"], squash="minmax"), False),  # type: ignore[type-var]
        ("spare:squash=minmax", dataclasses.replace(PRUNERS["spare"], squash="minmax"), True),  # type: ignore[type-var]
        ("mine", Selection(order=[1, 2]), False),
    ],
)
def test_what_no_flag_can_say_is_taken_from_the_file(
    result: Result, label: str, method: object, explicit: bool
) -> None:
    record = MethodRecord(None, label)
    if isinstance(method, Pruner):
        record = MethodRecord(method.name, label, dataclasses.asdict(method))  # type: ignore[call-overload]
    settings = dataclasses.replace(result.settings, seed=4)
    changed = dataclasses.replace(result, methods={label: record}, settings=settings)
    line = command_line(changed)
    assert ("--from result.json --again" in line) != explicit
    if explicit:
        assert f"--methods {label.split(' ')[0]} --" in line


@pytest.mark.parametrize(
    ("model", "local"), [("my-llava", True), ("built-in", False), ("someone/theirs", False)]
)
def test_a_local_folder_is_named_without_its_path_and_said_to_need_it(
    result: Result, model: str, local: bool
) -> None:
    data = cite(dataclasses.replace(result, model=model), ("relevance",))
    readme = opened(data)["README.txt"].decode()
    assert f"--model={model} " in readme
    assert (f"--model needs the path of the folder {model}." in readme) == local
