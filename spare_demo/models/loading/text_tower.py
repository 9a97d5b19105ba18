"""CLIP's text side, and the little of its image side that LLaVA lacks, for relevance.

LLaVA's vision tower *is* CLIP's image transformer, so only three things are missing to compare a
token with a question: the text transformer, the norm after the last image block (``ln_post``) and
the projection into the shared space (``proj``). Only those are read from the weights file and kept
in memory; the image transformer is never built.

Text longer than CLIP's 77 tokens. The whole text is tokenised once, without truncation (one BOS
... one EOS), and cut into 77-token stretches, the last filled up with id 0; nothing is re-inserted.
That is what CDPruner's released code does. Its trap: only the *last* stretch holds
the EOS that open_clip pools at. The first stretch of a longer text is therefore pooled at its BOS,
which under the causal mask is a constant independent of the question, and the stretches between at
their largest id ("argmax") or first token ("eos"). We pool where open_clip pools and say so: the
page names the number of stretches when it is more than one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import open_clip
import torch
from open_clip.model import _build_text_tower
from open_clip.transformer import TextTransformer
from safetensors import SafetensorError
from torch import Tensor, nn

from spare_demo.models.base import ModelError
from spare_demo.models.loading import hub, hub_tensors
from spare_demo.models.loading.catalogue import OPENAI_CLIP
from spare_demo.relevance import TextPieces
from spare_demo.threads import memoize

CONFIG_FILE = "open_clip_config.json"
WEIGHTS_FILE = "open_clip_model.safetensors"
_TEXT_SIDE = "text-side"  # the name under which it is kept when downloaded alone

_PART = "\ufffd"  # what a tokenizer makes of a part of a character


class TextEmbedding(NamedTuple):
    """text: (m, c) float32 on the tower's device, None where there is nothing to compare with.
    stretches, words: as `View` has them.
    """

    text: Tensor | None = None
    stretches: int = 0
    words: tuple[str, ...] = ()


class TextTower(nn.Module):
    """open_clip's text transformer with CLIP's final image norm and projection, float32.

    Attributes:
        ln_post: the LayerNorm after the last image block, over (…, w).
        proj: (w, c), image width to shared space.
        context: tokens in one stretch (77 for every published CLIP).
    """

    proj: Tensor

    def __init__(self, text: TextTransformer, ln_post: nn.LayerNorm, proj: Tensor, tokenizer: Any):
        super().__init__()
        self.text = text
        self.ln_post = ln_post
        self.register_buffer("proj", proj)
        self.context: int = text.context_length
        self._tokenizer = tokenizer
        text.output_tokens = True  # pooled vector and per-token states from one pass
        self.requires_grad_(False).eval()

    @classmethod
    def from_open_clip(
        cls, name: str, pretrained: str, progress: hub.Progress = hub.no_progress
    ) -> TextTower:
        """One of open_clip's models on the hub; only the tensors that are read are downloaded.

        Args:
            name, pretrained: as ``open_clip.list_pretrained()`` gives them. OpenAI's weights need
                a name ending in ``-quickgelu``: open_clip only warns about the plain name, and
                computes wrong features with it.
            progress: as of `hub_tensors.download_tensors`.

        Raises:
            ModelError: no such pair, QuickGELU mismatch, or the weights cannot be had.
        """
        config = open_clip.get_model_config(name)
        source = open_clip.get_pretrained_cfg(name, pretrained)
        if config is None or not source:
            raise ModelError(f"open_clip has no model {name} with weights {pretrained}.")
        if bool(source.get("quick_gelu")) != bool(config.get("quick_gelu")):
            raise ModelError(
                f"open_clip's {name} does not have the activation that {pretrained} was trained "
                "with."
            )
        repository = _repository_of(source)
        weights = hub.cached(repository, WEIGHTS_FILE)
        if weights is None:
            commit = hub.config_folder(repository, CONFIG_FILE).name
            weights = hub_tensors.download_tensors(
                repository, commit, [WEIGHTS_FILE], _is_read, _TEXT_SIDE, progress
            )
        return cls._build(config, weights, _load_tokenizer(name), name)

    @classmethod
    def from_folder(cls, folder: str | Path) -> TextTower:
        """A local open_clip folder: ``open_clip_config.json``, ``open_clip_model.safetensors`` and,
        where the config names an ``hf_tokenizer_name``, that tokenizer's files.

        Raises:
            ModelError: a file is missing, cut off, or does not fit the config.
        """
        folder = Path(folder)
        label = f"the CLIP folder '{folder.name}'"
        try:
            config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))["model_cfg"]
            tokenizer = _load_tokenizer(f"local-dir:{folder}")
        except Exception as error:  # the tokenizer libraries raise whatever they like
            raise ModelError(
                f"The settings or the tokenizer of {label} cannot be read. It needs {CONFIG_FILE} "
                "and the tokenizer's files: get the whole folder again."
            ) from error
        return cls._build(config, folder / WEIGHTS_FILE, tokenizer, label)

    @classmethod
    def _build(cls, config: dict[str, Any], weights: Path, tokenizer: Any, label: str) -> TextTower:
        text_config = config["text_cfg"]
        if text_config.get("hf_model_name") or "multimodal_cfg" in config:
            raise ModelError(
                f"The text side of {label} is not open_clip's own. Choose another CLIP."
            )
        with torch.device("meta"):  # random numbers for weights to come would take a second
            text = _build_text_tower(
                config["embed_dim"], text_config, config.get("quick_gelu", False)
            )
        if text.attn_mask is not None:  # no weight, so no file has it
            text.attn_mask = text.build_causal_mask()
        try:
            state = hub_tensors.read_tensors([weights], _is_read, torch.float32)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"The weights of {label} are missing, cut off or not in safetensors form. "
                "Get them again."
            ) from error
        proj = state.pop("visual.proj", None)
        norm = {part: state.pop(f"visual.ln_post.{part}", None) for part in ("weight", "bias")}
        # Copied: of a tensor that is the file's own, every use would read the file.
        state = {n: value.clone() for n, value in state.items() if n in text.state_dict()}
        try:
            text.load_state_dict(state, assign=True)  # strict: no missing part may stay empty
            if proj is None or norm["weight"] is None or norm["bias"] is None:
                raise RuntimeError("no visual.proj or visual.ln_post")
            ln_post = nn.LayerNorm(proj.shape[0])
            ln_post.load_state_dict(norm)
        except RuntimeError as error:
            raise ModelError(
                f"The weights of {label} do not fit its settings: parts are missing or have "
                "another shape. Get them again."
            ) from error
        tower = cls(text, ln_post, proj, tokenizer)
        if not isinstance(text.text_projection, nn.Parameter) or not tower._pools_at_the_end():
            raise ModelError(
                f"The text side of {label} is not pooled at the text's end as CLIP's is."
            )
        return tower

    def read(self, question: str, pieces: TextPieces) -> TextEmbedding:
        """A question as relevance compares it; empty for a blank one, for which no pass runs."""
        if not question.strip():
            return TextEmbedding()
        with torch.autocast(self.proj.device.type, enabled=False):
            if pieces == "stretches":
                text = self.encode_stretches(question)
                return TextEmbedding(text, len(text))
            text, words = self.encode_tokens(question)
        stretches = -(-(len(words) + 2) // self.context)  # with BOS and EOS
        return TextEmbedding(text if words else None, stretches, tuple(words))

    def encode_stretches(self, text: str) -> Tensor:
        """(M, c) float32: one pooled vector per stretch of 77 tokens, not normalised.

        M = ceil((tokens + 2) / 77); see the module's note on M > 1.
        """
        pooled, _ = self.text(self._stretches(self._ids(text)))
        return pooled

    def encode_sentence(self, text: str) -> Tensor:
        """(c,) float32: one pooled vector of the whole text as CLIP itself has it, not normalised.

        What does not fit into the context is cut off before the EOS.
        """
        ids = self._ids(text)
        if len(ids) > self.context:
            ids = [*ids[: self.context - 1], ids[-1]]
        with torch.autocast(self.proj.device.type, enabled=False):
            pooled, _ = self.text(self._stretches(ids))
        return pooled[0]

    def encode_tokens(self, text: str) -> tuple[Tensor, list[str]]:
        """One vector per word token: the final text states through ``ln_final`` and projection.

        In text longer than 77 tokens each token sees only its own stretch up to itself, and the
        positions start again at 0 with every stretch; CLIP has no others.

        Returns:
            (T, c) float32, BOS, EOS and filling left out, and the T token strings; T may be 0.
        """
        ids = self._ids(text)
        _, states = self.text(self._stretches(ids))  # (M, 77, w), after ln_final
        words = states.flatten(0, 1)[1 : len(ids) - 1]
        return words @ self.text.text_projection, self._words(ids[1:-1])

    def _ids(self, text: str) -> list[int]:
        """BOS, the text's tokens, EOS; as open_clip's tokenizers do it, but never truncated."""
        tokenizer = self._tokenizer
        if hasattr(tokenizer, "tokenizer"):  # open_clip's wrapper around a Hugging Face tokenizer
            clean = tokenizer.clean_fn(text)  # verbose: no alarm at 77 tokens, we cut it ourselves
            ids = tokenizer.tokenizer(
                clean, truncation=False, verbose=False, split_special_tokens=True
            ).input_ids
            return list(ids)
        start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
        # A typed "<end_of_text>" would end the sentence, which is read there.
        typed = [number for number in tokenizer.encode(text) if number not in (start, end)]
        return [start, *typed, end]

    def _words(self, tokens: list[int]) -> list[str]:
        """The tokens as text; parts of one character ("这") as "这 1/3", "这 2/3" and "这 3/3"."""
        decode = getattr(self._tokenizer, "tokenizer", self._tokenizer).decode
        words = [decode([token]).strip() for token in tokens]
        for start in range(len(tokens)):
            if _PART not in words[start]:
                continue
            for end in range(start + 2, min(start + 4, len(tokens)) + 1):
                whole = decode(tokens[start:end]).strip()
                if _PART not in whole:
                    parts = range(1, end - start + 1)
                    words[start:end] = [f"{whole} {i}/{end - start}" for i in parts]
                    break
        return words

    def _stretches(self, ids: Iterable[int]) -> Tensor:
        """Token ids -> (M, 77) on the tower's device, filled up with 0."""
        row = torch.tensor(list(ids), dtype=torch.long, device=self.proj.device)
        return nn.functional.pad(row, (0, -len(row) % self.context)).view(-1, self.context)

    def _pools_at_the_end(self) -> bool:
        """Whether texts get one BOS and one EOS and are pooled at the EOS; true of every CLIP."""
        ids = self._ids("a b")
        with torch.inference_mode():
            pooled, states = self.text(self._stretches(ids))
            end = states[0, len(ids) - 1] @ self.text.text_projection
        return len(self._ids("")) == 2 and torch.allclose(pooled[0], end)


