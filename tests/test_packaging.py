"""What the README, the Dockerfile and the requirements promise, held against each other."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import open_clip
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from spare_demo.models.loading.catalogue import LARGER, LLAVA_7B, OPENAI_CLIP, TINY_LLAVA
from spare_demo.models.loading.text_tower import CONFIG_FILE, WEIGHTS_FILE
from spare_demo.pruners import PRUNERS
from spare_demo.settings import read_variables

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

SERVE = (
    "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/python app.py"
)
TEST = (
    "python3 -m venv .venv && .venv/bin/pip install -r requirements-dev.txt && "
    ".venv/bin/python -m pytest"
)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def by_name(lines: Iterable[str]) -> dict[str, Requirement]:
    return {item.name: item for item in map(Requirement, lines)}


def requirements(name: str) -> dict[str, Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return by_name(line for line in lines if line and not line.startswith(("#", "-r")))


def bounds(requirement: Requirement) -> tuple[Version, Version]:
    """The lowest version, and the first that is too high."""
    signs = {part.operator: Version(part.version) for part in requirement.specifier}
    assert signs.keys() == {">=", "<"}, requirement
    return signs[">="], signs["<"]


def front_matter() -> dict[str, object]:
    _, head, _ = README.split("---\n", 2)
    values: dict[str, object] = yaml.safe_load(head)
    return values


def test_the_readme_has_both_commands_and_ci_runs_the_second() -> None:
    lines = README.splitlines()
    assert SERVE in lines
    assert TEST in lines
    assert TEST in CI.splitlines()


def test_the_check_is_a_program_that_stops_at_the_first_failure() -> None:
    path = ROOT / ".ci" / "run"
    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in CI.splitlines()
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_bounded_on_both_sides(name: str) -> None:
    found = requirements(name)
    assert found
    for requirement in found.values():
        signs = {part.operator for part in requirement.specifier}
        assert signs & {">=", "=="}, requirement
        assert signs & {"<", "<=", "=="}, requirement


def test_every_extra_is_bounded_and_a_guide_says_how_to_install_it() -> None:
    guides = [ROOT / "docs" / name for name in ("GUIDE.md", "CONTRIBUTING.md", "REPRODUCE.md")]
    words = "".join(guide.read_text(encoding="utf-8") for guide in guides)
    for name, lines in PROJECT["optional-dependencies"].items():
        for requirement in map(Requirement, lines):
            signs = {part.operator for part in requirement.specifier}
            assert signs & {">=", "=="} and signs & {"<", "<=", "=="}, requirement
        assert f'pip install ".[{name}]"' in words  # which Windows reads too


def test_commands_for_windows_run_in_each_of_its_shells() -> None:
    blocks = re.findall(r"```bat\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks and not re.search("&&|'|#|/", "".join(blocks))


def test_the_package_takes_all_versions_that_the_page_is_served_with() -> None:
    served, taken = requirements("requirements.txt"), by_name(PROJECT["dependencies"])
    assert served.keys() == taken.keys()
    for name, requirement in served.items():
        low, high = bounds(requirement)
        lowest, highest = bounds(taken[name])
        assert lowest == low and high <= highest, requirement


def test_the_test_requirements_hold_the_others() -> None:
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()


def test_the_space_asks_for_versions_that_the_requirements_allow() -> None:
    head = front_matter()
    assert head["sdk"] == "gradio"
    assert Version(str(head["sdk_version"])) in requirements("requirements.txt")["gradio"].specifier
    # transformers 5.23 needs 3.11 or newer, and ZeroGPU offers 3.10.13 and this one.
    assert head["python_version"] == "3.12.12"
    assert (ROOT / str(head["app_file"])).is_file()
    assert len(str(head["short_description"])) <= 60
    assert "LICENSE" in README
    assert head["license"] == "apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_a_space_holds_the_models_of_cpu_basic_before_its_first_visitor() -> None:
    preloaded = [str(line).split(" ") for line in front_matter()["preload_from_hub"]]
    files = {repository: files for repository, *files in preloaded}
    clip = open_clip.get_pretrained_cfg(*OPENAI_CLIP)["hf_hub"].rstrip("/")
    assert files == {str(TINY_LLAVA.source): [], clip: [f"{CONFIG_FILE},{WEIGHTS_FILE}"]}
    assert set(files) | {str(LLAVA_7B.source)} == set(front_matter()["models"])


def test_no_file_is_too_large_for_a_plain_upload() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert max(path.stat().st_size for path in paths if path.exists()) < 10_000_000


@pytest.mark.parametrize("torch", ["cpu", "cu130"])
def test_the_image_takes_pytorch_from_the_index_of_its_argument(torch: str, tmp_path: Path) -> None:
    """The commands of the Dockerfile, with programs in the place of pip and apt-get."""
    for name in ("pip", "apt-get"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    joined = DOCKERFILE.replace("\\\n", " ")
    commands = re.findall(r"^RUN (.*(?:pip|apt-get).*)$", joined, re.MULTILINE)
    environment = {"TORCH": torch, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    script = "set -e\n" + "\n".join(commands).replace("/tmp/", f"{tmp_path}/")
    script = script.replace("/var/lib/apt/lists", str(tmp_path / "lists"))
    ran = subprocess.run(
        ["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    compiler = {"apt-get", "install", "gcc", "libc6-dev"}  # which Triton needs on a GPU
    assert any(compiler <= set(line.split()) for line in ran) == (torch != "cpu")
    first, second = (line for line in ran if line.startswith("pip"))
    assert first.endswith(f"--index-url https://download.pytorch.org/whl/{torch}")
    assert "requirements.txt" in second and "--index-url" not in second
    names = {Requirement(line).name for line in (tmp_path / "torch.txt").read_text().splitlines()}
    assert names == {"torch", "torchvision"}


def test_what_the_dockerfile_copies_is_there_and_is_sent() -> None:
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = set()
    for line in DOCKERFILE.splitlines():
        if line.startswith("COPY"):
            *sources, _ = [word for word in shlex.split(line)[1:] if not word.startswith("--")]
            copied |= set(sources)
    assert copied == sent
    for source in copied:
        assert (ROOT / source).exists(), source


def test_the_image_serves_on_every_network_and_keeps_weights_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "FROM python:3.11-slim" in DOCKERFILE
    variables = dict(re.findall(r"(\w+)=(\S+)", DOCKERFILE))
    monkeypatch.setattr("os.environ", variables)
    settings = read_variables()
    assert (settings.host, settings.port) == ("0.0.0.0", 7860)
    assert "EXPOSE 7860" in DOCKERFILE
    assert f"VOLUME {variables['HF_HOME']}" in DOCKERFILE
    assert variables["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert variables["GRADIO_TEMP_DIR"].startswith("/home/user/")
    assert "--uid 1000" in DOCKERFILE


def test_the_readme_lists_every_method_with_its_file() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| \[[\w.]+\]\(([\w/.]+)\)", README, re.MULTILINE))
    assert list(rows) == list(PRUNERS), (
        "Give each method one row of the README's table of methods, in the order of PRUNERS."
    )
    for name, path in rows.items():
        module = type(PRUNERS[name]).__module__
        assert path == module.replace(".", "/") + ".py"


def test_the_readme_says_the_memory_of_each_model_as_the_table_of_models_does() -> None:
    for entry in (TINY_LLAVA, LLAVA_7B, *LARGER):
        rows = re.findall(rf"^\| .*`{re.escape(entry.name)}`.* GB.*$", README, re.MULTILINE)
        (needed,) = re.findall(r"^\d+ GB", entry.needs)
        assert len(rows) == 1 and re.search(rf"\b{needed}", rows[0]), (
            f"Name {entry.name} in one row of the README's table of models, with its {needed}."
        )


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_every_path_of_a_page_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for path in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / page).parent.joinpath(path).exists(), path
    for path in re.findall(r"\b(?:assets|benchmarks|tests)/[\w./-]+\w", text):
        assert (ROOT / path).exists(), path


def test_the_harness_finds_its_adapter_by_the_entry_point() -> None:
    (place,) = PROJECT["entry-points"]["lmms_eval.models"].values()
    module, name = place.split(":")
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    assigned = {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets}  # type: ignore[attr-defined]
    assert name in assigned
    requirement, held_back = map(Requirement, PROJECT["optional-dependencies"]["lmms-eval"])
    assert requirement.name == "lmms-eval" and "0.7.3" in requirement.specifier
    assert requirement.name not in requirements("requirements.txt")
    assert held_back.name == "filelock" and "4.3" not in held_back.specifier
