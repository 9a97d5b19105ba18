"""The written parts of the page as HTML, beside answers and cost: messages, studies, the head."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from spare_demo.analysis.finding import headline, kept_sentence
from spare_demo.evaluation.grading import grade_all
from spare_demo.models import CATALOGUE, Model
from spare_demo.models.generate.decoder_inputs import NO_LANGUAGE_MODEL
from spare_demo.scenes.practice import MADE_FOR
from spare_demo.table import html_table
from spare_demo.ui.terms import mark_terms
from spare_demo.ui.visit import Visit

STORIES = {  # name in js/stories.js, which tells them: title
    "pixels": "Tokens are not pixels",
    "diversity": "Diversity is not reconstruction",
    "relevance": "Where relevance falls",
}

_NEED_ANSWERS = (
    "“How few are enough?”, “Which token carries the answer?”, the change of probabilities, the "
    "costs and the Lab need answers too, so they are not shown."
)

_TAGLINE = (
    "A vision-language model reads a picture as hundreds of visual tokens. Pruning keeps only a "
    "few: see which ones, and whether the answer survives."
)


def header_html(model: Model) -> str:
    """The page's name, the menu of the stories and of the terms, and the model that answers."""
    prompt = ""
    if model.system == "vicuna_v1" and model.has_language_model:
        prompt = (
            " Its prompt begins with Vicuna's system sentence, as in the papers; "
            "<code>--system none</code> leaves it out."
        )
    part, description = "", model.description
    if not model.has_language_model:
        part = ", without its language model,"
        description = "It shows what methods keep, and why, but gives no answers."
    stories = "".join(
        f'<button type="button" data-story="{name}">{escape(title)}</button>'
        for name, title in STORIES.items()
    )
    where = "GPU" if model.device.type == "cuda" else model.device.type.upper()
    return (
        '<header class="masthead"><h1>SPARE demo</h1>'
        f"<p>{mark_terms(_TAGLINE, 'visual token')}</p>"
        f'<details class="more stories"><summary>Stories</summary><div>{stories}'
        '<button type="button" class="open-terms">Terms explained</button></div></details>'
        f'<p class="model"><b>{escape(model.title)}</b>{part} on {where}. '
        f"{code_html(description)}{prompt}</p></header>"
    )


