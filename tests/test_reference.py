"""The API reference: the command of docs/CONTRIBUTING.md, as it is written there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import spare_demo
from spare_demo.pruners import __all__ as method_names

ROOT = Path(__file__).parents[1]

pdoc = pytest.importorskip("pdoc.__main__", reason="pdoc is not installed; pip install '.[docs]'")


def test_the_reference_is_made_without_a_warning_and_has_every_public_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python -m pdoc (.+)$", page, re.MULTILINE)
    words = shlex.split(command)
    words[words.index("build/api")] = str(tmp_path)
    capfd.readouterr()
    pdoc.cli(words)
    assert capfd.readouterr() == ("", "")
    for module, names in (("spare_demo", spare_demo.__all__), ("spare_demo/pruners", method_names)):
        html = (tmp_path / f"{module}.html").read_text(encoding="utf-8")
        assert {f'<section id="{name}">' for name in names} == set(
            re.findall(r'<section id="[^."]+">', html)
        )
        if module == "spare_demo":  # sections of a docstring are lists, not one long paragraph
            assert "<strong>clip_sentence:</strong>" in html and "<strong>budget:</strong>" in html
