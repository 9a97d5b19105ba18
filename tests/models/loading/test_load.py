"""Names to models: what loads, and what is refused with a sentence that says what to do."""

from __future__ import annotations

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import read_all, refused, write_one
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import LlavaForConditionalGeneration

from spare_demo.models import CATALOGUE, LlavaModel, ModelError, TextTower, load_model
from spare_demo.models.loading import hub, memory, text_tower
from spare_demo.models.loading import load as loading
from spare_demo.models.loading.catalogue import BUILT_IN, LLAVA_7B, OPENAI_CLIP
from spare_demo.models.loading.machine import Machine

QUESTION = "What colour is the circle?"


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    """A checkpoint folder to change."""
    folder = tmp_path / "secret-place" / "my-llava"
    shutil.copytree(tiny_folder, folder)
    return folder


def unreachable(name: str, pretrained: str, progress: object) -> TextTower:
    raise ModelError("No connection to huggingface.co.")


# --- what loads ---


def test_a_local_folder(tiny_model: LlavaModel, tiny_folder: Path) -> None:
    assert tiny_model.name == tiny_model.title == "tiny-llava"
    assert tiny_model.dtype == torch.float32 and tiny_model.device.type == "cpu"
    assert re.fullmatch(r"[0-9a-f]{12}", tiny_model.revision)
    assert isinstance(tiny_model.hf, LlavaForConditionalGeneration)
    assert tiny_model.notes == () and tiny_model.text_tower is not None
    assert len(list(tiny_folder.glob("model-*.safetensors"))) > 1  # shards, as the real ones have
    assert not tiny_model.hf.training


