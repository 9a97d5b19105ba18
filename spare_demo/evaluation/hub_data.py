"""Questions of a dataset that `datasets` reads, from the Hugging Face hub or from a folder.

The only file that imports it. Rows are streamed. A picture counts by what it holds, so rows with
the same picture are one sheet. Pictures that come as bytes are kept beside the hub's cache.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from spare_demo.evaluation.sheets import (
    Fields,
    Sheet,
    group_by_picture,
    own_sheet,
    read_question,
)
from spare_demo.images.load import file_digest

PREFIX = "hf:"
"""What the name of a dataset begins with."""

_OPTIONAL = ("choices", "category")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
# By any other chain, such as "file:///…::", fsspec would leave the dataset.
_MEMBER = re.compile(r"(zip|tar)://[^:]+")


def read_dataset(
    source: str,
    config: str | None,
    fields: Fields,
    most: int | None,
    skip: Callable[[str], None],
) -> list[Sheet]:
    """The questions of a dataset's split, one to a row, by picture.

    source: "hf:OWNER/NAME:SPLIT", or "hf:FOLDER:SPLIT" for a folder that `datasets` can load.
    config: which of the dataset's configurations; None where it has one.
    fields: what its fields are called. A picture is bytes, a path inside the dataset or a URL
        inside the dataset. Choices and category may be missing; the rest as of `read_question`.
    most: how many rows are read; None: all.
    skip, and what is returned: as of `group_by_picture`.

    Raises OSError: a picture cannot be kept. ValueError: no such dataset, split or field; nothing
    usable in it; `datasets` is missing.
    """
    name, _, split = source.removeprefix(PREFIX).rpartition(":")
    if not name or not split:
        raise ValueError(f"--data {source} names no split. Give it as {PREFIX}OWNER/NAME:SPLIT.")
    rows = _open(name, config, split, fields)
    # Of a ClassLabel a row holds the number of the label, which is no answer.
    labels = {k: f for k, f in (rows.features or {}).items() if hasattr(f, "int2str")}
    entries = (
        (f"row {number} of {name}", functools.partial(_read_row, row, name, fields, labels))
        for number, row in enumerate(_guarded(rows, name), start=1)
    )
    sheets = group_by_picture(itertools.islice(entries, most), skip)
    if not sheets:
        raise ValueError(f"The split {split} of {name} has no usable question. Choose another.")
    return sheets


def _open(name: str, config: str | None, split: str, fields: Fields) -> Any:
    """The rows of a split, with the wanted fields alone and pictures as they are stored."""
    try:
        import datasets
    except ImportError:
        raise ValueError(
            'Datasets of the hub need the package datasets. Install it: pip install ".[datasets]"'
        ) from None
    try:
        builder = datasets.load_dataset_builder(name, config)
        if hasattr(builder.config, "keep_default_na"):  # of tables
            builder.config.keep_default_na = False  # an answer may be "None", or "NA"
        splits = builder.as_streaming_dataset()
        if split not in splits:
            raise ValueError(f"it has no split {split}, only {', '.join(map(str, splits))}")
        rows = splits[split]
        columns = rows.column_names or list(next(iter(rows), {}))
    except Exception as error:  # readers of foreign files raise whatever they like
        raise ValueError(_unreadable(name, error)) from None
    for role, field in vars(fields).items():
        if field not in columns and role not in _OPTIONAL:
            raise ValueError(
                f"{name} has no field {field}, only {', '.join(columns)}. Name the one that holds "
                f"the {role} with --{role}-field."
            )
    rows = rows.select_columns([field for field in vars(fields).values() if field in columns])
    if isinstance((rows.features or {}).get(fields.picture), datasets.Image):
        rows = rows.cast_column(fields.picture, datasets.Image(decode=False))
    return rows


def _guarded(rows: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """The rows; ValueError with a sentence for what their reader raises."""
    try:
        yield from rows
    except Exception as error:
        raise ValueError(_unreadable(name, error)) from None


def _unreadable(name: str, error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    away = isinstance(error, ConnectionError)
    advice = " Check the network, or use data that is on this machine." if away else ""
    return f"The dataset {name} cannot be read: {lines[0].rstrip('.')}.{advice}"


def _read_row(
    row: Mapping[str, Any], name: str, fields: Fields, labels: Mapping[str, Any]
) -> Sheet:
    texts = {k: label.int2str(row[k]) for k, label in labels.items() if row[k] is not None}
    question = read_question({**row, **texts}, fields)
    file = _picture_file(row[fields.picture], name, fields.picture)
    return own_sheet(file_digest(file)[:16], file, question)


def _picture_file(value: Any, name: str, field: str) -> Path:
    """A file on this machine with the bytes of a picture.

    value: bytes, a path or URL inside the dataset `name`, perhaps inside an archive there
    ("zip://cat.png::photos.zip"), or {bytes, path}, as `datasets` stores a picture.
    """
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return _keep(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f'"{field}" holds no picture')
    archived, colons, place = value.rpartition("::")
    source = _inside_folder(place, Path(name)) if Path(name).is_dir() else _inside_hub(place, name)
    if source is None or (colons and not _MEMBER.fullmatch(archived)):
        raise ValueError(f"the picture {value} is outside the dataset")
    if isinstance(source, Path) and not colons:
        if not source.is_file():
            raise ValueError(f"there is no picture {value} in the dataset")
        return source
    return _keep(_read(f"{archived}{colons}{source}"))


def _inside_folder(place: str, folder: Path) -> Path | None:
    """The file of a path inside the folder; None for one elsewhere."""
    file = (folder / place).resolve()
    return file if file.is_relative_to(folder.resolve()) else None


def _inside_hub(place: str, name: str) -> str | None:
    """The address that fsspec opens, or None for one elsewhere; place: a path or a URL."""
    inside = f"hf://datasets/{name}"
    if not _SCHEME.match(place):
        place = f"{inside}/{place}"
    web = re.escape(f"{constants.ENDPOINT}/datasets/{name}/resolve/")
    place = re.sub(f"^{web}([^/]+)/", rf"{inside}@\1/", place)
    is_inside = place.startswith((f"{inside}/", f"{inside}@")) and ".." not in place.split("/")
    return place if is_inside else None


def _read(address: str) -> bytes:
    import fsspec  # comes with datasets

    try:
        with fsspec.open(address, "rb") as stream:
            return bytes(stream.read())
    except (OSError, ValueError) as error:
        raise ValueError(f"the picture {address} cannot be read ({error})") from None


def _keep(data: bytes) -> Path:
    """The file of these bytes, written unless it is there."""
    folder = Path(constants.HF_HOME) / "spare-demo" / "pictures"
    file = folder / hashlib.sha256(data).hexdigest()
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        os.replace(part, file)
    return file
