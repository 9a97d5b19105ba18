"""The three short stories that are told on the page's own controls: their menu and their methods.

What a story says and sets is in `js/stories.js`, its card in `js/story_card.js`.
"""

from __future__ import annotations

from functools import partial
from html import escape

from spare_demo.models import Model
from spare_demo.relevance import GuidanceText
from spare_demo.ui.tuning import able

STORIES = {  # name in js/stories.js: title
    "pixels": "Tokens are not pixels",
    "diversity": "Diversity is not reconstruction",
    "relevance": "Where relevance falls",
}
_METHODS = ("spare", "cdpruner")  # one that rebuilds, and one that keeps what differs


def stories_menu_html() -> str:
    """The menu of the head: the stories in their order, and a way to the list of terms."""
    buttons = "".join(
        f'<button type="button" data-story="{name}">{escape(title)}</button>'
        for name, title in STORIES.items()
    )
    return (
        f'<details class="more stories"><summary>Stories</summary><div>{buttons}'
        '<button type="button" class="open-terms">Terms explained</button></div></details>'
    )


def story_methods(model: Model, guidance_text: GuidanceText) -> tuple[str, str]:
    """The methods in A and B that two of the stories compare, in a form that the model can run."""
    against = partial(model.reason_against, guidance_text=guidance_text)
    a, b = (able(name, against) for name in _METHODS)
    return a, b