def test_random_numbers_and_the_root_logger_stay_as_they_were(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    before = torch.get_rng_state()
    load_model(tiny_folder, "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert root.handlers == []


def test_a_folder_is_named_by_a_path_or_as_in_a_shell(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tiny_folder.parent))
    for name in (tiny_folder, f"{tiny_folder}/", f"~/{tiny_folder.name}"):
        model = load_model(name, device="cpu")  # type: ignore[arg-type]
        assert model.name == tiny_folder.name


def test_a_process_without_a_device_runs_no_pass(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a pass ran")

    monkeypatch.setattr("spare_demo.models.generate.passes.Passes.run", refuse)
    assert load_model(str(tiny_folder), "cpu", warm_up=False).warm_up_seconds == 0


def test_the_older_hub_layout_loads(copy: Path, tiny_model: LlavaModel, photo: Image.Image) -> None:
    """LLaVA-1.5-7B on the hub still has `vision_tower.vision_model.` and `language_model.model.`"""
    state = {
        name.replace("vision_tower.", "vision_tower.vision_model."): tensor
        for name, tensor in read_all(copy).items()
    }
    assert "language_model.lm_head.weight" in state
    assert "vision_tower.vision_model.post_layernorm.weight" in state
    write_one(copy, state)
    old = load_model(str(copy), device="cpu", warm_up=False)
    ours = tiny_model.answer(tiny_model.encode(photo, QUESTION), max_new_tokens=10)
    theirs = old.answer(old.encode(photo, QUESTION), max_new_tokens=10)
    assert torch.equal(ours.first_logits, theirs.first_logits)
    assert ours.token_ids == theirs.token_ids


def test_the_revision_follows_the_weights(copy: Path, tiny_model: LlavaModel) -> None:
    assert load_model(str(copy), "cpu", warm_up=False).revision == tiny_model.revision
    weights = copy / "clip" / "open_clip_model.safetensors"
    state = load_file(weights)
    state["visual.proj"] = state["visual.proj"] * 2
    save_file(state, weights)
    assert load_model(str(copy), "cpu", warm_up=False).revision != tiny_model.revision


def test_in_half_precision(copy: Path, photo: Image.Image) -> None:
    model = load_model(str(copy), device="cpu")
    model.hf.to(torch.bfloat16)
    view = model.encode(photo, QUESTION)
    assert model.dtype == view.tokens.features.dtype == torch.bfloat16
    assert view.tokens.clip_image is not None
    assert view.tokens.clip_image.dtype == torch.float32  # relevance never in half precision
    answer = model.answer(view, max_new_tokens=4)
    text = model.hf.config.text_config
    assert answer.kv_cache_bytes == view.input_ids.shape[1] * text.num_hidden_layers * 2 * 16 * 2


def test_no_clip_folder_and_an_unknown_tower(copy: Path, photo: Image.Image) -> None:
    shutil.rmtree(copy / "clip")
    model = load_model(str(copy), device="cpu")
    assert model.text_tower is None and "No relevance" in model.notes[0]
    assert "by guidance_text=words" in model.notes[0]  # by which they run all the same
    assert model.encode(photo, QUESTION).tokens.clip_image is None


def test_a_tower_of_clips_sizes_takes_openais_text_side(
    copy: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(copy / "clip")
    monkeypatch.setattr(text_tower, "vision_is_openai_clip", lambda vision: True)
    asked: list[tuple[str, str]] = []

    def fetched(name: str, pretrained: str, progress: object) -> TextTower:
        asked.append((name, pretrained))
        return TextTower.from_folder(tiny_folder / "clip")

    monkeypatch.setattr(TextTower, "from_open_clip", fetched)
    model = load_model(str(copy), device="cpu")
    assert asked == [OPENAI_CLIP] and model.text_tower is not None
    assert "exact only if" in model.notes[0]

    monkeypatch.setattr(TextTower, "from_open_clip", unreachable)
    model = load_model(str(copy), device="cpu")
    assert model.text_tower is None
    assert "No relevance" in model.notes[0] and "No connection" in model.notes[0]


# --- what is refused ---


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("llava-2", "", "/no/such/folder", "x" * 300):
        message = refused(name, "There is no model")
        assert all(known in message for known in ("auto", "built-in", "llava-1.5-7b", "folder"))
    refused("lava-1.5-7b", r"There is no model .lava-1\.5-7b.\. Did you mean llava-1\.5-7b\?")
    for name in (None, ["built-in"]):
        with pytest.raises(ModelError, match=f"There is no model {re.escape(repr(name))}"):
            load_model(name, device="cpu")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"There is no device 'None'\. Choose auto"):
        load_model("built-in", device=None)  # type: ignore[arg-type]


def test_an_empty_folder(tmp_path: Path) -> None:
    refused(tmp_path, r"no readable config\.json")


@pytest.mark.parametrize("kind", ["llava_onevision", "qwen3_vl", "no-such-thing"])
def test_another_family(copy: Path, kind: str) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": kind}))
    message = refused(copy, f"'{kind}'")
    assert "'my-llava'" in message
    for family in ("Llava", "LlavaNext", "Qwen2_5_VL"):
        assert f"{family}ForConditionalGeneration" in message


def test_remote_code_is_not_run(copy: Path) -> None:
    """A folder that asks for its own code is read with the stock classes, or refused."""
    path = copy / "config.json"
    config = json.loads(path.read_text())
    config["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    path.write_text(json.dumps(config))
    trap = copy / "ran"
    (copy / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Model: ...\nclass Config: ...")
    try:
        load_model(str(copy), device="cpu")
    except ModelError as refusal:
        assert "could not be loaded" in str(refusal)
    assert not trap.exists()


def test_built_in_weights_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(BUILT_IN, source=tmp_path / "built-in")
    monkeypatch.setitem(CATALOGUE, "built-in", missing)
    assert "spare_demo.scenes.train" in refused("built-in", "not here")


def test_a_hub_that_cannot_be_reached(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run offline: asking the hub for weights that are not cached fails as it would then."""
    nowhere = replace(LLAVA_7B, source="spare-demo/not-a-repository")
    monkeypatch.setitem(CATALOGUE, LLAVA_7B.name, nowhere)
    monkeypatch.setattr(
        TextTower, "from_open_clip", lambda *_: TextTower.from_folder(tiny_folder / "clip")
    )
    message = refused(LLAVA_7B.name, "spare-demo/not-a-repository is not on this machine")
    assert "--model built-in" in message
    refused("someone/no-such-model", "no-such-model is not on this machine, and HF_HUB_OFFLINE")


@pytest.mark.parametrize("device", ["tpu?", "meta"])
def test_an_unknown_device(tiny_folder: Path, device: str) -> None:
    refused(tiny_folder, "Choose auto, cpu, cuda or mps.* such as cuda:1", device=device)


def test_a_gpu_that_is_not_there(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tiny_folder, "no CUDA GPU", device=f"cuda:{torch.cuda.device_count()}")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    refused(tiny_folder, r"no CUDA GPU 'cuda:1'\. .* the last one is cuda:0\.", device="cuda:1")


@pytest.mark.parametrize(
    ("cuda", "said"), [("13.0", "driver for CUDA 13.0"), (None, "built without CUDA")]
)
def test_a_gpu_that_this_torch_cannot_use(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: str | None, said: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(loading, "which", lambda name: None)
    monkeypatch.setattr(loading, "_NVIDIA_DRIVERS", ())
    assert loading._unusable_gpu() == ""
    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA 550.54")
    monkeypatch.setattr(loading, "_NVIDIA_DRIVERS", (str(driver),))
    assert said in loading._unusable_gpu() and "pip install" in loading._unusable_gpu()
    refused(tiny_folder, said, device="cuda")
    # On Windows there is no such file, but the driver's own program.
    monkeypatch.setattr(loading, "_NVIDIA_DRIVERS", ())
    monkeypatch.setattr(loading, "which", lambda name: f"C:/Windows/System32/{name}.exe")
    assert said in loading._unusable_gpu()


def test_a_gpu_that_this_torch_has_no_kernels_for(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a V100 with CUDA 13: its memory can be asked for, and nothing computed."""
    said = "CUDA error: no kernel image is available for execution on the device"

    def ones(*_: Any, device: torch.device) -> torch.Tensor:
        raise RuntimeError(f"{said}\nCUDA kernel errors might be asynchronously reported")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (32 * 10**9, 32 * 10**9))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "ones", ones)
        assert loading._device("auto") == torch.device("cpu")
        with pytest.raises(ModelError, match=rf"{said}\).*cu126.*Choose --device cpu"):
            loading._device("cuda")
    stand_in = replace(BUILT_IN, source=tiny_folder)
    monkeypatch.setattr(loading, "choose", lambda machine, bits: (stand_in, f"{machine.gpus}"))
    monkeypatch.setattr(loading, "_fault", lambda device: said)
    (note,) = load_model("auto", warm_up=False).notes
    assert note.startswith("()") and said in note


def test_a_full_gpu_is_told_as_that(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA takes some memory itself before it can say how much is free, and fails without it."""

    def full(device: torch.device) -> tuple[int, int]:
        if not device.index:
            raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be …")
        return 32 * 10**9, 32 * 10**9

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", full)
    monkeypatch.setattr(torch, "ones", lambda *_, device: full(device))
    assert loading._device("auto") == loading._device("cuda") == torch.device("cuda", 1)
    said = (
        r"cannot be used\. There .* other programs have taken all its memory\. Choose --device cpu"
    )
    refused(tiny_folder, said, device="cuda:0")


def test_an_apple_gpu_that_is_not_there(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    refused(tiny_folder, "no Apple GPU that torch can use", device="mps")


# --- auto ---


def test_auto_is_what_the_table_says(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines: list[str] = []
    stand_in = replace(BUILT_IN, source=tiny_folder)

    def chosen(machine: str, bits: int) -> tuple[Any, str]:
        machines.append(f"{machine} {bits}")
        return stand_in, "because"

    monkeypatch.setattr(loading, "this_machine", lambda device: f"machine with {device}")
    monkeypatch.setattr(loading, "choose", chosen)
    model = load_model("auto", "cpu")
    assert model.name == "built-in" and model.notes[0] == "because"
    assert machines == ["machine with cpu 16"]


@pytest.mark.parametrize("name", ["tiny-llava", "built-in"])
def test_auto_leaves_a_gpu_that_is_too_small_alone(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    free = {"cuda": 10**9, "cpu": 64 * 10**9}
    entry = replace(CATALOGUE[name], source=tiny_folder)
    machine = Machine((free["cuda"],), free["cpu"])
    monkeypatch.setattr(loading, "_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(loading, "this_machine", lambda device: machine)
    monkeypatch.setattr(loading, "choose", lambda machine, bits: (entry, "because"))
    monkeypatch.setattr(memory, "free_bytes", lambda device: free[device.type])
    monkeypatch.setattr(memory, "needed_bytes", lambda *_: 2 * 10**9)
    model = load_model("auto", warm_up=False)
    assert (model.name, model.device.type, model.notes[0]) == (name, "cpu", "because")


def test_the_freest_of_several_gpus_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [3, 9, 5]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(loading, "free_bytes", lambda device: free[device.index])
    monkeypatch.setattr(loading, "_fault", lambda device: "")
    assert loading._device("auto") == loading._device("cuda") == torch.device("cuda", 1)
    assert loading._device("cuda:2") == torch.device("cuda", 2)


def test_auto_falls_back_when_the_hub_is_out_of_reach(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = replace(BUILT_IN, source=tiny_folder)
    monkeypatch.setattr(loading, "BUILT_IN", stand_in)
    monkeypatch.setattr(loading, "choose", lambda machine, bits: (LLAVA_7B, "room enough"))
    monkeypatch.setattr(hub, "config_folder", lambda repository: tiny_folder)
    monkeypatch.setattr(TextTower, "from_open_clip", unreachable)
    model = load_model("auto", device="cpu")
    assert model.name == "built-in"
    assert "could not be loaded" in model.notes[0] and "No connection" in model.notes[0]


# --- real weights ---


def _cached(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repository, "config.json"), str)


@pytest.mark.weights
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
@pytest.mark.skipif(
    not _cached("llava-hf/llava-1.5-7b-hf"),
    reason="LLaVA-1.5-7B is not in this machine's Hugging Face cache",
)
def test_the_real_7b_keeps_all_as_stock_does(photo: Image.Image) -> None:
    model = load_model("llava-1.5-7b")
    view = model.encode(photo, "What is in the picture?")
    stock: Any = model.hf.generate(
        input_ids=view.input_ids.to(model.device),
        pixel_values=view.pixel_values.to(model.device, model.dtype),
        attention_mask=torch.ones_like(view.input_ids).to(model.device),
        max_new_tokens=24,
        do_sample=False,
    )
    answer = model.answer(view, max_new_tokens=24)
    assert list(answer.token_ids) == stock[0, view.input_ids.shape[1] :].tolist()
    assert view.tokens.clip_image is not None and view.tokens.clip_image.shape == (576, 768)
    assert answer.kv_cache_bytes == view.input_ids.shape[1] * 512 * 1024
