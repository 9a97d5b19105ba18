"""Captions of a scene, for the contrastive training of the CLIP."""

from __future__ import annotations

from spare_demo.scenes.world import Rng, Scene, Thing, place_of

_MOST = 6  # things named in one caption: what fits CLIP's 77 tokens


def _name(thing: Thing, side: int, rng: Rng) -> str:
    words = f"{thing.colour} {thing.shape or 'object'}".strip()
    if rng.random() < 0.3:
        words = f"{'small' if thing.size < 40 else 'large'} {words}"
    if thing.print:
        words += f" with the {'number' if thing.number else 'word'} {thing.print}"
    if rng.random() < 0.25:
        place = place_of(thing, side)
        words += f" {'in' if place == 'centre' else 'at'} the {place}"
    return f"{'an' if words.startswith('object') else 'a'} {words}"


def caption(scene: Scene, rng: Rng) -> str:
    """One sentence that names up to six of the scene's things, in any order."""
    order = rng.permutation(len(scene.things))[:_MOST]
    parts = [_name(scene.things[i], scene.side, rng) for i in order]
    if rng.random() < 0.3:
        parts.append(f"on {scene.background}")
    return ", ".join(parts) if parts else f"nothing on {scene.background}"