def code_html(text: str) -> str:
    """Text for HTML, with what stands in `backticks` as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def headline_html(visit: Visit, budget: int) -> str:
    """The visit's headline; what is kept, where the answers are noise or of another budget.

    budget: where the slider stands.
    """
    result, truth = visit.result, visit.truth
    if visit.unknown or result.budget != budget:
        selections = visit.exploration.selections(budget)
        text = kept_sentence(result.methods, selections, visit.exploration.n)
    else:
        grades = grade_all({label: a.text for label, a in result.answers.items()}, truth)
        text = headline(result, truth, grades, visit.asked)
    # js/answers.js dims it beside another budget.
    return f'<p class="headline" data-budget="{budget}" aria-live="polite">{escape(text)}</p>'


def message_html(sentence: str = "") -> str:
    """What went wrong and what to do next; empty where nothing did."""
    return f'<p class="message" role="alert">{escape(sentence)}</p>' if sentence else ""


def notes_html(visit: Visit, *more: str) -> str:
    """What a visitor should know about this comparison before reading it; more: sentences."""
    notes = [*visit.exploration.notes, *filter(None, more)]
    stretches = visit.exploration.view.text_stretches
    if stretches > 1:
        notes.append(
            f"The question is longer than the 77 tokens that CLIP reads, so it is split into "
            f"{stretches} parts. Relevance is the mean over them, as in CDPruner's released code."
        )
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes)


def no_answers_html(saved: bool) -> str:
    """In the place of the answers of a model that cannot give any.

    saved: for a page of its own, which has nothing else that needs them.
    """
    words = NO_LANGUAGE_MODEL if saved else f"{NO_LANGUAGE_MODEL} {_NEED_ANSWERS}"
    return f'<p class="note instead">{escape(words)}</p>'


def unknown_picture_html(private: bool, needs: str) -> str:
    """In the place of the built-in model's answers about a picture that is none of its scenes.

    private: whether visitors can load another model here. needs: what TinyLLaVA needs, in words.
    """
    tiny, seven = CATALOGUE["tiny-llava"], CATALOGUE["llava-1.5-7b"]
    serve = "python -m spare_demo serve"
    here = (
        f'<p><button type="button" class="load-tiny">Load {escape(tiny.title)} here</button></p>'
        if private
        else ""
    )
    return (
        '<section class="instead" role="note"><h3>This small model knows drawn scenes only</h3>'
        "<p>It does not recognise this picture as one of its drawn scenes, so its answers would be "
        "noise. The tokens shown are its own, not those of a model that knows photos.</p>"
        f"<p>{escape(tiny.title)} answers about photos: it needs {escape(needs)}.</p>{here}"
        f"<p>Or start the app with it: <code>{serve} --model {tiny.name}</code>. To see the tokens "
        f"of {escape(seven.title)} on any computer, without answers: <code>{serve} --model "
        f"{seven.name} --without-language-model</code> (downloads 1.2 GB).</p></section>"
    )


def off_topic_html() -> str:
    """In the place of the answers to a question that the built-in model was not made for."""
    return (
        f'<section class="instead" role="note"><h3>{MADE_FOR}</h3>'
        "<p>It did not take this question for one about a drawn scene, so its answers say nothing "
        "about pruning. Ask in English about what is drawn, for instance “How many objects are "
        "there?”, or put the question in other words.</p></section>"
    )


def chips_html(questions: Sequence[str], source: str) -> str:
    """A button for each question; "" where there is none.

    source: what the page knows their picture by; js/chips.js hides them beside any other.
    """
    if not questions:
        return ""
    buttons = "".join(
        f'<button type="button" class="chip">{escape(question)}</button>' for question in questions
    )
    return (
        f'<div class="question-chips" role="group" aria-label="Questions this picture can answer" '
        f'data-picture="{escape(source)}">{buttons}</div>'
    )


def truth_html(answer: str | None) -> str:
    """The true answer of an example's own question."""
    return "" if answer is None else f'<p class="truth">True answer: <b>{escape(answer)}</b></p>'


def rank_sentence(rank: int) -> str:
    """What the rank of a picture's features means for picks beyond it."""
    return (
        f"This picture's features have rank {rank}: {rank} picks can rebuild all of them, and "
        "beyond these a method has nothing left to choose by."
    )


def rank_html(rank: int, n: int, budget: int) -> str:
    """The sentence under the slider; the page shows it while the budget is beyond the rank."""
    if rank >= n:
        return ""
    hidden = "" if budget > rank else " hidden"
    return f'<p class="note rank-note" data-rank="{rank}"{hidden}>{rank_sentence(rank)}</p>'


def table_html(label: str, *table: Any) -> str:
    """A table that scrolls by itself on a narrow page.

    label: its name for a screen reader. table: as `html_table` takes it.
    """
    place = f"class='scroll' tabindex='0' role='region' aria-label='{escape(label)}'"
    return f"<div {place}>{html_table(*table)}</div>"


def words_html(sentence: str, done: bool = True, spoken: bool = False) -> str:
    """A sentence under a figure.

    done: whether what it tells of is through; answers.js says of which one Stop was the end.
    spoken: whether a screen reader says it as it comes.
    """
    role = ' role="status"' if spoken else ""
    return f'<p class="words{"" if done else " unfinished"}"{role}>{escape(sentence)}</p>'


_KL_SENTENCES = (
    "How far pruning moves the probabilities of the answer's first word (KL), for A, B and random "
    "picks. Measuring runs the model about sixty times."
)
KL_WORDS = f'<p class="words">{mark_terms(_KL_SENTENCES, "KL")}</p>'
