"""How much a model needs, what is said when there is less, and what a question too large does."""

from __future__ import annotations

import copy
import re
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from PIL import Image

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.models import (
    LlavaModel,
    ModelError,
    TextTower,
    View,
    bits_of,
    load_model,
    resident,
)
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate.passes import OutOfMemory, Passes
from spare_demo.models.loading import checkpoint as reading
from spare_demo.models.loading import load as loading
from spare_demo.models.loading import memory as module
from spare_demo.models.loading import number_format
from spare_demo.models.loading.catalogue import published_config
from spare_demo.models.loading.memory import LoadOptions, Room, Weights
from spare_demo.models.loading.number_format import NumberFormat, suited_format, uniform

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SPREAD = Room(uniform(torch.float32), True, 1, 2, 0, "on all GPUs together", False)
QUESTION = "What colour is the circle?"


# --- counting ---


def test_bytes_of_weights() -> None:
    weights = Weights(linear=1000, others=10)
    assert weights.bytes(torch.float16, 16) == 2020
    assert weights.bytes(torch.float32, 16) == 4040
    assert weights.bytes(torch.float16, 8) == 1020
    assert weights.bytes(torch.float16, 4) == 562 + 20  # with a scale for every 64


def test_equal_configs_are_counted_once(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    theirs = module.transformers  # which may be another object than an earlier import's
    kind = theirs.LlavaForConditionalGeneration
    monkeypatch.setattr(theirs, kind.__name__, lambda config: built.append(config) or kind(config))
    counts = []
    for words in (311, 311, 312):  # a vocabulary that no other test counts
        config = copy.deepcopy(tiny_model.hf.config)
        config.text_config.vocab_size = words
        counts.append(module.count_weights(config, LlavaModel))
    assert counts[0] == counts[1] != counts[2] and len(built) == 2


@pytest.mark.parametrize(
    ("runs", "slowness"),
    [
        ([0.5, *[0.001] * 4, *[0.004] * 5], 0.25),  # what is read from the disk first is no product
        ([0.5, 0.3, *[0.002] * 5], 150),  # a slow one is not waited for again
    ],
)
def test_the_first_product_does_not_count(
    runs: list[float], slowness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([at for seconds in runs for at in (7.0, 7.0 + seconds)])
    monkeypatch.setattr(number_format, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert number_format.bfloat16_slowness.__wrapped__() == pytest.approx(slowness)
    assert not [*clock]


def test_the_number_format_suits_size_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    half, brain, single, large = torch.float16, torch.bfloat16, torch.float32, 7 * 10**9
    for own in (half, None):
        for device in (CPU, CUDA):
            assert suited_format(own, 1000, device) == uniform(single)
    monkeypatch.setattr(number_format, "bfloat16_slowness", lambda: 0.3)
    for count in (330 * 10**6, large):  # a vision tower alone, and a whole model
        assert suited_format(half, count, CPU) == uniform(brain)
    for slowness in (1.5, 150):
        monkeypatch.setattr(number_format, "bfloat16_slowness", lambda times=slowness: times)
        for packs, dtype in ((True, half), (False, single)):
            monkeypatch.setattr(number_format, "can_pack", lambda packs=packs: packs)
            for own in (half, brain, single):
                assert suited_format(own, 330 * 10**6, CPU) == NumberFormat(dtype, single)
            assert suited_format(half, large, CPU, bits=4) == uniform(single)
    assert suited_format(single, large, CUDA) == uniform(half)
    assert suited_format(brain, large, CUDA) == uniform(brain)
    assert suited_format(single, 1000, torch.device("mps")) == uniform(single)


def test_free_memory_of_this_machine_is_a_number() -> None:
    assert 0 < module.free_bytes(CPU) < 2**50


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_what_remains_is_counted(tiny_model: LlavaModel, device: torch.device) -> None:
    """Three answers' caches; and on a CPU the comparisons that visitors have open."""
    config, family = tiny_model.hf.config, type(tiny_model)
    weights, options = Weights(linear=0, others=0), LoadOptions(device)
    with_answers = module.needed_bytes(config, family, weights, options, uniform(torch.float32))
    options = LoadOptions(device, language_model=False)
    without = module.needed_bytes(config, family, weights, options, uniform(torch.float32))
    text, tokens = config.text_config, 16 + 600
    width = text.hidden_size // text.num_attention_heads
    a_token = 2 * text.num_hidden_layers * text.num_key_value_heads * width * 4
    caches = a_token * (tokens + 2 * (16 // 4 + 600))  # two answers keep a quarter
    activations = tokens * (4 * text.hidden_size + 3 * text.intermediate_size) * 4
    assert with_answers - without == caches + activations
    a_visit = module.visit_bytes(config, 16, torch.float32)
    choosing, driver = 8 * 16 * (16 + text.hidden_size), 800_000_000
    assert without == choosing + (driver if device == CUDA else 32 * a_visit)


def test_an_open_comparison_takes_what_is_counted(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    view = tiny_model.encode(photo, QUESTION)
    picture, tokens = view.picture, view.tokens
    assert tokens.clip_image is not None and tokens.states is not None
    states = [*picture.hidden.values(), tokens.states, tokens.states]  # two are of inner blocks
    tensors = [picture.features, tokens.clip_image, picture.pixel_values, *states]
    tensors.append(picture.compact_features)
    taken = sum(t.numel() * t.element_size() for t in tensors) + 3_000_000
    counted = module.visit_bytes(tiny_model.hf.config, view.grid.n, torch.float32)
    assert taken == pytest.approx(counted, rel=0.01)


# --- before loading ---


@pytest.fixture
def big(tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `find_room` is given of a model of 14 GB in half precision."""
    monkeypatch.setattr(module, "count_weights", lambda c, f: Weights(6 * 10**9, 10**9))
    return tiny_model.hf.config, type(tiny_model), "Big"


def test_it_is_said_before_loading(tiny_folder: Path) -> None:
    said: list[str] = []
    load_model(str(tiny_folder), device="cpu", report=said.append)
    assert len(said) == 1
    needed = re.search(r"needs about (\d+) MB of memory, and", said[0])
    assert needed and 96 < int(needed[1]) < 200 and said[0].endswith("GB are free.")


def test_too_little_memory_refuses(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: 1000)
    with pytest.raises(ModelError, match=r"needs about .* and 0 MB are free\. Free some memory"):
        load_model(str(tiny_folder), device="cpu")


def test_memory_that_runs_out_while_loading_is_told_as_that(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as damaged weights, or a wrong version of a library."""

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB at 0x7f")

    opened = reading.open_checkpoint(tiny_folder, "Mine", LoadOptions(CPU))
    tower = TextTower.from_folder(tiny_folder / "clip")
    said = r"^Memory ran out while Mine was loaded\. Free some memory, start it with --bits 4"
    for place, name in (
        (tower, "to"),
        (transformers.LlavaForConditionalGeneration, "from_pretrained"),
    ):
        monkeypatch.setattr(place, name, full)
        with pytest.raises(ModelError, match=said) as refusal:
            reading.read_checkpoint(opened, tower, name="mine")
        assert "0x7f" not in str(refusal.value)


@pytest.mark.parametrize("in_a_pass", [True, False])
def test_no_memory_left_for_an_answer_is_told_at_the_start(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, in_a_pass: bool
) -> None:
    tried: list[LlavaModel] = []

    def full(self: LlavaModel) -> None:
        tried.append(self)
        if in_a_pass:
            self._passes.run(lambda: (_ for _ in ()).throw(MemoryError()))
        raise torch.OutOfMemoryError("CUDA out of memory.")  # while it chooses

    monkeypatch.setattr(LlavaModel, "warm_up", full)
    with pytest.raises(ModelError, match=r"was loaded, but there is not enough memory left"):
        load_model(str(tiny_folder), device="cpu")
    assert tried[0].closed and tried[0].bytes == 0  # also where the error is kept for a while


def test_no_memory_left_to_measure_the_device_refuses_nothing(
    tiny_folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA")

    monkeypatch.setattr(resident, "measure_rates", run_out)
    model = load_model(str(tiny_folder), device="cpu")
    answer = model.answer(model.encode(photo, QUESTION), None, 2)
    assert answer.text and model.prefill_floor(answer) is None


def test_an_apple_gpus_memory_is_what_is_counted(big: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gb, mps, said = 10**9, torch.device("mps"), list[str]()
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 2 * gb)
    for most, enough in ((18 * gb, True), (15 * gb, False)):
        monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda most=most: most)
        given = *big, LoadOptions(mps, report=said.append)
        if enough:
            assert module.find_room(*given).number_format == uniform(torch.float16)
            continue
        with pytest.raises(ModelError, match=r"on the Apple GPU, and 13\.0 GB") as refusal:
            module.find_room(*given)
        assert "--bits" not in str(refusal.value)  # which does not work there
    assert len(said) == 1 and "GB on the Apple GPU, and 16.0 GB are free." in said[0]


@pytest.mark.parametrize(
    ("free", "slowness", "dtype"),
    [
        (40, 0.3, torch.bfloat16),
        (40, 150, torch.float32),
        (40, 2, torch.float32),
        (20, 2, torch.bfloat16),
        (20, 150, None),
    ],
)
def test_a_processor_without_bfloat16_and_fbgemm_computes_in_float32_or_not_at_all(
    big: Any, monkeypatch: pytest.MonkeyPatch, free: int, slowness: float, dtype: torch.dtype | None
) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: free * 10**9)
    for part in (module, number_format):
        monkeypatch.setattr(part, "bfloat16_slowness", lambda: slowness)
    monkeypatch.setattr(number_format, "can_pack", lambda: False)
    if dtype is not None:
        room = module.find_room(*big, LoadOptions(CPU))
        assert (room.number_format, room.crowded) == (uniform(dtype), False)
        return
    with pytest.raises(ModelError, match=r"about 28\.\d GB.*slow in bfloat16\), and 20\.0 GB"):
        module.find_room(*big, LoadOptions(CPU))


@pytest.mark.parametrize(("free", "slowness"), [(20, 0.3), (20, 150), (14, 0.3), (14, 150)])
def test_weights_of_16_bits_fit_whatever_a_processor_computes_in(
    big: Any, monkeypatch: pytest.MonkeyPatch, free: int, slowness: float
) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: free * 10**9)
    monkeypatch.setattr(number_format, "bfloat16_slowness", lambda: slowness)
    monkeypatch.setattr(number_format, "can_pack", lambda: True)
    said = list[str]()
    given = *big, LoadOptions(CPU, report=said.append)
    narrow = " (with weights of 16 bits, computing in float32)" if slowness > 1 else ""
    if free == 20:
        room = module.find_room(*given)
        assert (room.number_format.is_narrow, room.crowded) == (bool(narrow), False)
        assert f" GB of memory{narrow}, and 20.0 GB are free." in said[0]
        return
    refusal = re.escape(f" GB of memory{narrow}, and 14.0 GB are free.")
    with pytest.raises(ModelError, match=rf"about 14\.\d{refusal}"):
        module.find_room(*given)


def test_memory_of_the_present_model_is_taken_only_where_it_is_needed(
    big: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_format, "bfloat16_slowness", lambda: 0.3)
    for free, crowded in ((20, False), (12, True)):
        monkeypatch.setattr(module, "free_bytes", lambda device, free=free: free * 10**9)
        options = LoadOptions(CPU, given_back=5 * 10**9)
        assert module.find_room(*big, options).crowded is crowded


def on_gpus(
    monkeypatch: pytest.MonkeyPatch, free: list[int], big: Any, **options: Any
) -> tuple[torch.dtype, bool]:
    """`find_room` on a machine with that much free on each GPU."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (free[getattr(device, "index", device) or 0], 0)
    )
    given = LoadOptions(CUDA, **{"spread": True, **options})
    room = module.find_room(*big, given)
    return room.number_format.weights, room.spread


def test_a_smaller_way_is_offered(big: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gb = 10**9
    assert on_gpus(monkeypatch, [16 * gb], big) == (torch.float16, False)
    with pytest.raises(ModelError, match=r"15\.3 GB on the GPU, and 10\.0.*--bits 8 \(about 9\.3"):
        on_gpus(monkeypatch, [10 * gb], big)
    with pytest.raises(ModelError, match=r"--bits 4 \(about 6\.7"):
        on_gpus(monkeypatch, [7 * gb], big)
    with pytest.raises(ModelError) as refusal:
        on_gpus(monkeypatch, [5 * gb], big)
    assert "--bits" not in str(refusal.value) and "smaller model" in str(refusal.value)
    assert on_gpus(monkeypatch, [10 * gb], big, bits=8) == (torch.float16, False)


@pytest.mark.parametrize(
    ("device", "free", "slowness", "offered"),
    [
        ("cpu", 13, 0.3, r"--bits 8 \(about 8\.\d GB\),"),
        ("cpu", 7, 0.3, r"--bits 4 \(about 6\.\d GB\),"),
        ("cpu", 13, 150, r"--bits 8 \(about 1\d\.\d GB, slowly\),"),
        ("mps", 13, 0.3, None),
    ],
)
def test_a_smaller_way_is_offered_without_a_cuda_gpu(
    big: Any,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    free: int,
    slowness: float,
    offered: str | None,
) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: free * 10**9)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    for part in (module, number_format):
        monkeypatch.setattr(part, "bfloat16_slowness", lambda: slowness)
    monkeypatch.setattr(number_format, "can_pack", lambda: True)
    with pytest.raises(ModelError) as refusal:
        module.find_room(*big, LoadOptions(torch.device(device)))
    if offered is None:
        assert "--bits" not in str(refusal.value)
    else:
        assert re.search(offered, str(refusal.value)), refusal.value


def test_quantised_weights_are_unpacked_anew_without_avx512_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wide, slowness, slow in (
        ("AVX512", 0.3, False),
        ("AVX512", 2, True),
        ("SVE256", 0.3, True),
    ):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda wide=wide: wide)
        monkeypatch.setattr(number_format, "bfloat16_slowness", lambda times=slowness: times)
        assert number_format.unpacks_in_every_pass(CPU, 4) is slow
        assert not number_format.unpacks_in_every_pass(CPU, 16)
        assert not number_format.unpacks_in_every_pass(CUDA, 4)


def test_several_gpus_hold_what_one_cannot(big: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gb = 10**9
    assert on_gpus(monkeypatch, [10 * gb, 10 * gb], big) == (torch.float16, True)
    with pytest.raises(ModelError, match=r"on all GPUs together, and 12\.0 GB"):
        on_gpus(monkeypatch, [6 * gb, 6 * gb], big)
    with pytest.raises(ModelError, match=r"on the GPU, and 10\.0 GB"):  # asked for by number
        on_gpus(monkeypatch, [10 * gb, 10 * gb], big, spread=False)


def test_what_another_gpu_gives_back_is_room_on_all_together_alone(
    big: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gb = 10**9
    given: dict[str, Any] = {"given_back": 2 * gb, "given_back_elsewhere": 6 * gb}
    assert on_gpus(monkeypatch, [14 * gb, 2 * gb], big, **given) == (torch.float16, False)
    assert on_gpus(monkeypatch, [10 * gb, 2 * gb], big, **given) == (torch.float16, True)


def test_the_old_model_may_lie_on_another_gpu_than_the_freest(
    tiny_folder: Path, tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[LoadOptions] = []
    olds = {device: another(tiny_folder) for device in ("cpu", "cuda:1")}
    monkeypatch.setattr(loading, "_device", torch.device)
    monkeypatch.setattr(
        loading, "_load_other", lambda source, options: given.append(options) or tiny_model
    )
    for device, old in olds.items():
        load_model(str(tiny_folder), device, instead_of=old, warm_up=False)
    assert given[0].given_back == given[1].given_back_elsewhere > 0
    assert given[1].given_back == given[0].given_back_elsewhere == 0


def test_a_model_may_be_placed_by_accelerate(
    tiny_next_folder: Path, tiny_next: LlavaNextModel, photo: Image.Image, monkeypatch: Any
) -> None:
    monkeypatch.setattr(reading, "find_room", lambda *_: SPREAD)
    spread = load_model(str(tiny_next_folder), device="cpu")
    view = spread.encode(photo, QUESTION)
    whole = tiny_next.encode(photo, QUESTION)
    assert torch.equal(view.tokens.features, whole.tokens.features)
    assert spread.answer(view, max_new_tokens=4).text == tiny_next.answer(whole, None, 4).text


def test_a_model_partly_left_on_the_cpu_is_refused(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = transformers.LlavaForConditionalGeneration
    load = kind.from_pretrained

    def placed(*args: Any, **options: Any) -> Any:
        hf, report = load(*args, **options)
        hf.hf_device_map = {"model": 0, "lm_head": "cpu"}
        return hf, report

    monkeypatch.setattr(kind, "from_pretrained", placed)
    monkeypatch.setattr(reading, "find_room", lambda *_: SPREAD)
    with pytest.raises(ModelError, match="does not fit on all GPUs together"):
        opened = reading.open_checkpoint(tiny_folder, "Mine", LoadOptions(CUDA))
        reading.read_checkpoint(opened, None, name="mine")


def test_what_torch_keeps_for_itself_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (5, 24))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: 10)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda gpu: 7)
    assert module.free_bytes(CUDA) == 8


def test_tied_words_lie_twice_in_a_narrow_model() -> None:
    tied = published_config("qwen2.5-vl-3b")
    untied = copy.deepcopy(tied)
    untied.tie_word_embeddings = False
    weights, narrow = (
        module.count_weights(tied, QwenModel),
        NumberFormat(torch.float16, torch.float32),
    )
    given = QwenModel, weights, LoadOptions(CPU), narrow
    more = module.needed_bytes(tied, *given) - module.needed_bytes(untied, *given)
    assert more == 2 * 151_936 * 2048


@pytest.mark.parametrize(
    ("limit", "free"), [("10000\n", 6000), ("20000\n", 9000), ("max\n", 9000), ("", 9000)]
)
def test_a_container_has_no_more_than_its_limit(
    limit: str, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.current").write_text("6000\n")
    (tmp_path / "memory.stat").write_text("anon 3500\ninactive_file 2000\nactive_file 500\n")
    monkeypatch.setattr(module, "Path", lambda folder: tmp_path)
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: SimpleNamespace(available=9000))
    assert module.free_bytes(CPU) == free


# --- quantised weights ---


def test_bits_without_bitsandbytes_say_how_to_get_it(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install bitsandbytes"):
        load_model(str(tiny_folder), device="cpu", bits=8)
    vision = load_model(str(tiny_folder), device="cpu", bits=8, language_model=False)
    assert bits_of(vision.revision) == 16  # there is nothing to quantise
    with pytest.raises(
        ModelError, match=r"^A model in 5 bits is not possible\. Choose 16, 8 or 4\.$"
    ):
        load_model(str(tiny_folder), device="cpu", bits=5)
    monkeypatch.undo()
    with pytest.raises(ModelError, match="Apple GPUs"):
        reading._quantisation(LoadOptions(torch.device("mps"), bits=8), LlavaModel, torch.float16)


# --- while it answers ---


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:98] DefaultCPUAllocator: can't allocate memory"
        ),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
)
def test_a_pass_out_of_memory_is_a_sentence_and_frees_the_turn(error: Exception) -> None:
    passes = Passes(CPU)

    def fail() -> None:
        raise error

    assert is_out_of_memory(error)
    with pytest.raises(OutOfMemory, match="not enough memory") as refusal:
        passes.run(fail)
    assert refusal.value.__context__ is None  # nothing keeps the pass's tensors alive
    assert passes.run(lambda: 7)[0] == 7


def test_other_errors_are_not_taken_for_it() -> None:
    for error in (RuntimeError("shape mismatch"), ValueError("out of memory"), KeyError("memory")):
        assert not is_out_of_memory(error)
    passes = Passes(CPU)
    with pytest.raises(RuntimeError, match="shape"):
        passes.run(lambda: (_ for _ in ()).throw(RuntimeError("shape mismatch")))
    assert passes.run(lambda: 7)[0] == 7


def test_a_question_out_of_memory_leaves_the_model_answering(
    tiny_model: LlavaModel, view: View
) -> None:
    expected = tiny_model.answer(view, max_new_tokens=3).token_ids
    layer = tiny_model.hf.model.language_model.layers[1]

    def fail(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with layer.register_forward_pre_hook(fail), pytest.raises(OutOfMemory):
        tiny_model.answer(view, max_new_tokens=3)
    done: list[tuple[int, ...]] = []
    thread = threading.Thread(
        target=lambda: done.append(tiny_model.answer(view, max_new_tokens=3).token_ids)
    )
    thread.start()
    thread.join(60)
    assert done == [expected]


# --- one model after the other ---


def another(folder: Path) -> Any:
    """A model that may be closed: the fixtures' are everyone's."""
    return load_model(str(folder), device="cpu", warm_up=False)


def test_a_closed_model_holds_nothing_and_says_why(tiny_folder: Path, photo: Image.Image) -> None:
    model = another(tiny_folder)
    parts = (model.hf, model.text_tower)
    assert model.bytes > sum(4 * p.numel() for part in parts for p in part.parameters())
    view = model.encode(photo, QUESTION)
    writing = model.stream(view)
    next(writing)
    model.close("Another model came.")
    assert model.closed and model.bytes == 0
    for ask in (
        lambda: list(writing),
        lambda: model.look(photo),
        lambda: model.ask(view.picture, QUESTION),
        lambda: model.answer(view),
        lambda: model.answer_many([(view, None)]),
    ):
        with pytest.raises(ValueError, match="Another model came"):
            ask()


def test_the_old_model_goes_once_the_new_one_is_known_to_fit(
    tiny_folder: Path, tiny_next_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, said = another(tiny_folder), list[str]()
    there: list[bool] = []
    read = LlavaNextModel.__init__
    monkeypatch.setattr(
        LlavaNextModel, "__init__", lambda *a, **k: there.append(old.closed) or read(*a, **k)
    )
    monkeypatch.setattr(module, "free_bytes", lambda device: 10**9 - old.bytes)
    monkeypatch.setattr(module, "needed_bytes", lambda *_: 10**9)  # with the old one it would not
    new = load_model(str(tiny_next_folder), device="cpu", report=said.append, instead_of=old)
    assert isinstance(new, LlavaNextModel) and there == [True]
    assert said[0].endswith("and 1.0 GB are free without the present model.")


@pytest.mark.parametrize("why", ["no such name", "no room", "a missing file"])
def test_a_refused_model_leaves_the_old_one_answering(
    tiny_folder: Path, tmp_path: Path, photo: Image.Image, monkeypatch: Any, why: str
) -> None:
    old, name = another(tiny_folder), "no-such-model"
    if why == "no room":
        name = str(tiny_folder)
        monkeypatch.setattr(module, "free_bytes", lambda device: 10)
        monkeypatch.setattr(module, "needed_bytes", lambda *_: 10**9)
    if why == "a missing file":
        name = str(shutil.copytree(tiny_folder, tmp_path / "copy"))
        next(Path(name).glob("*-of-*.safetensors")).unlink()
    with pytest.raises(ModelError):
        load_model(name, device="cpu", instead_of=old)
    assert not old.closed
    assert old.answer(old.encode(photo, QUESTION), max_new_tokens=2).token_ids
