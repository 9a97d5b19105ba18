"""Names -> checkpoints: the built-in model, LLaVA-1.5-7B, or a local folder of any family.

Untrained or half-loaded weights never answer: whatever is missing, cut off or does not fit stops
the loading with a `ModelError` that says what to do next and names no path but the one typed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from spare_demo.models.base import ModelError
from spare_demo.models.checkpoint import folder_revision, read_checkpoint, vision_is_openai_clip
from spare_demo.models.model import Model
from spare_demo.models.text_tower import TextTower

ASSETS = Path(__file__).resolve().parents[2] / "assets"
AUTO = "auto"
OPENAI_CLIP = (
    "ViT-L-14-336-quickgelu",
    "openai",
)  # LLaVA-1.5's frozen tower; quickgelu: PLATFORM 2

# LLaVA-1.5-7B in half precision: 14.2 GB of weights, 0.5 GB CLIP text side in float32, 0.6 GB cache
# (0.5 MiB a token, 1,200 tokens), and room for activations and the CUDA context.
GPU_BYTES_NEEDED = 18_000_000_000


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    Attributes:
        source: a folder, or a repository of the Hugging Face hub.
        clip: open_clip name and weights of the text side, None for the folder's own ``clip/``.
        gpu_dtype, cpu_dtype: number format of the LLaVA weights where none is asked for.
        needs: in words, for the table.
    """

    name: str
    title: str
    description: str
    source: Path | str
    clip: tuple[str, str] | None
    gpu_dtype: torch.dtype
    cpu_dtype: torch.dtype
    needs: str


BUILT_IN = Entry(
    name="built-in",
    title="Built-in model",
    description=(
        "A small model trained on drawn scenes. It knows nothing about photos; for photos start "
        "the app with LLaVA-1.5-7B on a GPU (`python app.py --model llava-1.5-7b`)."
    ),
    source=ASSETS / "built-in",
    clip=None,
    gpu_dtype=torch.float32,
    cpu_dtype=torch.float32,
    needs="any computer; its weights come with the program",
)
LLAVA_7B = Entry(
    name="llava-1.5-7b",
    title="LLaVA-1.5-7B",
    description="LLaVA-1.5-7B, the model of both papers. It answers questions about photos.",
    source="llava-hf/llava-1.5-7b-hf",
    clip=OPENAI_CLIP,
    gpu_dtype=torch.float16,
    cpu_dtype=torch.bfloat16,
    needs="a CUDA GPU with 18 GB free; downloads 16 GB the first time",
)
CATALOGUE = {entry.name: entry for entry in (BUILT_IN, LLAVA_7B)}


def catalogue() -> list[dict[str, str]]:
    """The table as rows of text: name, title, needs, description."""
    rows = [
        {"name": e.name, "title": e.title, "needs": e.needs, "description": e.description}
        for e in CATALOGUE.values()
    ]
    auto = f"{LLAVA_7B.name} where a CUDA GPU has room for it, else {BUILT_IN.name}."
    return [
        {"name": AUTO, "title": "Automatic", "needs": "any computer", "description": auto},
        *rows,
    ]


def choose(device: str = "auto") -> tuple[str, str]:
    """What "auto" stands for on this machine.

    Returns:
        a catalogue name, and a sentence that says why.
    """
    wanted = _device(device)
    if wanted.type != "cuda":
        return (
            BUILT_IN.name,
            f"{BUILT_IN.title}: LLaVA-1.5-7B needs a CUDA GPU, and none is in use.",
        )
    free, _ = torch.cuda.mem_get_info(wanted)
    room = (
        f"the GPU has {free / 1e9:.0f} GB free and LLaVA-1.5-7B needs {GPU_BYTES_NEEDED / 1e9:.0f}"
    )
    entry = LLAVA_7B if free >= GPU_BYTES_NEEDED else BUILT_IN
    return entry.name, f"{entry.title}: {room}."


