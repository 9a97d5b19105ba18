"""Flags over variables over defaults, and a sentence for what cannot be."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields

import pytest

from spare_demo.cli import serve
from spare_demo.cli.main import main
from spare_demo.settings import Settings, on_zero_gpu

Read = Callable[[list[str], dict[str, str]], Settings]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """What `serve` is started with by these flags and variables."""
    started: list[Settings] = []
    monkeypatch.setattr(serve, "_serve", started.append)
    for context in ("until_stopped", "own_temporary_folder"):
        monkeypatch.setattr(serve, context, contextlib.nullcontext)

    def run(argv: list[str], environment: dict[str, str]) -> Settings:
        monkeypatch.setattr("os.environ", environment)
        assert main(["serve", *argv]) == 0
        return started.pop()

    return run


def test_defaults_are_those_of_the_design(read: Read) -> None:
    settings = read([], {})
    assert settings == Settings()
    assert (settings.model, settings.port, settings.host) == ("auto", 7860, "127.0.0.1")
    assert settings.marks == (32, 64, 128, 192)
    assert settings.methods == ("spare", "cdpruner")


def test_a_flag_wins_over_its_variable_and_a_variable_over_the_default(read: Read) -> None:
    environment = {"SPARE_PORT": "8001", "SPARE_MODEL": "built-in", "SPARE_SEED": " "}
    settings = read(["--port", "8002"], environment)
    assert (settings.port, settings.model, settings.seed) == (8002, "built-in", 0)


def test_every_setting_has_a_flag_and_a_variable(read: Read) -> None:
    words = {bool: "1", int: "7", str: "x", tuple: "3 5"}
    for item in fields(Settings):
        special = {"bits": "8", "system": "vicuna_v1", "capture_prefill": "on"}
        text = special.get(item.name) or words[type(item.default)]
        flag = "--" + item.name.replace("_", "-")
        typed = [flag] if text == "1" else [flag, *text.split()]
        by_flag = read(typed, {})
        by_variable = read([], {f"SPARE_{item.name.upper()}": text})
        assert by_flag == by_variable
        assert getattr(by_flag, item.name) != item.default


@pytest.mark.parametrize(
    ("argv", "private"),
    [
        ([], True),
        (["--host", "localhost"], True),
        (["--host", "::1"], True),
        (["--host", "[::1]"], True),
        (["--host", "0.0.0.0"], False),
        (["--host", "192.168.0.4"], False),
        (["--share"], False),
        (["--public"], False),  # behind a proxy on this machine
    ],
)
def test_a_page_is_private_where_only_this_machine_reaches_it(
    read: Read, argv: list[str], private: bool
) -> None:
    assert read(argv, {}).private == private
    assert not read(argv, {"SPACE_ID": "someone/spare"}).private or "--host" in argv


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:7860"),
        ("0.0.0.0", "http://127.0.0.1:7860"),
        ("", "http://127.0.0.1:7860"),
        ("::", "http://[::1]:7860"),
        ("::1", "http://[::1]:7860"),
        ("[fe80::7]", "http://[fe80::7]:7860"),
    ],
)
def test_the_url_of_the_page_can_be_opened(host: str, url: str) -> None:
    assert Settings(host=host, port=7860).url == url


def test_a_variable_turns_off_as_well_as_on(read: Read) -> None:
    for word, on in (("0", False), ("False", False), ("NO", False), ("On", True)):
        assert read([], {"SPARE_MCP": word}).mcp == on


def test_lists_are_read_with_spaces_or_commas(read: Read) -> None:
    assert read([], {"SPARE_MARKS": "1, 32,64"}).marks == (1, 32, 64)
    two_settings = "spare:squash=minmax,aggregation=max"
    for text in (f"{two_settings} random", f"random,{two_settings}", f" {two_settings} , random"):
        assert set(read([], {"SPARE_METHODS": text}).methods) == {two_settings, "random"}
    assert read(["--methods", "random", "uniform"], {}).methods == ("random", "uniform")


@pytest.mark.parametrize(
    ("argv", "environment", "host"),
    [
        ([], {}, "127.0.0.1"),
        (["--host", "localhost"], {}, "localhost"),
        ([], {"SPACE_ID": "someone/spare"}, "0.0.0.0"),
        (["--host", "localhost"], {"SPACE_ID": "someone/spare"}, "localhost"),
    ],
)
def test_a_space_is_served_on_every_network_unless_told_otherwise(
    read: Read, argv: list[str], environment: dict[str, str], host: str
) -> None:
    assert read(argv, environment).host == host


@pytest.mark.parametrize(
    ("argv", "environment", "sentence"),
    [
        ([], {"SPARE_PORT": "http"}, "SPARE_PORT is 'http'; it must be a whole number."),
        ([], {"SPARE_SHARE": "maybe"}, "SPARE_SHARE is 'maybe'; it must be 1 or 0."),
        ([], {"SPARE_MARKS": "32,x"}, "SPARE_MARKS is '32,x'; it must be whole numbers."),
        (["--port", "0"], {}, "port is 0; it must be from 1 to 65535."),
        (["--capture-prefill", "yes"], {}, "capture_prefill is yes; it must be auto, on or off."),
        (["--budget", "-3"], {}, "budget is -3; it must be 1 or more."),
        (["--marks", "0", "32"], {}, "every one of marks must be 1 or more."),
        (["--max-pixels", "many"], {}, "--max-pixels: invalid int value: 'many'"),
    ],
)
def test_a_wrong_value_ends_with_one_sentence(
    read: Read,
    argv: list[str],
    environment: dict[str, str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        read(argv, environment)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_misspelt_variable_is_said_to_be_none(
    read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {"SPARE_LMMS_EVAL": "python", "SPACE_HOST": "someone-spare.hf.space"}
    assert read([], {"SPARE_MAX_PIXEL": "9", **others}) == Settings()
    said = capsys.readouterr().err
    assert said == "SPARE_MAX_PIXEL is no setting. Did you mean SPARE_MAX_PIXELS?\n"


def test_a_question_too_long_is_refused_with_both_numbers() -> None:
    settings = Settings()
    assert settings.check_question("  What is red? ") == "What is red?"
    assert settings.check_question(None) == ""
    assert settings.check_question("x" * 2_000) == "x" * 2_000
    with pytest.raises(ValueError, match=r"10,000 characters; at most 2,000 .* Shorten it"):
        settings.check_question("x" * 10_000)


def test_settings_do_not_change_under_a_running_app() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]


def test_a_space_reads_addresses_where_its_proxy_writes_them(read: Read) -> None:
    assert read([], {}).address_header == ""
    assert read([], {"SPACE_ID": "someone/spare"}).address_header == "X-Forwarded-For"


@pytest.mark.parametrize(
    ("value", "lent"), [(None, False), ("", False), ("0", False), ("1", True), ("true", True)]
)
def test_a_zero_gpu_space_is_told_by_its_variable(
    value: str | None, lent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {} if value is None else {"SPACES_ZERO_GPU": value})
    assert on_zero_gpu() == lent
