"""Which two methods are compared with each other beside the reference, and on what."""

from __future__ import annotations

RECONSTRUCTION_DIVERSITY = (
    ("spare-reconstruction", "cdpruner-diversity"),
    ("spare-reconstruction", "divprune"),
    ("spare-reconstruction", "dart-diversity"),
    ("spare", "cdpruner"),
    ("spare-normal-relevance", "cdpruner-paper"),
)
"""One that reconstructs and one that wants diversity, with the same text guidance or none."""

GUIDANCE = (
    ("spare", "spare-reconstruction"),
    ("spare", "spare-normal-relevance"),
    ("anti-relevance", "normal-relevance"),
    ("anti-relevance@-1", "normal-relevance@-1"),
)
"""Favouring what is unlike the question, and not."""

PAIRS = (*RECONSTRUCTION_DIVERSITY, *GUIDANCE)

RIGHT, ERROR, KL = "right", "error", "kl"
MEASURES = {
    RIGHT: "right answers, in points",
    ERROR: "relative reconstruction error",
    KL: "KL divergence, in nats",
}
"""What of a `Row` is compared, and its words."""
