"""Settings of methods as text: read, applied and written back.

    divprune.metric=euclidean                 one setting, of `--set`
    zoo-prune:directions=16,step=0.1          a method as it is set, wherever a name goes

The fields themselves, with their labels and limits, are those of the methods' dataclasses.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr as brief
from typing import Any

from spare_demo.pruners import PRUNERS, Method

Changes = dict[str, dict[str, Any]]
"""{method: {field: value}}."""

_KINDS: dict[type, tuple[Callable[[str], Any], str]] = {
    bool: (lambda text: {"true": True, "false": False}[text.lower()], "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    str: (str, "a text"),
}
"""How the text of a field is read, by the type of its limits or of its default, and in words."""


def check_settings(method: Method) -> None:
    """Raise ValueError, with a sentence to show, for a method that has no fields to set."""
    if not dataclasses.is_dataclass(method):
        name = type(method).__name__
        raise ValueError(
            f"{name} must be a dataclass, whose fields are its settings. Write "
            f"@dataclass(frozen=True) above class {name}."
        )


def fields_of(method: Any) -> dict[str, dataclasses.Field[Any]]:
    """The settings of a method by name, in the order of its file."""
    return {field.name: field for field in dataclasses.fields(method) if field.init}


def read_options(texts: Sequence[str]) -> Changes:
    """ "method.field=value" -> the values as the fields have them; the last of two wins.

    Raises ValueError, with a sentence to show, for anything that is no setting of `PRUNERS`.
    """
    changes: Changes = {}
    for text in texts:
        path, equals, value = text.partition("=")
        name, dot, field = path.replace(" ", "").rpartition(".")
        if not (equals and dot):
            raise ValueError(
                f"The setting {brief(text)} cannot be read. Write METHOD.SETTING=VALUE, such as "
                "divprune.metric=euclidean."
            )
        if name not in PRUNERS:
            raise ValueError(no_method(name))
        read = read_value(PRUNERS[name], field, value.strip())
        changes.setdefault(name, {})[field] = read
    for name, values in changes.items():
        # Refuses what is out of range before anything runs.
        dataclasses.replace(PRUNERS[name], **values)  # type: ignore[type-var]
    return changes


def read_method(text: str) -> Any:
    """A name of `PRUNERS`, or "name:field=value,field=value" -> the method as it is set.

    Raises ValueError, with a sentence to show, for anything else.
    """
    name, _, settings = text.partition(":") if isinstance(text, str) else (text, "", "")
    if isinstance(name, Method):
        raise ValueError(
            "A list of methods takes names. Pass {label: method} for one that is ready-made, such "
            f"as {{{name.name!r}: {type(name).__name__}(…)}}."
        )
    if not isinstance(name, str) or name not in PRUNERS or "@" in settings:
        raise ValueError(no_method(text if "@" in settings else name))
    usual: Any = PRUNERS[name]
    if isinstance(usual, type):
        instance = f"{usual.__name__}()"
        raise ValueError(f"{name!r} is set to a class. Write PRUNERS[{name!r}] = {instance}.")
    check_settings(usual)
    texts = [f"{name}.{part}" for part in settings.split(",") if part]
    set_fields = Counter(text.partition("=")[0].replace(" ", "") for text in texts)
    if twice := [path for path, count in set_fields.items() if count > 1]:
        raise ValueError(f"{brief(text)} sets {twice[0]} twice. Leave one out.")
    return dataclasses.replace(usual, **read_options(texts).get(name, {}))


def seeds_of(text: str) -> list[str]:
    """The "seed=…" among the settings of what `read_method` reads."""
    parts = text.partition(":")[2].replace(" ", "").split(",")
    return [part for part in parts if part.startswith("seed=")]


def no_method(name: object) -> str:
    """The sentence about a name that is no method's, with the nearest one that is."""
    if not isinstance(name, str):
        return f"A method is called by its name. Choose one of: {', '.join(PRUNERS)}."
    plain, mark, _ = name.partition("@")
    if mark and plain.partition(":")[0] in PRUNERS:
        return (
            f"{brief(name)} is a label that evaluate alone reads. Write {plain!r:.200}. For what "
            "stands after the @ the command compare has options, such as --guidance-text words. In "
            "Python, compare takes relevance=RelevanceOptions(…) and positions; prune takes "
            "guidance_text and positions alone."
        )
    near = difflib.get_close_matches(name.lower(), PRUNERS, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no method {brief(name)}.{meant} Choose one of: {', '.join(PRUNERS)}."


def write_method(name: str, values: Mapping[str, Any], usual: Method | None = None) -> str:
    """What `read_method` reads: the name, and the values that are not those of the usual method."""
    usual = PRUNERS[name] if usual is None else usual
    changes = [f"{key}={value}" for key, value in values.items() if value != getattr(usual, key)]
    return f"{name}:{','.join(changes)}" if changes else name


def read_value(method: Any, field: str, text: str) -> Any:
    """A setting's text as its type; ValueError for an unknown setting or no number."""
    fields = fields_of(method)
    if field not in fields:
        there_are = f"It has: {', '.join(fields)}." if fields else "It has none."
        raise ValueError(f"The method {method.name!r} has no setting {brief(field)}. {there_are}")
    limits = fields[field].metadata.get("limits")
    usual = limits[0] if limits else getattr(method, field)
    if type(usual) not in _KINDS:
        raise ValueError(f"The setting {field!r} of {method.name!r} has no text. Set it in Python.")
    read, kind = _KINDS[type(usual)]
    try:
        return read(text)
    except (KeyError, ValueError):
        if limits:
            return text  # the method says itself what it wants instead
        problem = f"{field} of {type(method).__name__} cannot be {brief(text)}."
        raise ValueError(f"{problem} Choose {kind}.") from None


def changes_of(method: Any) -> dict[str, Any]:
    """The settings in which a method differs from the table's of its name, seeds left out."""
    usual = PRUNERS.get(method.name)
    if type(usual) is not type(method):
        return {}
    values = {name: getattr(method, name) for name in fields_of(method) if name != "seed"}
    # Of two tensors == says no one truth: they are the same only where they are one.
    return {
        name: value
        for name, value in values.items()
        if value is not (other := getattr(usual, name)) and (value == other) is not True
    }


def title_of(method: Method, by_words: bool = False) -> str:
    """The method's title and its settings where not the defaults: "DivPrune (metric=euclidean)".

    by_words: as of `VisualTokens`; then a method that reads relevance is not as in its paper, and
    its title says so: "SPARE by words".
    """
    title = f"{method.title} by words" if by_words and method.reads_relevance else method.title
    settings = changes_of(method)
    changes = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"{title} ({changes})" if changes else title
