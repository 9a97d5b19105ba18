"""Imports point down the floors of docs/ARCHITECTURE.md, read off the source with `ast`.

Imports under `if TYPE_CHECKING:` do not run and do not count; those inside functions do.
`python tests/test_architecture.py` prints every room with what it imports.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the printout, which runs without pytest

from spare_demo import _HOME  # noqa: E402

FLOORS = (
    ("tokens", "table", "settings", "images", "relevance", "cuda_graphs", "threads", "__init__"),
    ("measures", "pruners"),
    ("models",),
    ("comparison", "scenes"),
    ("analysis", "render"),
    ("results", "evaluation"),
    ("ui", "integrations"),
    ("cli",),
    ("app", "__main__"),
)
"""The rooms, the lowest floor first. A room imports only from floors below its own."""

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MOST_FLAT_FILES, MOST_ROOMS, MOST_FLOORS = 10, 22, 9

SCIENCE = {"pruners", "measures", "tokens", "relevance", "images", "cuda_graphs"}
LIGHT = {"torch", "triton", "numpy", "PIL"} | set(sys.stdlib_module_names)
MODEL_LIBRARIES = {"transformers", "open_clip", "torchvision", "accelerate", "timm"}


@functools.cache
def imports(path: Path) -> list[str]:
    """Dotted names of everything a file imports when it runs."""
    names: list[str] = []
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            if module == "spare_demo":  # a module, or a public name that stands for its module
                names += [_HOME.get(a.name, f"spare_demo.{a.name}") for a in node.names]
            else:
                names.append(module)
    return names


def part(path: Path) -> str:
    """The room a file belongs to: its folder in the package, or its own name."""
    inside = path.relative_to(ROOT).with_suffix("").parts
    return inside[1] if inside[0] == "spare_demo" else inside[0]


def own_parts(path: Path) -> set[str]:
    """The rooms of this package that a file imports."""
    names = [name.split(".") for name in imports(path)]
    rooms = {name[1] if len(name) > 1 else "__init__" for name in names if name[0] == "spare_demo"}
    return rooms - {"__version__"}


def libraries(path: Path) -> set[str]:
    """The top-level names of what it imports from outside the package."""
    return {name.split(".")[0] for name in imports(path)} - {"spare_demo", "__future__"}


SOURCES = sorted(p for p in (ROOT / "spare_demo").rglob("*.py") if part(p) != "__init__")
SOURCES += [p for p in [ROOT / "app.py"] if p.exists()]


def sources_of(*parts: str) -> list[Path]:
    return [path for path in SOURCES if part(path) in parts]


def arrows() -> set[tuple[str, str]]:
    """Which room imports from which."""
    pairs = {(part(path), own) for path in SOURCES for own in own_parts(path)}
    return {(room, own) for room, own in pairs if room != own}


def floors(pairs: set[tuple[str, str]]) -> int:
    """How many rooms the longest chain of imports passes through."""

    @functools.cache
    def height(room: str) -> int:
        return 1 + max((height(below) for above, below in pairs if above == room), default=0)

    return max(height(room) for room, _ in pairs)


def test_every_file_stands_on_a_floor_and_imports_from_those_below() -> None:
    for path in SOURCES:
        room = part(path)
        assert room in FLOOR, f"{path} stands on no floor. Give its room a place in FLOORS."
        unknown = own_parts(path) - set(FLOOR)
        assert not unknown, f"{path} imports {unknown}, which stand on no floor."
        level = {other for other in own_parts(path) - {room} if FLOOR[other] >= FLOOR[room]}
        assert not level, f"{path} must not import {level}: imports point down the floors."


def test_only_a_results_own_files_go_up_by_a_public_name() -> None:
    """The package imports a public name on first use, which `imports` does not see."""
    calls = {
        (path.name, node.attr)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in _HOME
        if isinstance(node.value, ast.Name) and node.value.id == "spare_demo"
    }
    upward = {"saved_page", "write_files", "read_result"}  # of Result's html, save and load
    assert calls == {("result.py", name) for name in upward}


def test_the_house_stays_small() -> None:
    flat = [path for path in (ROOT / "spare_demo").glob("*.py")]
    rooms = {part(path) for path in SOURCES} | {"benchmarks"}
    pairs = arrows()
    print(
        f"\n{len(flat)} flat files, {len(rooms)} rooms, {floors(pairs)} floors, {len(pairs)} arrows"
    )
    assert len(flat) <= MOST_FLAT_FILES
    assert len(rooms) <= MOST_ROOMS
    assert len(FLOORS) <= MOST_FLOORS and floors(pairs) <= MOST_FLOORS


def test_the_science_imports_torch_and_nothing_heavier() -> None:
    for path in sources_of(*SCIENCE):
        assert libraries(path) <= LIGHT, path
        assert own_parts(path) <= SCIENCE, path
        if part(path) == "measures":
            assert "pruners" not in own_parts(path)
        if part(path) == "pruners":
            assert "measures" not in own_parts(path), path


def test_only_the_page_imports_gradio() -> None:
    users = [path for path in SOURCES if libraries(path) & {"gradio", "gradio_client"}]
    assert {part(path) for path in users} <= {"ui"}


def test_one_file_imports_each_extra() -> None:
    users = {
        (library, path.name)
        for path in SOURCES
        for library in libraries(path) & {"ray", "datasets", "fsspec", "lmms_eval"}
    }
    assert users == {
        ("ray", "on_ray.py"),
        ("datasets", "hub_data.py"),
        ("fsspec", "hub_data.py"),
        ("lmms_eval", "lmms_eval.py"),
    }


def test_one_folder_touches_the_inside_of_gradio() -> None:
    inside = re.compile(
        r"gradio\.(utils|processing_utils|data_classes)|\._data\b|state_holder|mcp_server_obj"
        r"|\.(temp_files|keep_in_cache|api_info|example_inputs)\b|ABCMeta"
    )
    users = {path.parent.name for path in sources_of("ui") if inside.search(path.read_text())}
    assert users == {"gradio_compat"}


def test_drawing_needs_no_model() -> None:
    for path in sources_of("render"):
        assert not libraries(path) & MODEL_LIBRARIES, path
        assert "models" not in own_parts(path), path


def test_models_know_neither_the_page_nor_the_drawn_world() -> None:
    for path in sources_of("models"):
        assert not own_parts(path) & {"ui", "scenes", "comparison", "render"}, path


def test_no_file_cites_a_document_that_does_not_ship() -> None:
    kinds = ("*.py", "*.md", "*.js", "*.css", "*.html", "*.toml", "Dockerfile", ".ci")
    listed = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, check=True)
    shipped = listed.stdout.decode().split()
    documents = {Path(name).name for name in shipped if name.endswith(".md")}
    for name in shipped:
        path = ROOT / name
        cited = set(re.findall(r"\b(?:PLATFORM|METHODS|DESIGN|STYLE|PAGE)\.md\b", path.read_text()))
        assert path == Path(__file__) or cited <= documents, f"{name} cites {cited - documents}"


def test_every_text_file_says_its_encoding() -> None:
    """Windows takes one of its own where none is said."""
    places = {"read_text": 0, "write_text": 1}  # of the encoding among the arguments
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (place := places.get(node.func.attr)) is not None and len(node.args) <= place
        if "encoding" not in {keyword.arg for keyword in node.keywords}
    ]
    assert not silent


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


if __name__ == "__main__":
    for room in (room for rooms in reversed(FLOORS) for room in rooms):
        below = sorted({own for above, own in arrows() if above == room})
        print(f"floor {FLOOR[room]}  {room:<13} {', '.join(below)}")
    test_the_house_stays_small()
