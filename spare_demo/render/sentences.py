"""What pictures show, in words: one text for the exported pictures and for the page's script.

`say` fills a template in here, `SPARE.say` in the browser (js/core.js), which gets `TEMPLATES` with
the page. Longer sentences are made of several.
"""

from __future__ import annotations

TEMPLATES = {
    "kept": "{label} kept {count} of {tokens}",
    "in padding": "; {count} of them {lie} in padding",
    "both": "{a} and {b} keep {both} of their {tokens} in common.",
    "both of two counts": "{a} keeps {tokens} and {b} {count}, {both} of them in common.",
    "both in padding": " {count_a} of {a}'s and {count_b} of {b}'s lie in padding.",
    "jaccard": "Jaccard {share} (two random picks: {chance})",
    "layer": "In layer {layer} of {depth} {label} still has {count} of {tokens}",
    "layer merged": ", and {rows} merged from {others}",
    "layer grown": ", {rows} of them mixed with {others}",
    "merged": "{label} merged {tokens} into {rows}: {alone} unchanged, {grown} with others mixed "
    "in, {without} of no single patch. {mixed} are only mixed in, {unused} are unused.",
    "order": "{label} picked {count} of {tokens}",
    "first": ", from dark (first) to light (last); the first is {where}",
    "padding rank": "; padding is first picked at rank {rank}",
    "no padding": "; none lies in padding",
    "map": "{label}: from {least} to {most}, mean {mean}. {meaning}",
    "range": " The colours run from {low} to {high}.",
    "relevance": "Raw cosine between each patch and {what}, {space}",
    "clip": "in CLIP's space",
    "words": "by words of the language model, not CLIP",
    "relevance meaning": "High means similar. SPARE and CDPruner's code favour low values.",
    "weight": "Text weight that {label} gave each patch",
    "weight meaning": "The higher, the sooner it is picked, all else being equal.",
    "highest": " The highest is at {where}.",
    "leftover": "Share of each patch that {label}'s {tokens} cannot reconstruct",
    "leftover meaning": "0 means that the kept tokens rebuild all of it, 1 that they rebuild none.",
    "half left over": " {patches} more than half left over.",
}


def say(name: str, **values: object) -> str:
    """A template with its places filled in."""
    return TEMPLATES[name].format(**values)