def _is_read(name: str) -> bool:
    """Whether relevance needs a tensor: the image transformer's are never read."""
    return name.startswith(("visual.ln_post.", "visual.proj")) or not name.startswith("visual.")


def text_side_is_here(name: str, pretrained: str) -> bool:
    """Whether `TextTower.from_open_clip` would download nothing."""
    repository = _repository_of(open_clip.get_pretrained_cfg(name, pretrained))
    if hub.cached(repository, WEIGHTS_FILE) is not None:
        return True
    return hub_tensors.is_kept(repository, _TEXT_SIDE, CONFIG_FILE)


def _load_tokenizer(name: str) -> Any:
    """open_clip's, whose log lines leave the root logger alone.

    It logs by functions of `logging` that give a root logger without a handler one; after that a
    program's own `basicConfig` would do nothing.
    """
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        return open_clip.get_tokenizer(name)
    finally:
        root.removeHandler(handler)


def _repository_of(source: Mapping[str, Any]) -> str:
    """source: what open_clip knows of some weights."""
    return str(source["hf_hub"]).rstrip("/")


def text_side_of(source: Path | str, config: Any) -> Path | tuple[str, str] | None:
    """Where the text side lies of a checkpoint that the table does not know; None if unknown.

    A local folder's own `clip/`, for `TextTower.from_folder`; or, where the tower has the sizes of
    the one that LLaVA was made with, that one's names for `TextTower.from_open_clip`.
    """
    if isinstance(source, Path) and (source / "clip").is_dir():
        return source / "clip"
    return OPENAI_CLIP if vision_is_openai_clip(config.vision_config) else None


def vision_is_openai_clip(vision: Any) -> bool:
    """Whether a vision config has the sizes of CLIP ViT-L/14-336, LLaVA-1.5's tower."""
    if vision.model_type != "clip_vision_model":
        return False
    sizes = (vision.hidden_size, vision.num_hidden_layers, vision.image_size, vision.patch_size)
    return bool(sizes == (1024, 24, 336, 14))


@memoize
def shared_text_side(side: Path | tuple[str, str], device: torch.device) -> TextTower:
    """A text side that `text_side_of` names, read once for each device; raises ModelError."""
    if isinstance(side, Path):
        return TextTower.from_folder(side).to(device)
    return TextTower.from_open_clip(*side).to(device)


def text_side_of_model(hf: Any) -> TextTower | None:
    """The text side of the checkpoint that a stock model was read from; None where none is known,
    as of a model that was made of its config."""
    name = hf.name_or_path
    local = bool(name) and Path(name).is_dir()
    side = text_side_of(Path(name).resolve() if local else name, hf.config)
    return None if side is None else shared_text_side(side, hf.device)
