"""Files of a hub: what is moved, what resumes, what is refused and how."""

from __future__ import annotations

import errno
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import open_clip
import pytest
import torch
from huggingface_hub import constants, snapshot_download
from huggingface_hub.utils import _xet
from local_hub import LocalHub
from safetensors.torch import load_file

from spare_demo.comparison.pipeline import compare
from spare_demo.models import LlavaModel, ModelError, load_model
from spare_demo.models.generate.prefill_floor import Rates
from spare_demo.models.loading import hub, hub_tensors, memory, text_tower
from spare_demo.models.loading import load as loading
from spare_demo.models.loading.catalogue import CATALOGUE, OPENAI_CLIP
from spare_demo.models.loading.hub_refusals import refusal
from spare_demo.models.loading.machine import offers
from spare_demo.models.loading.memory import TEXT_SIDE, LoadOptions
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.pruners import PRUNERS

QUESTION = "What colour is the circle?"
TINY, QWEN, CLIP = (
    "someone/tiny-llava",
    "someone/tiny-qwen",
    "timm/vit_large_patch14_clip_336.openai",
)


@pytest.fixture
def served(
    local_hub: Callable[[Mapping[str, Path]], LocalHub],
    tiny_folder: Path,
    tiny_qwen_folder: Path,
    tmp_path: Path,
) -> LocalHub:
    """A hub with three repositories."""
    folder = tmp_path / "tiny-llava"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("clip"))
    return local_hub({TINY: folder, QWEN: tiny_qwen_folder, CLIP: tiny_folder / "clip"})


def is_vision(name: str) -> bool:
    return name.startswith(("vision_tower", "multi_modal_projector"))


def vision_of(server: LocalHub, name: str = "vision", **options: Any) -> dict[str, torch.Tensor]:
    folder = hub.config_folder(TINY)
    files = hub.shards(folder, TINY)
    path = hub_tensors.download_tensors(TINY, folder.name, files, is_vision, name, **options)
    return load_file(path)


def whole_files(progress: hub.Progress = hub.no_progress) -> None:
    folder = hub.config_folder(TINY)
    hub.download_files(TINY, folder.name, hub.shards(folder, TINY), progress)


def vision_at_the_source(server: LocalHub) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for shard in server.repositories[TINY].glob("*.safetensors"):
        tensors |= {name: t for name, t in load_file(shard).items() if is_vision(name)}
    return tensors


def assert_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def moved(server: LocalHub, run: Any) -> int:
    before = server.bytes_sent
    run()
    return server.bytes_sent - before


def test_only_the_tensors_wanted_are_moved(served: LocalHub) -> None:
    hub.config_folder(TINY)
    steps: list[tuple[int, int]] = []
    sent = moved(
        served, lambda: vision_of(served, progress=lambda done, total: steps.append((done, total)))
    )
    size = sum(t.numel() * t.element_size() for t in vision_at_the_source(served).values())
    index = (served.repositories[TINY] / hub.INDEX).stat().st_size
    headers = 10_000 * len(list(served.repositories[TINY].glob("*.safetensors")))
    assert size < sent < size + index + headers
    assert steps[0] == (0, size) and steps[-1] == (size, size)
    assert_equal(vision_of(served), vision_at_the_source(served))


def test_nothing_is_moved_twice(served: LocalHub) -> None:
    vision_of(served)
    whole_files()
    asked = len(served.requests)
    again = lambda: (vision_of(served), whole_files())  # noqa: E731
    assert moved(served, again) == 0
    assert all(request.startswith("HEAD") for request in served.requests[asked:])


