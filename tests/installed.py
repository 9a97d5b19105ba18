"""The package as pip installs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "LICENSE", "README.md")
FOLDERS = ("assets", "spare_demo")


def install(folder: Path) -> Path:
    """A folder in this one with nothing but the package, built from what the checkout ships."""
    source = folder / "source"  # the build leaves files behind, which the checkout must not get
    source.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    target = folder / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, source], check=True)
    return target
