"""A question as CLIP's text side reads it: in a pass of its own, or during the vision pass.

The two towers need nothing of each other. On a GPU the text side gets its work on a second stream
while the vision tower runs (generate/passes.py); elsewhere nothing would be gained.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def embed_question(tower: TextTower, question: str, pieces: TextPieces) -> TextEmbedding:
    """One text pass; none for a blank question. Run it in inference mode."""
    if not question.strip():
        return TextEmbedding(None)
    if pieces == "stretches":
        text = tower.encode_stretches(question)
        return TextEmbedding(text, len(text))
    text, words = tower.encode_tokens(question)
    stretches = -(-(len(words) + 2) // tower.context)  # with BOS and EOS
    return TextEmbedding(text if words else None, stretches, tuple(words))


class TextPass:
    """The text pass of one question, which runs once: during the vision pass or after it."""

    def __init__(self, tower: TextTower, question: str, pieces: TextPieces) -> None:
        self._arguments = tower, question, pieces
        self._embedding: TextEmbedding | None = None

    def run(self) -> list[Tensor]:
        """Run it and return the tensors that it left on the device. Run it in inference mode."""
        text = self.embedding().text
        return [] if text is None else [text]

    def embedding(self) -> TextEmbedding:
        """The question's embedding; the pass runs now if it has not. Run it in inference mode."""
        if self._embedding is None:
            self._embedding = embed_question(*self._arguments)
        return self._embedding
