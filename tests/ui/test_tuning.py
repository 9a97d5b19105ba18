"""The menus of methods, the line and the sketch under each, and the settings below."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from html import unescape

import pytest

from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.base import GROUPS, setting
from spare_demo.pruners.random import Random
from spare_demo.ui.tuning import (
    HEADING,
    NOT_HERE,
    Reasons,
    _control,
    able,
    about_html,
    choose,
    line_html,
    menu,
    sketch_svg,
)


def lacking(supplies: set[str]) -> Reasons:
    """What a model of 32 layers that fills only these fields says of a method."""
    return lambda method: method.reason_against(supplies, 32)


def methods_in(entries: list[tuple[str, str]]) -> dict[str, str]:
    """Label of each method in a menu, by name, without the headings."""
    return {name: label for label, name in entries if not label.startswith(HEADING)}


def test_every_method_is_listed_and_the_unable_say_why(tiny_model: LlavaModel) -> None:
    entries = methods_in(menu(tiny_model.reason_against))
    assert sorted(entries) == sorted(PRUNERS)
    for name in ("pyramiddrop", "sparsevlm", "sparsevlm-plus", "v2drop"):
        assert entries.pop(name) == (
            f"{PRUNERS[name].title}{NOT_HERE}this model's language model has 3 layers, and its 3 "
            "steps need more"
        )
    assert all(label == PRUNERS[name].title for name, label in entries.items())
    entries = methods_in(menu(lacking({"clip_text"})))
    assert sorted(entries) == sorted(PRUNERS)
    assert entries["spare"] == "SPARE"
    assert entries["visionzip"].startswith(f"VisionZip{NOT_HERE}this model's vision tower has no")
    entries = methods_in(menu(lacking(set())))
    assert "no CLIP text side" in entries["spare"]
    assert entries["spare-reconstruction"] == PRUNERS["spare-reconstruction"].title


def test_methods_stand_under_the_heading_of_their_group() -> None:
    groups: dict[str, list[str]] = {}
    for label, name in menu(lacking({"clip_text"})):
        if label.startswith(HEADING):
            groups[label.removeprefix(HEADING)] = []
            with pytest.raises(ValueError, match="There is no method"):
                able(name, lacking(set()))
        else:
            groups[[*groups][-1]].append(name)
    assert list(groups) == list(GROUPS.values())
    known = {  # a method of one's own comes beside these
        "Controls": "random uniform spatial-farthest magnitude leverage column-subset",
        "Merging tokens before it": "prumerge prumerge-plus visionzip vscan trim trim-paper",
        "Inside the language model": (
            "fastv pyramiddrop sparsevlm sparsevlm-plus dart v2drop vscan-whole"
        ),
    }
    for heading, names in groups.items():
        assert set(known.get(heading, "").split()) <= set(names)
        assert names == [name for name in PRUNERS if name in names]
    assert groups["Before the language model"][:4] == list(PRUNERS)[:4]


def test_a_method_with_settings_is_an_entry_after_its_own() -> None:
    entries = menu(lacking({"clip_text"}), "divprune:metric=euclidean")
    place = entries.index(("DivPrune (metric=euclidean)", "divprune:metric=euclidean"))
    assert entries[place - 1] == ("DivPrune", "divprune")
    assert len(entries) == len(menu(lacking({"clip_text"}), "divprune")) + 1


def test_a_method_that_needs_text_gives_way_to_its_text_free_form() -> None:
    assert able("spare", lacking({"clip_text"})) == "spare"
    assert able("spare", lacking(set())) == "spare-reconstruction"
    assert able("random", lacking(set())) == "random"
    with pytest.raises(ValueError, match="no method 'sparse'"):
        able("sparse", lacking(set()))
    # The page says why it cannot run.
    assert able("anti-relevance", lacking(set())) == "anti-relevance"


def test_what_the_controls_send_is_the_menus_value() -> None:
    fields = ["directions", "step"]
    assert choose("zoo-prune", fields, [64.0, 0.01]) == "zoo-prune"
    assert choose("zoo-prune", fields, [16.0, 1]) == "zoo-prune:directions=16,step=1.0"
    with pytest.raises(ValueError, match="Choose a whole number from 1 to 1024"):
        choose("zoo-prune", fields, [2.5, 0.01])
    with pytest.raises(ValueError, match="Choose a number from"):
        choose("zoo-prune", fields, [64, None])


@dataclass(frozen=True)
class Endless(Random):
    reach: float = setting(float("inf"), "Reach", "How far it sees.")


def test_a_setting_that_is_infinite_can_be_sent_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRUNERS, "random", Endless())
    part = _control(fields(Endless)[-1], Endless().reach)
    sent = json.loads(json.dumps(part.value, allow_nan=False))  # as the page has it
    assert choose("random", ["reach"], [sent]) == "random"


@pytest.mark.parametrize("name", PRUNERS)
def test_the_usual_settings_are_the_plain_name(name: str) -> None:
    method = PRUNERS[name]
    fields = [field for field in vars(method) if field != "seed"]
    assert choose(name, fields, [getattr(method, field) for field in fields]) == name


@pytest.mark.parametrize("name", PRUNERS)
def test_every_method_says_what_it_does_and_where_it_differs(name: str) -> None:
    method = PRUNERS[name]
    told = unescape(about_html(method))
    for part in (method.summary, f"Acts {method.acts}.", method.deviations, method.link):
        assert part in told
    assert ("Where it differs" in told) == bool(method.deviations)
    assert ("Paper: <a href" in told) == bool(method.link)
    assert "<p></p>" not in told and told.count("<p>") == told.count("</p>")


@pytest.mark.parametrize("name", PRUNERS)
def test_a_line_has_the_methods_words_and_the_sketch_of_its_group(name: str) -> None:
    method = PRUNERS[name]
    assert method.summary in unescape(line_html(name))
    if method.group != "controls":
        assert sketch_svg(method.group) in line_html(name)


def test_only_controls_that_read_nothing_are_said_to_look_at_no_patch() -> None:
    blind = {name for name in PRUNERS if "without looking" in line_html(name)}
    assert blind == {"random", "uniform", "spatial-farthest"}


def test_settings_that_change_what_a_method_does_change_its_line() -> None:
    assert line_html("spare:guidance=none") == line_html("spare-reconstruction")
    with pytest.raises(ValueError, match="There is no method"):
        line_html("group:before")


def test_every_group_has_a_sketch_of_its_own_with_words() -> None:
    sketches = [sketch_svg(group) for group in GROUPS]
    assert len(set(sketches)) == len(GROUPS)
    for group, sketch in zip(GROUPS, sketches, strict=True):
        assert 'role="img" aria-label="Sketch: ' in sketch
        assert ('class="mixed"' in sketch) == (group == "merging")
        assert 'class="dropped"' in sketch
    kept = sketch_svg("inside").split('x="51"')[0]
    assert sketch_svg("inside").count('class="kept"') > 16 >= kept.count('class="kept"')
