"""result.json: a `Result` written down, and read back to be looked at and drawn without its model.

The file holds the fields of `Result` and, beside them, the format, the versions that made it, the
picture, and what can be had from the fields: the cost of each answer, and how many picks were near
ties. Indices are in the order picked, numbers are raw, and nothing tells where on a disk the
picture or the model lay.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from PIL import Image
from pydantic import TypeAdapter, ValidationError

import spare_demo
from spare_demo.analysis.cost import cost_rows
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.images.load import open_picture, photo_digest
from spare_demo.render.base import png_bytes
from spare_demo.tokens import Selection, cpu_by_default

FORMAT = 3
"""Version of the layout, that of the fields of `Result`."""

PACKAGES = ("torch", "transformers", "open_clip_torch", "pillow", "numpy", "plotly")
"""Those whose version may change what is found or drawn."""

MOST_LISTS = 32
"""Pick lists of one file: each is answered, and drawn beside all others."""

_UNREADABLE = (
    "This is not a result.json of this program, or it is damaged. Give the file that a comparison "
    "wrote."
)
_NOT_A_LIST = (
    "These picks could not be read. Give patch indices as a list of whole numbers, such as "
    "[3, 17, 240]."
)
_GREY = (160, 160, 160)
_MOST_PIXELS = 40_000_000

# What is no plain number, and is not written.
_NOT_WRITTEN: Any = {
    **dict.fromkeys(("photo", "view", "partial_text"), True),
    "selections": {"__all__": {"features", "bias"}},
    "plans": {"__all__": {"entering": {"features", "bias"}}},
    "answers": {"__all__": {"first_logits"}},
}


@dataclass(frozen=True, eq=False)
class SavedResult:
    """What was in a file.

    Attributes:
        result: as it was written; its request, hand-made sets included, can be run again.
        notes: what differs from this version, and what could not be opened, in sentences.
        pictured: whether the picture is the true one; else it is a grey one.
    """

    result: Result
    notes: tuple[str, ...]
    pictured: bool


def versions() -> dict[str, str]:
    """What runs here, by name."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "spare_demo": spare_demo.__version__,
    }


def to_json(result: Result, with_picture: bool = False) -> dict[str, Any]:
    """A finished result as JSON values.

    with_picture: also the photo itself, losslessly, so that it can be drawn again.
    """
    photo = result.photo
    picture = {"width": photo.width, "height": photo.height, "sha256": photo_digest(photo)}
    if with_picture:
        picture["png"] = base64.b64encode(png_bytes(photo)).decode("ascii")
    return {
        "format": FORMAT,
        "versions": versions(),
        "picture": picture,
        **_schema().dump_python(result, mode="json", exclude=_NOT_WRITTEN, fallback=repr),
        "cost": [dataclasses.asdict(row) for row in cost_rows(result.answers)],
        "near_ties": {label: kept.near_ties for label, kept in result.selections.items()},
    }


def write_result(result: Result) -> str:
    """The text of result.json, the picture included: `read_result` draws the same from it again."""
    data = to_json(result, with_picture=True)
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@cpu_by_default()
def read_result(text: str, photo: Image.Image | None = None) -> SavedResult:
    """Read a result.json.

    photo: the picture, for a file that does not hold it; upright RGB.

    Raises ValueError, with a sentence to show: no such file, damaged, or another photo.
    """
    try:
        # NaN and infinity are no JSON, but Python reads them.
        real, whole = partial(_read_number, float, 1e30), partial(_read_number, int, 2**63)
        data = json.loads(text, parse_float=real, parse_int=whole, parse_constant=real)
        json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair cannot be written
    except (ValueError, RecursionError):
        raise ValueError(_UNREADABLE) from None
    if not isinstance(data, dict) or not isinstance(data.get("selections"), dict):
        raise ValueError(_UNREADABLE)
    notes = _differences(data)
    try:
        size, picture = _picture(data["picture"], photo)
        # Strict, and so from text, where a list may stand for a tuple: else "9" would be a number.
        fields = json.dumps(data | {"photo": None, "view": None, "picture": None})
        result = _schema().validate_json(fields, strict=True)
        _check(result, size)
    except _DAMAGE:
        if data.get("format") == FORMAT:
            raise ValueError(_UNREADABLE) from None
        raise ValueError(
            f"{_other_format(data)}, and this one cannot read it. Use the version that made it."
        ) from None
    if picture is None:
        notes.append(
            "The file does not hold the picture, so it is drawn grey. Give the picture as "
            "well to see it."
        )
    elif picture.size != size or photo_digest(picture) != data["picture"]["sha256"]:
        raise ValueError(
            "The picture is not the one this result was made of. Give the one it was made of."
        )
    photo_shown = picture or Image.new("RGB", size, _GREY)
    result = _replace_unknown(dataclasses.replace(result, photo=photo_shown, view=None), notes)
    return SavedResult(result, tuple(notes), picture is not None)