def test_two_that_want_the_same_part_at_once_download_it_once(served: LocalHub) -> None:
    hub.config_folder(TINY)
    found: list[dict[str, torch.Tensor]] = []

    def want() -> None:
        found.append(vision_of(served, progress=lambda done, total: time.sleep(0.05)))

    both = [threading.Thread(target=want) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(found) == 2
    assert_equal(*found)
    assert_equal(found[0], vision_at_the_source(served))


def test_a_cut_connection_is_resumed(served: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    hub.config_folder(TINY)
    served.faults.cuts, served.faults.cut_after = 4, 3000
    assert_equal(vision_of(served), vision_at_the_source(served))
    assert served.faults.cuts == 0


@pytest.mark.parametrize("whole", [False, True])
def test_a_connection_cut_for_good_is_told_from_a_hub_out_of_reach(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def cut(done: int, total: int) -> None:
        served.faults.cuts, served.faults.cut_after = 10**6, 0

    with pytest.raises(ModelError, match=r"connection was lost while .* was downloaded\. Check it"):
        if whole:
            whole_files(cut)
        else:
            vision_of(served, progress=cut)


def test_a_download_that_stands_still_can_be_cancelled_between_two_tries(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cancelled(Exception):
        pass

    def cancel(done: int, total: int) -> None:
        if served.faults.cuts:
            raise Cancelled
        served.faults.cuts, served.faults.cut_after = 10**6, 0

    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(Cancelled):
        vision_of(served, progress=cancel)


def test_a_later_start_resumes_where_the_first_was_ended(served: LocalHub) -> None:
    class Cancelled(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        vision_of(served, progress=stop)
    steps: list[int] = []
    ours = vision_of(served, progress=lambda done, total: steps.append(done))
    assert steps[0] > 0
    assert_equal(ours, vision_at_the_source(served))


@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
def test_a_cancelled_download_by_xet_ends_at_once(
    served: LocalHub, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client drops what a bar raises, and raises something of its own when it is aborted."""

    class Cancelled(Exception):
        pass

    def download(*_: Any, tqdm_class: Any, **__: Any) -> str:
        written, came = tqdm_class(), tqdm_class()
        for bar, count in ((came, 9), (written, 5), (came, 1), (written, 4)):
            with suppress(Cancelled):
                bar.update(count)
            if aborted:
                raise raised
        return "whole"

    def progress(done: int, total: int) -> None:
        steps.append(done)
        if done == 10:
            raise Cancelled

    steps: list[int] = []
    aborted: list[bool] = []
    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(_xet, "abort_xet_session", lambda: aborted.append(True))
    with pytest.raises(Cancelled):
        hub.download_files(TINY, "main", [hub.INDEX], progress)
    assert steps == [9, 9, 10]


def test_a_file_cut_off_on_this_disk_is_downloaded_anew(served: LocalHub) -> None:
    folder = hub.config_folder(TINY)
    files = hub.shards(folder, TINY)
    path = hub_tensors.download_tensors(TINY, folder.name, files, is_vision, "vision")
    path.write_bytes(path.read_bytes()[:-100])
    assert_equal(vision_of(served), vision_at_the_source(served))


def test_a_server_without_ranges_is_named_before_whole_files_are_moved(served: LocalHub) -> None:
    served.faults.ignores_ranges = True
    sentences: list[str] = []
    sent: list[int] = []

    def report(sentence: str) -> None:
        sentences.append(sentence)
        sent.append(served.bytes_sent)

    assert_equal(vision_of(served, report=report), vision_at_the_source(served))
    assert "sends whole files only" in sentences[0]
    assert served.bytes_sent - sent[0] > 100_000


def test_a_server_that_sends_no_byte_of_a_part_is_asked_once(served: LocalHub) -> None:
    served.faults.empty_parts = True
    with pytest.raises(ModelError, match=r"sends nothing\. Try again later\."):
        vision_of(served)


def test_a_shard_shorter_than_its_header_says(served: LocalHub) -> None:
    shard = next(served.repositories[TINY].glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="damaged on the hub"):
        vision_of(served)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, r"shows no repository .*hf auth login.* then try again\."),
        (403, r"is gated: accept its terms .* then try again\."),
        (404, r"lacks a file on the hub"),
        (410, r"refused a request \(error 410\)\. Try again later, or choose"),
        (429, r"takes no more requests .* Wait .* then try again\."),
        (500, r"failed on its own side \(error 500\)"),
        (503, r"failed on its own side \(error 503\)"),
    ],
)
def test_every_refusal_of_the_hub_has_a_sentence(
    status: int, sentence: str, served: LocalHub
) -> None:
    served.faults.status = status
    with pytest.raises(ModelError, match=sentence):
        hub.config_folder(TINY)
    with pytest.raises(ModelError, match=sentence):
        load_model(TINY, "cpu")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/tree/", "would not say which files someone/tiny-llava has"),
        ("/generation_config.json", "refused a request"),  # without it the model would answer
        ("/tokenizer_config.json", "refused a request"),
        ("-00002-of-", "refused a request"),
    ],
)
def test_a_refusal_of_one_request_is_said_and_no_model_is_made_of_the_rest(
    path: str, sentence: str, served: LocalHub
) -> None:
    served.faults.status, served.faults.path = 410, path
    with pytest.raises(ModelError, match=sentence):
        load_model(TINY, "cpu")
    served.faults.status = 0
    assert load_model(TINY, "cpu").hf.generation_config.eos_token_id is not None


@pytest.mark.parametrize(
    "error",
    [
        httpx.TooManyRedirects("Exceeded 20 redirects"),
        json.JSONDecodeError("Expecting value", "<html>", 0),  # a page to log in to a network
    ],
)
def test_what_no_hub_answers_is_a_hub_out_of_reach(error: Exception) -> None:
    assert "cannot be reached. Check the connection" in str(refusal(TINY, error))


@pytest.mark.parametrize("name", ["tokenizer.json", hub.INDEX, "model-00002-of-00005.safetensors"])
def test_a_damaged_file_in_the_cache_is_left_there_with_the_way_to_get_it_again(
    name: str, served: LocalHub
) -> None:
    file = served.repositories[TINY] / name
    whole = file.read_bytes()
    file.write_bytes(bytes(byte ^ 255 for byte in whole))
    for _ in range(2):
        with pytest.raises(ModelError, match=f"`hf cache rm model/{TINY}`, then try again"):
            load_model(TINY, "cpu")
    file.write_bytes(whole)
    shutil.rmtree(Path(constants.HF_HUB_CACHE) / "models--someone--tiny-llava")  # as that does
    assert load_model(TINY, "cpu").name == TINY


def test_a_download_of_another_length_is_damaged() -> None:
    error = OSError("Consistency check failed: file should be of size 5 but has size 3")
    assert "is damaged. Remove it from the Hugging Face cache" in str(refusal(TINY, error))


def test_a_name_that_is_no_repository(served: LocalHub) -> None:
    with pytest.raises(ModelError, match="shows no repository someone/else"):
        load_model("someone/else", "cpu")


def test_a_revision_that_does_not_exist(served: LocalHub) -> None:
    with pytest.raises(ModelError, match="no such revision"):
        hub_tensors.download_tensors(TINY, "0" * 40, [hub.SINGLE], is_vision, "vision")


def test_a_hub_out_of_reach_is_said_within_ten_seconds(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nowhere)
    address = nowhere + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
    start = time.monotonic()
    sentence = rf"{re.escape(nowhere)} cannot be reached\. .* try again, or choose the built-in"
    with pytest.raises(ModelError, match=sentence):
        load_model(TINY, "cpu")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_what_is_cached_is_used_without_a_hub(
    status: int, served: LocalHub, photo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_model(TINY, "cpu")
    assert first.name == TINY and "Hugging Face hub" in first.description
    assert "No relevance" in first.notes[0]
    served.faults.status = status  # that it answers, and 0 for none at all
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", not status)
    again = load_model(TINY, "cpu")
    assert again.revision == first.revision == served.commit(TINY)[:12]
    ours, theirs = (m.answer(m.encode(photo, QUESTION), None, 4) for m in (again, first))
    assert ours.token_ids == theirs.token_ids


@pytest.mark.parametrize("missing", ["generation_config.json", "chat_template.jinja"])
def test_settings_that_an_earlier_download_left_out_are_fetched(
    served: LocalHub, missing: str, tiny_qwen_folder: Path, tmp_path: Path
) -> None:
    folder = served.repositories[QWEN] = tmp_path / "tiny-qwen"
    shutil.copytree(tiny_qwen_folder, folder)
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"repetition_penalty": 1.5}))
    snapshot_download(QWEN, allow_patterns=list(hub.SMALL), ignore_patterns=[missing])
    model = load_model(QWEN, "cpu")
    assert model.hf.generation_config.repetition_penalty == 1.5
    assert model.processor.chat_template


def test_a_full_disk(served: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=150_000)
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda path: usage)
    asked = served.bytes_sent
    with pytest.raises(ModelError, match=r"needs .* GB on the disk .* Free some space"):
        load_model(TINY, "cpu")
    biggest = max(p.stat().st_size for p in served.repositories[TINY].glob("*.safetensors"))
    assert served.bytes_sent - asked < biggest
    full = OSError(errno.ENOSPC, "No space left on device")
    assert "disk filled up" in str(refusal(TINY, full))


def test_too_little_memory_is_refused_before_weights_are_moved(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    with pytest.raises(ModelError, match=r"needs about .* free"):
        load_model(TINY, "cpu")
    assert not any(".safetensors " in r or r.endswith(".safetensors") for r in served.requests)


def test_a_model_of_the_table_too_large_moves_not_even_its_text_side(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    entry = replace(CATALOGUE["llava-1.5-7b"], source=TINY)
    monkeypatch.setitem(loading.CATALOGUE, entry.name, entry)
    with pytest.raises(ModelError, match=r"LLaVA-1\.5-7B needs about .* free"):
        load_model(entry.name, "cpu")
    assert not any(CLIP in request for request in served.requests)


def test_a_damaged_index(served: LocalHub) -> None:
    (served.repositories[TINY] / hub.INDEX).write_text(json.dumps({"weight_map": 3}))
    with pytest.raises(ModelError, match="damaged"):
        load_model(TINY, "cpu")


# --- without the language model ---


def test_the_vision_side_alone_keeps_the_same_tokens(
    served: LocalHub, tiny_model: LlavaModel, photo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tower, "vision_is_openai_clip", lambda vision: True)
    monkeypatch.setattr(
        TextTower, "from_open_clip", lambda *_: TextTower.from_folder(served.repositories[CLIP])
    )
    sent = moved(served, lambda: load_model(TINY, "cpu", language_model=False))
    weights = sum(p.stat().st_size for p in served.repositories[TINY].glob("*.safetensors"))
    assert sent < weights
    eyes = load_model(TINY, "cpu", language_model=False)
    assert not eyes.has_language_model and eyes.layers == 0
    ours, whole = eyes.encode(photo, QUESTION), tiny_model.encode(photo, QUESTION)
    assert torch.equal(ours.tokens.features, whole.tokens.features)
    assert ours.prompt == whole.prompt and torch.equal(ours.input_ids, whole.input_ids)
    result = compare(eyes, photo, QUESTION, budget=6)
    both = compare(tiny_model, photo, QUESTION, budget=6, max_new_tokens=1)
    assert result.finished and not result.answers and result.reconstruction is not None
    for label in ("spare", "cdpruner"):
        assert torch.equal(result.selections[label].order, both.selections[label].order)


def test_a_download_is_what_is_not_here_yet(
    served: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "tiny-llava"
    monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], source=TINY))

    def downloads() -> tuple[int, int]:
        rates = Rates(bandwidth=1e9, product=1e9)
        (offer,) = offers(LoadOptions(torch.device("cpu")), lambda dtype: rates, [name])
        return offer.download, offer.vision_download

    whole, vision = downloads()
    assert whole > vision > TEXT_SIDE
    vision_of(served)
    assert downloads() == (whole, TEXT_SIDE)
    commit = hub.config_folder(CLIP, text_tower.CONFIG_FILE).name
    files = [text_tower.WEIGHTS_FILE]
    hub_tensors.download_tensors(CLIP, commit, files, text_tower._is_read, "text-side")
    assert downloads() == (whole - TEXT_SIDE, 0)
    whole_files()
    assert downloads() == (0, 0)


def test_what_needs_the_language_model_says_so(tiny_folder: Path, photo: Any) -> None:
    eyes = load_model(str(tiny_folder), "cpu", language_model=False)
    view = eyes.encode(photo, QUESTION)
    assert "words" not in eyes.supplies and view.tokens.words is None
    for refused in (
        lambda: eyes.answer(view),
        lambda: eyes.answer_many([(view, None)]),
        lambda: eyes.score(view, None, [3]),
        lambda: next(eyes.stream_together(view, {"unpruned": None})),
    ):
        with pytest.raises(ValueError, match="without its language model"):
            refused()
    with pytest.raises(ValueError, match="FastV chooses inside the language model"):
        compare(eyes, photo, QUESTION, ("fastv",), 6)
    assert "without its language model" in (eyes.reason_against(PRUNERS["fastv"]) or "")
    assert eyes.reason_against(PRUNERS["spare"]) is None
    assert eyes.bytes < load_model(str(tiny_folder), "cpu").bytes


def test_a_tower_that_is_not_clips_works_without_text(
    served: LocalHub, tiny_qwen: Any, photo: Any
) -> None:
    eyes = load_model(QWEN, "cpu", language_model=False)
    assert any("No relevance" in note for note in eyes.notes)
    ours, whole = eyes.encode(photo, QUESTION), tiny_qwen.encode(photo, QUESTION)
    assert torch.equal(ours.tokens.features, whole.tokens.features)
    (note,) = compare(eyes, photo, QUESTION, ("spare",), 4).notes
    assert note.startswith("Without a CLIP text side the text part of SPARE is off")


def test_clips_text_side_is_read_by_ranges(
    served: LocalHub, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((tiny_folder / "clip" / "open_clip_config.json").read_text())["model_cfg"]
    monkeypatch.setattr(open_clip, "get_model_config", lambda name: config | {"quick_gelu": True})
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tiny_folder / 'clip'}")
    monkeypatch.setattr(open_clip, "get_tokenizer", lambda name: tokenizer)
    sent = moved(served, lambda: TextTower.from_open_clip(*OPENAI_CLIP))
    assert sent < (tiny_folder / "clip" / "open_clip_model.safetensors").stat().st_size
    ours, theirs = (
        TextTower.from_open_clip(*OPENAI_CLIP),
        TextTower.from_folder(tiny_folder / "clip"),
    )
    assert ours.proj.equal(theirs.proj)
    state = dict(theirs.state_dict())
    assert all(torch.equal(value, state[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EEXIST, errno.ENOTDIR])
def test_a_cache_that_cannot_be_written_to_is_named(number: int) -> None:
    error = refusal("someone/model", OSError(number, "no", "/home/user/.cache"))
    assert isinstance(error, ModelError)
    assert "no right to write" in str(error) and "/home" not in str(error)
