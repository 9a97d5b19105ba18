"""Find a disagreement: scenes are drawn until A and B answer a question about one differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spare_demo.analysis.answer_shift import first_difference
from spare_demo.analysis.disagreement import find_split
from spare_demo.images.load import open_picture
from spare_demo.table import counted, tokens_word
from spare_demo.ui import examples
from spare_demo.ui.gradio_compat.files import cached_picture
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.layout import CONTROLS
from spare_demo.ui.panels import words_html
from spare_demo.ui.steps import PageChanges

MOST_SCENES = 60
"""Scenes that are drawn for one press of the button."""

READ = tuple(name for name in CONTROLS if name not in ("image", "question"))
"""The parts of the page that `find_disagreement` reads."""
CHANGED = ("image", "question", "example")
"""What it changes beside the parts of every comparison."""


def find_disagreement(handlers: Handlers, **controls: Any) -> Iterator[PageChanges]:
    """Draw scenes until the answers of A and B differ; then show that one as if it was asked.

    controls: what each of `READ` says, as `Handlers.request` takes it.

    Yields how many scenes were tried, after each of them.

    Raises:
        ValueError: with a sentence for the visitor, where A and B can never differ.
    """
    model = handlers.model
    request = handlers.request(image=None, question="", **controls)
    k, methods = request.budget_of(model.most_tokens), request.labelled
    if methods["A"] == methods["B"]:
        raise ValueError("A and B are the same method. Choose another one in A or B.")
    yield {"tried": words_html("Drawing the first scene …", done=False, spoken=True)}
    for tried in range(1, MOST_SCENES + 1):
        example = examples.new_scene(handlers.scenes)
        if tried == 1:  # of a later one the page shows how those before it went
            yield {"tried": words_html("Asking about the first scene …", done=False, spoken=True)}
        picture = model.look(open_picture(example.path), request.aspect)
        question = find_split(model, picture, [*example.answers], methods, k, request)
        if question is not None:
            shown: PageChanges = {}
            image = cached_picture(example.path)
            for values in handlers.ask(image=image, question=question, example=example, **controls):
                shown |= values
            answers = shown["visit"].result.answers
            # Answers made together can differ from these in the last digit of a near tie.
            if first_difference(answers["A"].text, answers["B"].text):
                found = f"Tried {counted(tried, 'scene')}: here A and B answer differently."
                place = {"image": example.path, "question": question, "example": example}
                yield shown | place | {"tried": words_html(found, spoken=True)}
                return
        agreed = f"Tried {counted(tried, 'scene')}: A and B agreed on each."
        yield {"tried": words_html(agreed, spoken=True)}
    smaller = "a smaller budget or " if k > 1 else ""
    ended = (
        f"Tried {MOST_SCENES} scenes, and A and B agreed on each at {tokens_word(k)}. Choose "
        f"{smaller}other methods, and press the button again."
    )
    yield {"tried": words_html(ended, spoken=True)}