def read_pick_lists(text: str, label: str) -> dict[str, Selection]:
    """A file of picks -> selections by label; that they fit the picture is checked when used.

    The file holds one list (which gets `label`), {label: list, …}, or a whole result.json.

    Raises ValueError, with a sentence to show: not lists of whole numbers, none at all, too many
    (`MOST_LISTS`), or repeats.
    """
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):  # the page may send a number as text
        raise ValueError(_NOT_A_LIST) from None
    if isinstance(data, list):
        return {label: _selection_of(data)}
    if isinstance(data, dict) and isinstance(data.get("selections"), dict):
        data = {
            # Picks can be imported, the rows that they were merged into cannot.
            f"{name} (unmerged)" if isinstance(item, dict) and item.get("sources") else name: (
                item.get("order") if isinstance(item, dict) else item
            )
            for name, item in data["selections"].items()
        }
    if not isinstance(data, dict) or not data or UNPRUNED in data:
        raise ValueError(_NOT_A_LIST)
    if len(data) > MOST_LISTS:
        raise ValueError(
            f"These are {len(data)} lists of patches; at most {MOST_LISTS} are compared at a time. "
            "Split them into several files."
        )
    return {name: _selection_of(indices) for name, indices in data.items()}


def read_pick_list(text: str, label: str) -> Selection:
    """As `read_pick_lists`, where exactly one list is wanted; ValueError for several."""
    lists = read_pick_lists(text, label)
    if len(lists) > 1:
        raise ValueError(
            f"These are {len(lists)} lists of patches, and one is wanted. Send one of them, such "
            "as [3, 17, 240]."
        )
    return lists.popitem()[1]


