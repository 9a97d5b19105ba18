"""Every setting and limit of the app, in one place: a flag wins over its variable, a variable over
the default. `--port 8000` and `SPARE_PORT=8000` say the same.

Standard library only, so that `--help` and a wrong flag answer at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from configparser import ConfigParser
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

OWN_ADDRESSES = ("127.0.0.1", "::1", "localhost")
METHODS_GROUP = "spare_demo.methods"
"""Of the entry points by which other packages bring methods."""
BITS = (16, 8, 4)
CAPTURES = ("auto", "on", "off")
"""When prefills are captured: where it is safe and gives the usual results, always, or never."""
SYSTEMS = ("auto", "none", "vicuna_v1")

_KINDS = {bool: "1 or 0", int: "a whole number", tuple: "whole numbers"}


def _setting(default: Any, help: str, choices: tuple[Any, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """What the app was started with; ValueError for a value out of range, naming both."""

    model: str = _setting(
        "auto",
        "catalogue name, a local checkpoint folder, a repository of the Hugging Face hub, or auto "
        "(see python -m spare_demo models)",
    )
    models: tuple[str, ...] = _setting(
        (), "more models to choose from on a private page: names, folders, repositories of the hub"
    )
    without_language_model: bool = _setting(
        False,
        "load the vision side and CLIP's text side alone: real picks and maps of any model on any "
        "computer, a fraction of the download, no answers",
    )
    system: str = _setting(
        "auto",
        "system sentence of the prompt: vicuna_v1, none, or auto for the one that the papers used "
        "with the model",
        choices=SYSTEMS,
    )
    device: str = _setting("auto", "auto, cpu, cuda, cuda:N or mps")
    bits: int = _setting(
        16, "16, or 8 or 4 to quantise the language model (needs bitsandbytes)", BITS
    )
    capture_prefill: str = _setting(
        "auto",
        "run each prefill as one captured CUDA graph per prompt length: on, off, or auto for one "
        "CUDA GPU at 16 bits where it gives the usual results",
        choices=CAPTURES,
    )
    host: str = _setting("127.0.0.1", "address to serve on; 0.0.0.0 for every network")
    port: int = _setting(7860, "port to serve on")
    public: bool = _setting(
        False,
        "the page is open to strangers: nothing on it changes the model. Always so with --share "
        "and on an address other than this machine's own",
    )
    share: bool = _setting(False, "also serve through a public link of gradio.live")
    mcp: bool = _setting(False, "also serve the API's operations to MCP clients (gradio[mcp])")
    methods: tuple[str, ...] = _setting(("spare", "cdpruner"), "methods compared at first")
    budget: int = _setting(
        64,
        "visual tokens kept at first; the built-in model, at the default budget and methods, opens "
        "on a chosen case with a budget of its own",
    )
    marks: tuple[int, ...] = _setting((32, 64, 128, 192), "budgets marked on the slider")
    seed: int = _setting(0, "seed of the methods that draw at random")
    max_new_tokens: int = _setting(64, "longest answer, in tokens")
    max_question_characters: int = _setting(2_000, "longest question, in characters")
    max_pixels: int = _setting(40_000_000, "largest picture, width times height")
    max_upload_bytes: int = _setting(20_000_000, "largest uploaded file, in bytes")
    max_request_bytes: int = _setting(
        25_000_000, "largest request, all its files together, in bytes"
    )
    max_waiting: int = _setting(
        8, "requests of one address that may wait or run on a public page; more are turned away"
    )
    address_header: str = _setting(
        "",
        "header in which the proxy in front of a public page names the visitor's address, such as "
        "X-Forwarded-For; set it only behind a proxy, since visitors can write it themselves",
    )
    trusted_hosts: tuple[str, ...] = _setting(
        (), "more names by which a private page may be opened, besides those of this machine"
    )
    queue_size: int = _setting(
        32, "requests of all visitors together that may wait; more are turned away"
    )
    log_times: bool = _setting(
        False,
        "log a line of JSON for each question, with the seconds of its stages and nothing of what "
        "was asked",
    )

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"port is {self.port}; it must be from 1 to 65535.")
        for item in fields(self):
            value, choices = getattr(self, item.name), item.metadata["choices"]
            if isinstance(item.default, tuple):  # flags bring lists
                object.__setattr__(self, item.name, tuple(value))
            elif choices and value not in choices:
                words = f"{', '.join(map(str, choices[:-1]))} or {choices[-1]}"
                raise ValueError(f"{item.name} is {value}; it must be {words}.")
            elif type(item.default) is int and item.name != "seed" and value < 1:
                raise ValueError(f"{item.name} is {value}; it must be 1 or more.")
        if min(self.marks, default=1) < 1:
            raise ValueError("every one of marks must be 1 or more.")
        if not self.methods:
            raise ValueError("methods is empty; name at least one.")

    @property
    def private(self) -> bool:
        """Whether nobody but this machine's own users can open the page."""
        return not (self.public or self.share) and self.host.strip("[]") in OWN_ADDRESSES

    @property
    def server_name(self) -> str:
        """The host as it stands in a URL: of IPv6 in brackets."""
        name = self.host.strip("[]")
        return f"[{name}]" if ":" in name else name

    @property
    def url(self) -> str:
        """Where this machine's browser finds the page."""
        # Every network's are no addresses that can be opened.
        everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
        return f"http://{everywhere.get(self.server_name, self.server_name)}:{self.port}"

    def check_question(self, question: str | None) -> str:
        """The question without spaces around it, "" for none.

        Raises ValueError, with a sentence to show, for one longer than `max_question_characters`,
        or one that cannot be written as UTF-8.
        """
        text = check_characters("question", (question or "").strip())
        if len(text) > self.max_question_characters:
            raise ValueError(
                f"The question has {len(text):,} characters; at most "
                f"{self.max_question_characters:,} are taken. Shorten it and ask again."
            )
        return text


