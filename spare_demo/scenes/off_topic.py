"""Questions that no drawn scene answers, so that the model learns to say what it was made for."""

from __future__ import annotations

from spare_demo.scenes.question import OFF_TOPIC, Question, pick
from spare_demo.scenes.world import Rng, Scene

MADE_FOR = (
    "This small model answers questions about shapes, colours, numbers and words in drawn scenes"
)
_NAMES = (
    "dog", "horse", "man", "woman", "child", "house", "tree", "boat", "city", "river", "king",
    "train", "plane", "phone", "book", "garden", "moon", "bird", "doctor", "football", "piano",
    "computer", "Paris", "London", "France", "Einstein", "music", "money", "history", "weather",
)  # fmt: skip
_TRAINED = (
    "Who is the {x}?", "What is a {x}?", "What does the {x} do?", "How old is the {x}?",
    "Is there a {x}?", "Do you see a {x}?", "How many {x}s are there?", "What is the {x} doing?",
    "Why is the {x} here?", "When was {x} born?", "What is the capital of {x}?", "Who made {x}?",
    "Where can I buy a {x}?", "What do you know about {x}?", "Write a poem about the {x}.",
    "Tell me a story about {x}.", "How do I get to {x}?", "Is the {x} happy?", "Translate {x}.",
    "What is the name of the {x}?", "How much does a {x} cost?", "Do you like {x}?",
    "What is the weather like?", "Who are you?", "How are you?", "What time is it?", "Hello!",
    "What is the meaning of life?", "Who painted this?", "When was this photo taken?",
    "Is this person smiling?", "What is the man wearing?", "Tell me a joke.", "Help!",
    "What is two plus two?", "What animal is this?", "What should I eat today?", "Why?",
)  # fmt: skip
_HELD_OUT = (
    "What is a {x} made of?", "Who is with the {x}?", "Where was the {x} born?", "Do you know {x}?",
    "How do I make a {x}?", "What is the {x} about?", "Who was in {x} today?", "Is the {x} old?",
    "What does {x} cost?", "What is the name of this person?", "Why do you do this?",
)  # fmt: skip


def _made_up(rng: Rng) -> str:
    """Letters in a row: most words that people use were never seen."""
    return "".join(
        pick(rng, "bcdfglmnprst") + pick(rng, "aeiou") for _ in range(rng.integers(2, 4))
    )


def off_topic(scene: Scene, rng: Rng) -> Question:
    """A question of training about a name or a made-up word, whose answer is `MADE_FOR`."""
    name = pick(rng, _NAMES) if rng.random() < 0.6 else _made_up(rng)
    return Question(pick(rng, _TRAINED).format(x=name), MADE_FOR, (OFF_TOPIC,))


def held_out_form(rng: Rng) -> str:
    """One in a wording that training never uses."""
    return str(pick(rng, _HELD_OUT).format(x=pick(rng, _NAMES)))
