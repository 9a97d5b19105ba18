"""The rehearsal in small: the real program, against a hub on the loopback, with few layers."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import full_size
import gpu_rehearsal
import pytest
import rehearse

from spare_demo.models.loading.catalogue import published_config


def small(name: str) -> Any:
    """The published settings with another size and depth; vocabulary and tower's kind stay."""
    config = copy.deepcopy(published_config(name))
    text, vision = config.get_text_config(), config.vision_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 64, 96, 4
    text.num_attention_heads, text.num_key_value_heads = 2, 1
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [4, 6, 6]}
    text.layer_types = text.layer_types[:4]
    vision.depth, vision.hidden_size, vision.intermediate_size = 2, 64, 96
    vision.num_heads, vision.out_hidden_size, vision.fullatt_block_indexes = 2, 64, [1]
    return config


@pytest.mark.long
def test_download_load_ask_and_start_again_without_a_byte_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (full_size, rehearse):
        monkeypatch.setattr(module, "published_config", small)
    for name in ("HF_ENDPOINT", "HF_HOME", "HF_HUB_OFFLINE"):  # set back afterwards
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr(rehearse, "CUTS", (2, 1_000_000))
    monkeypatch.setattr(rehearse, "BUDGET", 300)  # with four layers a method cannot meet 64
    figures = rehearse.rehearse("qwen2.5-vl-3b", tmp_path, False, with_page=False)
    first, again = figures["first"], figures["again"]
    assert (first["status"], again["status"]) == (0, 0), first | again
    size = sum(p.stat().st_size for p in (tmp_path / "qwen2.5-vl-3b").iterdir())
    assert figures["connections_cut"] == 2
    moved = figures["gb_moved"] * 1e9
    assert size <= moved < size + 2.5e6  # a cut loses what was on its way
    assert figures["gb_moved_again"] == 0
    assert figures["methods"] == len(again["answers"]) - 1 >= 11
    assert all(seconds["prefill_seconds"] > 0 for seconds in again["answers"].values())


@pytest.mark.long
def test_the_parts_on_a_gpu_run_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (full_size, rehearse, gpu_rehearsal):
        monkeypatch.setattr(module, "published_config", small)
    monkeypatch.setattr(rehearse, "BUDGET", 300)
    monkeypatch.setattr(gpu_rehearsal, "PICTURES", 2)
    monkeypatch.setattr(gpu_rehearsal, "VISITORS", 2)
    monkeypatch.setattr(gpu_rehearsal, "_MEMORY_FOLDER", tmp_path / "none")
    name, file, folder = "qwen2.5-vl-3b", tmp_path / "figures.json", tmp_path / "folder"
    head = {"command": "a command", "model": "A model", "machine": "a machine", "device": "cuda"}
    record = gpu_rehearsal.Record(file, head)
    which = rehearse.methods(name, False)[:2]
    # Where a browser's tests ran before, this thread has an event loop already.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gpu_rehearsal.rehearse, name, "cpu", which, 300, (16,), folder, record).result()
    figures = json.loads(file.read_text())
    compared, page = figures["compare"], figures["page"]
    assert compared["16 bits"]["status"] == 0, compared
    assert len(compared["16 bits"]["answers"]) == 3
    one, many, change = (page[part] for part in ("one visitor", "many visitors", "another model"))
    assert (one["answered"], many["answered"], change["answered"]) == (2, 2, 1), page
    assert len(one["prefill_seconds"]) == 2 and len(one["prefill_seconds"][0]) == 3
    first, last = one["pictures_seconds"][0], one["answers_seconds"][0]
    assert 0 < first < last
    assert not list(folder.iterdir())  # nothing is left on the disk
    text = "\n".join(rehearse.section(file))
    assert "| page: 2 visitors at once | 2 answered" in text


def test_a_part_that_fails_leaves_its_reason_and_the_next_one_runs(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    record = gpu_rehearsal.Record(file, {})
    with record.part("first"):
        raise SystemExit("The app did not start.")
    with record.part("second") as figures:
        figures["answered"] = 1
    first, second = json.loads(file.read_text()).values()
    assert first["error"] == "SystemExit: The app did not start." and second["answered"] == 1


def test_a_rehearsal_is_written_as_it_was(tmp_path: Path) -> None:
    figures = {
        "command": "python benchmarks/rehearse.py tiny-llava",
        "model": "TinyLLaVA",
        "without_language_model": False,
        "bits": 4,
        "machine": "a machine; a product in bfloat16 takes 2.5 times as long as in float32",
        "first": {"seconds": 7.0, "status": 1, "last_words": "No room."},
        "gb_moved": 0.0021,
    }
    file = tmp_path / "rehearsal.json"
    file.write_text(json.dumps(figures))
    text = "\n".join(rehearse.section(file))
    assert "## TinyLLaVA, in 4 bits, where bfloat16 is slow" in text
    assert "refused, 7 s after the start and with 2.1 MB moved: “No room.”" in text


def test_the_page_of_rehearsals_is_up_to_date() -> None:
    assert rehearse.PAGE.read_text() == rehearse.report()