def check_characters(name: str, text: object) -> str:
    """The text; ValueError, with a sentence to show, for no text, or none that UTF-8 can write.

    name: of what was typed, such as "question".
    """
    if not isinstance(text, str):
        raise ValueError(f'The {name} must be text, not {type(text).__name__}. Pass "" for none.')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"The {name} has a character that is not valid (half of a pair, or a byte that is not "
            f"UTF-8). Type the {name} again."
        ) from None
    return text


def on_zero_gpu() -> bool:
    """Whether this is a ZeroGPU Space, which lends a GPU to one event at a time.

    Read from the variable, and by the values, that the package `spaces` uses.
    """
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def read_variables() -> Settings:
    """Settings from `SPARE_…` variables; exits with 2 and a sentence about one that cannot be.

    A name that is nearly a variable's is said to be none on standard error.
    """
    parser = argparse.ArgumentParser(prog="python app.py")  # for the usage above a sentence
    add_flags(parser)
    chosen: dict[str, Any] = {}
    known = {f"SPARE_{item.name.upper()}": item for item in fields(Settings)}
    for name in sorted(os.environ.keys() - known - {"SPACE_HOST"}):  # which every Space sets
        for near in get_close_matches(name, known, n=1, cutoff=0.8):
            print(f"{name} is no setting. Did you mean {near}?", file=sys.stderr)
    for variable, item in known.items():
        if text := os.environ.get(variable, "").strip():  # an empty one counts as not set
            try:
                chosen[item.name] = _read(item.default, text)
            except (KeyError, ValueError):
                words = _KINDS[type(item.default)]
                parser.error(f"{variable} is {text!r}; it must be {words}.")
    # A Space is reached through its own proxy, which does not come over the loopback address.
    if "SPACE_ID" in os.environ:
        chosen.setdefault("host", "0.0.0.0")
        chosen.setdefault("address_header", "X-Forwarded-For")
    try:
        return Settings(**chosen)
    except ValueError as error:
        parser.error(str(error))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting. The parser must suppress defaults: absent flags stay absent."""
    for item in fields(Settings):
        flag, shown = "--" + item.name.replace("_", "-"), item.default
        if isinstance(shown, tuple):
            shown = " ".join(str(part) for part in shown) or "none"
        text = f"{item.metadata['help']} (default: {shown})"
        if isinstance(item.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif isinstance(item.default, tuple):
            parser.add_argument(flag, nargs="+", type=_kind_of_each(item.default), help=text)
        else:
            parser.add_argument(flag, type=type(item.default), help=text)


def _read(default: Any, text: str) -> Any:
    """A variable's text as its setting's type; KeyError or ValueError where it is of another."""
    if isinstance(default, bool):
        return ConfigParser.BOOLEAN_STATES[text.lower()]
    if isinstance(default, tuple):
        # Not at the comma between two settings of a method.
        words = filter(None, re.split(r"\s+|,(?!\w+=)", text))
        return tuple(map(_kind_of_each(default), words))
    return type(default)(text)


def _kind_of_each(default: tuple[Any, ...]) -> type:
    return type(default[0]) if default else str
