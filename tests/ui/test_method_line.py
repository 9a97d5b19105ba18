"""The line under a menu: a method's own words, and a sketch of its group."""

from __future__ import annotations

from html import unescape

import pytest

from spare_demo.pruners import PRUNERS
from spare_demo.pruners.base import GROUPS
from spare_demo.ui.tuning import line_html, sketch_svg


@pytest.mark.parametrize("name", PRUNERS)
def test_a_line_has_the_methods_words_and_the_sketch_of_its_group(name: str) -> None:
    method = PRUNERS[name]
    assert method.summary in unescape(line_html(name))
    if method.group != "controls":
        assert sketch_svg(method.group) in line_html(name)


def test_only_controls_that_read_nothing_are_said_to_look_at_no_patch() -> None:
    blind = {name for name in PRUNERS if "without a look" in line_html(name)}
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