def load_model(name: str = AUTO, device: str = "auto", dtype: torch.dtype | None = None) -> Model:
    """Load, check and warm up a model.

    Args:
        name: "auto", a name of `CATALOGUE`, or a folder that holds a checkpoint.
        device: "auto" (CUDA if there is one, else CPU), "cpu", "cuda", "cuda:1", "mps".
        dtype: number format of the LLaVA weights; None takes what suits model and device.

    Raises:
        ModelError: with what to do next.
    """
    place = _device(device)
    if name == AUTO:
        name, why = choose(device)
        try:
            model = _load(CATALOGUE[name], place, dtype, (why,))
        except ModelError as error:
            if name == BUILT_IN.name:
                raise
            why = f"{BUILT_IN.title}, because LLaVA-1.5-7B could not be loaded: {error}"
            model = _load(BUILT_IN, place, dtype, (why,))
    elif name in CATALOGUE:
        model = _load(CATALOGUE[name], place, dtype, ())
    elif name and Path(name).is_dir():
        model = _load_folder(Path(name), place, dtype)
    else:
        known = ", ".join([AUTO, *CATALOGUE])
        raise ModelError(
            f"There is no model '{name}'. Choose one of: {known}, or the path of a folder that "
            "holds a checkpoint."
        )
    model.warm_up()
    return model


def _load(
    entry: Entry, device: torch.device, dtype: torch.dtype | None, notes: tuple[str, ...]
) -> Model:
    if isinstance(entry.source, Path) and not (entry.source / "config.json").is_file():
        raise ModelError(
            f"The weights of the {entry.name} model are not here. They come with the repository, "
            "in assets/built-in: get it whole, or train them with "
            "`python -m spare_demo.scenes.train`."
        )
    # The text side first: should it be missing, 14 GB need not be read to find out.
    tower = (
        TextTower.from_open_clip(*entry.clip)
        if entry.clip
        else TextTower.from_folder(Path(entry.source) / "clip")
    )
    dtype = dtype or (entry.cpu_dtype if device.type == "cpu" else entry.gpu_dtype)
    family, hf, processor = read_checkpoint(entry.source, entry.title, device, dtype)
    revision = (
        folder_revision(entry.source)
        if isinstance(entry.source, Path)
        else str(getattr(hf.config, "_commit_hash", None) or "")[:12]
    )
    return family(
        hf,
        processor,
        tower,
        name=entry.name,
        title=entry.title,
        description=entry.description,
        revision=revision,
        notes=notes,
    )


def _load_folder(folder: Path, device: torch.device, dtype: torch.dtype | None) -> Model:
    name = folder.resolve().name
    notes: list[str] = []
    if dtype is None and device.type == "cpu":
        dtype = torch.float32  # half precision is slow or missing on CPUs
    family, hf, processor = read_checkpoint(folder, f"The model folder '{name}'", device, dtype)
    tower: TextTower | None = None
    if not family.clip_tower:
        notes.append(
            "No relevance, so only methods without text run: this model's vision tower is not "
            "CLIP's."
        )
    elif (folder / "clip").is_dir():
        tower = TextTower.from_folder(folder / "clip")
    elif vision_is_openai_clip(hf.config.vision_config):
        try:
            tower = TextTower.from_open_clip(*OPENAI_CLIP)
            notes.append(
                "Relevance uses OpenAI's CLIP ViT-L/14-336 text side; it is exact only if this "
                "checkpoint left that vision tower as it was."
            )
        except ModelError as error:
            notes.append(f"No relevance, so only methods without text run: {error}")
    else:
        notes.append(
            "No relevance, so only methods without text run: the folder has no clip/ sub-folder "
            "and its vision tower is none whose text side is known."
        )
    return family(
        hf,
        processor,
        tower,
        name=name,
        title=name,
        description=f"A checkpoint of {family.hf_class} from a local folder.",
        revision=folder_revision(folder),
        notes=notes,
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"There is no device '{name}'. Choose auto, cpu, cuda or mps.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"This machine has no CUDA GPU '{name}'. Choose --device cpu.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ModelError("This machine has no Apple GPU that torch can use. Choose --device cpu.")
    if device.type not in ("cpu", "cuda", "mps"):
        raise ModelError(f"The device '{name}' is not supported. Choose auto, cpu, cuda or mps.")
    return device