# What reading a part raises that is missing, of another kind, or beyond any number.
_DAMAGE = (ValidationError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


@cache
def _schema() -> TypeAdapter[Result]:
    return TypeAdapter(Result)


def _read_number(kind: Callable[[str], float], most: float, text: str) -> float:
    """ValueError for a number that no comparison has: nothing can be drawn to it, or reckoned."""
    value = kind(text)
    if not abs(value) <= most:
        raise ValueError
    return value


def _picture(item: Any, photo: Image.Image | None) -> tuple[tuple[int, int], Image.Image | None]:
    """The size that the file gives, and the picture: the file's own, or the one given."""
    size = (int(item["width"]), int(item["height"]))
    if not 1 <= size[0] * size[1] <= _MOST_PIXELS or min(size) < 1:
        raise ValueError
    if "png" in item:
        photo = open_picture(base64.b64decode(item["png"], validate=True))
    return size, photo


def _check(result: Result, size: tuple[int, int]) -> None:
    """ValueError unless the parts of a result fit each other."""
    n, labels = result.visual_tokens, set(result.methods)
    before = labels - set(result.inside)
    if result.grid.n != n or result.grid.photo_size != size or not result.finished:
        raise ValueError
    for part in result.grid.parts:
        if part.patch < 1 or not all(0 < side < math.inf for side in part.scale):
            raise ValueError
        x0, y0, x1, y1 = part.seen  # empty where no token lies on the picture
        if x0 >= x1 or y0 >= y1 or any(abs(pixels) > _MOST_PIXELS for pixels in part.shift):
            raise ValueError
    by_label = (result.selections, result.weights, result.leftover)
    if any(set(values) != before for values in by_label) or set(result.plans) != labels - before:
        raise ValueError
    if any(method.planned_by_hand and not method.inside for method in result.methods.values()):
        raise ValueError
    maps = (result.relevance, *result.weights.values(), *result.leftover.values())
    arrays = [a for a in maps if a is not None]
    if result.reconstruction is None or any(len(a) != n for a in arrays):
        raise ValueError
    errors, kl = result.reconstruction, result.kl
    spread = (errors.random.mean, errors.random.low, errors.random.high)
    _check_curves(errors.budgets, (*errors.errors.values(), *spread, errors.bound))
    if not all(values.isfinite().all() for values in (*arrays, *spread, errors.bound)):
        raise ValueError
    if kl is not None:
        _check_curves(kl.budgets, (*kl.series.values(), *kl.random))
    entering = (plan.entering for plan in result.plans.values())
    for selection in (*result.selections.values(), *filter(None, entering)):
        if selection.check(n).size < 1:
            raise ValueError
    for label, answer in result.answers.items():
        if not answer.kept_per_layer or (label in result.plans and not answer.layer_sets):
            raise ValueError
        for layer_set in answer.layer_sets:
            tokens = [*layer_set.kept.tolist(), *layer_set.merged.tolist()]
            if not all(0 <= token < n for token in tokens):
                raise ValueError


def _check_curves(budgets: Sequence[int], curves: Sequence[Sized]) -> None:
    """ValueError unless budgets ascend from 1 or more, and each curve has a value for each."""
    if not budgets or budgets[0] < 1 or list(budgets) != sorted(set(budgets)):
        raise ValueError
    if any(len(curve) != len(budgets) for curve in curves):
        raise ValueError


def _replace_unknown(result: Result, notes: list[str]) -> Result:
    """The result with each method that this version lacks as a set of its own, and a note of it."""
    methods = dict(result.methods)
    for label, record in methods.items():
        try:
            record.method()
        except ValueError:
            name = str(record.name)[:40]
            if record.inside:
                raise ValueError(
                    f"The method {name!r}, which acts inside the language model, is not in this "
                    "version. Make the comparison again without it."
                ) from None
            notes.append(
                f"The method {name!r} with these settings is not in this version: its tokens are "
                f"shown as a set of its own, {label!r}."
            )
            methods[label] = dataclasses.replace(record, name=None, title=label, settings={})
    return dataclasses.replace(result, methods=methods)


def _differences(data: Mapping[str, Any]) -> list[str]:
    """What another version made otherwise, in sentences."""
    notes = []
    if data.get("format") != FORMAT:
        notes.append(f"{_other_format(data)}; what both know is shown.")
    recorded = data.get("versions")
    if not isinstance(recorded, Mapping):
        return notes
    other = [
        f"{name} {recorded[name]} (here {here})"
        for name, here in versions().items()
        if name in recorded and recorded[name] != here
    ]
    if other:
        notes.append(
            f"It was made with {', '.join(other)}: pictures may differ from the first ones in "
            "single pixels, and answers in their words."
        )
    return notes


def _other_format(data: Mapping[str, Any]) -> str:
    """The beginning of a sentence about a file of another format."""
    number = data.get("format")
    age = "a newer" if isinstance(number, int) and number > FORMAT else "an older"
    return (
        f"This result was made by {age} version of the program (format {str(number)[:40]}, here "
        f"{FORMAT})"
    )


def _selection_of(indices: object) -> Selection:
    if not isinstance(indices, list) or any(type(index) is not int for index in indices):
        raise ValueError(_NOT_A_LIST)
    return Selection(indices)  # type: ignore[arg-type]  # a list is read as the tensor it means
