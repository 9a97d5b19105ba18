"""The menus of methods and the settings under them."""

from __future__ import annotations

import pytest

from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.ui.tuning import NOT_HERE, able, choose, menu


def test_every_method_is_listed_and_the_unable_say_why(tiny_model: LlavaModel) -> None:
    assert menu(tiny_model.supplies) == [(m.title, name) for name, m in PRUNERS.items()]
    entries = {name: label for label, name in menu({"clip_text"})}
    assert list(entries) == list(PRUNERS)
    assert entries["spare"] == "SPARE"
    assert entries["visionzip"].startswith(f"VisionZip{NOT_HERE}this model's vision tower has no")
    entries = {name: label for label, name in menu(set())}
    assert "no CLIP text side" in entries["spare"]
    assert entries["spare-reconstruction"] == PRUNERS["spare-reconstruction"].title


def test_a_method_with_settings_is_an_entry_of_its_own() -> None:
    entries = menu({"clip_text"}, "divprune:metric=euclidean")
    assert entries[-1] == ("DivPrune (metric=euclidean)", "divprune:metric=euclidean")
    assert len(entries) == len(PRUNERS) + 1 == len(menu(set(), "divprune")) + 1


def test_a_method_that_needs_text_gives_way_to_its_text_free_form() -> None:
    assert able("spare", {"clip_text"}) == "spare"
    assert able("spare", set()) == "spare-reconstruction"
    assert able("random", set()) == "random"
    with pytest.raises(ValueError, match="no method 'sparse'"):
        able("sparse", set())
    assert able("anti-relevance", set()) == "anti-relevance"  # the page says why it cannot run


def test_what_the_controls_send_is_the_menus_value() -> None:
    fields = ["directions", "step"]
    assert choose("zoo-prune", fields, [64.0, 0.01]) == "zoo-prune"
    assert choose("zoo-prune", fields, [16.0, 1]) == "zoo-prune:directions=16,step=1.0"
    with pytest.raises(ValueError, match="Choose a whole number from 1 to 1024"):
        choose("zoo-prune", fields, [2.5, 0.01])
    with pytest.raises(ValueError, match="Choose a number from"):
        choose("zoo-prune", fields, [64, None])


@pytest.mark.parametrize("name", PRUNERS)
def test_the_usual_settings_are_the_plain_name(name: str) -> None:
    method = PRUNERS[name]
    fields = [field for field in vars(method) if field != "seed"]
    assert choose(name, fields, [getattr(method, field) for field in fields]) == name
