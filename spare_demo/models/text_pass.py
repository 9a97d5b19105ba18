"""A question as CLIP's text side reads it: in a pass of its own, or during the vision pass.

The two towers need nothing of each other. On a GPU the text side gets its work on a second stream
while the vision tower runs (generate/passes.py); elsewhere nothing would be gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from spare_demo.models.loading.text_tower import TextTower
from spare_demo.relevance import TextPieces


@dataclass(frozen=True, eq=False)
class TextEmbedding:
    """text: (m, c) float32 on the tower's device, None where there is nothing to compare with.
    stretches, words: as in `View`.
    """

    text: Tensor | None
    stretches: int = 0
    words: tuple[str, ...] = ()


@dataclass(eq=False)
class TextPass:
    """The text pass of one question, which runs once: during the vision pass or after it.

    Both `run` and `embedding` want inference mode where the pass has not run yet.
    """

    tower: TextTower
    question: str
    pieces: TextPieces

    def run(self) -> list[Tensor]:
        """Run it and return the tensors that it left on the device."""
        text = self.embedding.text
        return [] if text is None else [text]

    @cached_property
    def embedding(self) -> TextEmbedding:
        """What the pass gives; empty for a blank question, for which none runs."""
        if not self.question.strip():
            return TextEmbedding(None)
        if self.pieces == "stretches":
            text = self.tower.encode_stretches(self.question)
            return TextEmbedding(text, len(text))
        text, words = self.tower.encode_tokens(self.question)
        stretches = -(-(len(words) + 2) // self.tower.context)  # with BOS and EOS
        return TextEmbedding(text if words else None, stretches, tuple(words))
