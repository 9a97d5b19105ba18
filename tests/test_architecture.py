"""Imports point one way (docs/DESIGN.md section 2), read off the source with `ast`.

    app, __main__ -> ui -> comparison -> models, pruners, measures, render -> relevance, geometry,
    tokens; scenes beside models. A module without a place below counts as one of comparison's.
Imports under `if TYPE_CHECKING:` do not run and do not count; those inside functions do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spare_demo import _HOME

ROOT = Path(__file__).parent.parent

LEVEL = {"app": 4, "__main__": 4, "ui": 3, "comparison": 2}
LEVEL |= dict.fromkeys(("models", "pruners", "measures", "render", "cost", "scenes"), 1)
LEVEL |= dict.fromkeys(("relevance", "geometry", "fitting", "tokens", "settings", "pictures"), 0)

SCIENCE = {"pruners", "measures", "geometry", "fitting", "tokens", "relevance"}
LIGHT = {"torch", "triton", "numpy", "PIL"} | set(sys.stdlib_module_names)
MODEL_LIBRARIES = {"transformers", "open_clip", "torchvision", "accelerate", "timm"}


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports when it runs."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            if module == "spare_demo":  # a module, or a public name that stands for its module
                yield from (_HOME.get(a.name, f"spare_demo.{a.name}") for a in node.names)
            else:
                yield module


def part(path: Path) -> str:
    """The piece of the design a file belongs to: its name, or its folder's in the package."""
    inside = path.relative_to(ROOT).with_suffix("").parts
    return inside[1] if inside[0] == "spare_demo" else inside[0]


def own_parts(path: Path) -> set[str]:
    """The pieces of this package that a file imports."""
    names = [name.split(".") for name in imports(path)]
    return {n[1] for n in names if n[0] == "spare_demo" and len(n) > 1 and n[1] != "__version__"}


def libraries(path: Path) -> set[str]:
    """The top-level names of what it imports from outside the package."""
    return {name.split(".")[0] for name in imports(path)} - {"spare_demo", "__future__"}


SOURCES = sorted(p for p in (ROOT / "spare_demo").rglob("*.py") if part(p) != "__init__")
SOURCES += [p for p in [ROOT / "app.py"] if p.exists()]


def sources_of(*parts: str) -> list[Path]:
    return [path for path in SOURCES if part(path) in parts]


def in_words(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("path", SOURCES, ids=in_words(SOURCES))
def test_imports_point_one_way(path: Path) -> None:
    level = LEVEL.get(part(path), LEVEL["comparison"])
    upward = {p for p in own_parts(path) if LEVEL.get(p, LEVEL["comparison"]) > level}
    assert not upward, f"{path.name} must not import {upward}: the arrows of DESIGN.md point down"


@pytest.mark.parametrize("path", sources_of(*SCIENCE), ids=in_words(sources_of(*SCIENCE)))
def test_the_science_imports_torch_and_nothing_heavier(path: Path) -> None:
    assert libraries(path) <= LIGHT
    assert own_parts(path) <= SCIENCE
    if part(path) == "measures":
        assert "pruners" not in own_parts(path)
    if part(path) == "pruners":
        assert "measures" not in own_parts(path)


def test_only_the_page_imports_gradio() -> None:
    users = [path for path in SOURCES if libraries(path) & {"gradio", "gradio_client"}]
    assert {part(path) for path in users} <= {"ui", "app"}


def test_drawing_needs_no_model() -> None:
    for path in sources_of("render"):
        assert not libraries(path) & MODEL_LIBRARIES, path
        assert "models" not in own_parts(path), path


def test_models_know_neither_the_page_nor_the_drawn_world() -> None:
    for path in sources_of("models"):
        assert not own_parts(path) & {"ui", "scenes", "comparison", "render"}, path


def test_the_reader_of_imports_sees_what_it_must(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    package = tmp_path / "spare_demo" / "render"
    package.mkdir(parents=True)
    source = package / "maps.py"
    source.write_text(
        "from __future__ import annotations\n"
        "import gradio as gr, torch.nn\n"
        "from typing import TYPE_CHECKING\n"
        "from spare_demo import load_model, measures\n"
        "from ..ui.page import layout\n"
        "from . import colour\n"
        "if TYPE_CHECKING:\n    import transformers\n"
        "def late():\n    import open_clip\n"
    )
    assert libraries(source) == {"gradio", "torch", "typing", "open_clip"}
    assert own_parts(source) == {"models", "measures", "ui", "render"}
    assert part(source) == "render"
