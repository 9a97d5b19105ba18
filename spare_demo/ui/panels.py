"""The written parts of the page as HTML: answers, cost, messages, who the model is."""

from __future__ import annotations

import re
from html import escape

from spare_demo.cost import UNPRUNED, bytes_text, cost_rows, cost_sentence, seconds_text
from spare_demo.models import Answer, Model
from spare_demo.ui.visit import SLOTS, Visit


def header_html(model: Model) -> str:
    """The page's name and the model that answers here."""
    where = "GPU" if model.device.type == "cuda" else model.device.type.upper()
    return (
        '<header class="masthead"><h1>SPARE demo</h1>'
        "<p>Look inside visual token pruning: which of a picture's visual tokens a method keeps, "
        "and what the language model still answers from them.</p>"
        f'<p class="model"><b>{escape(model.title)}</b> on {where}. '
        f"{_code(model.description)}</p></header>"
    )


def _code(text: str) -> str:
    """Text for HTML, with what stands in `backticks` as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def message_html(sentence: str = "") -> str:
    """What went wrong and what to do next; empty where nothing did."""
    return f'<p class="message" role="alert">{escape(sentence)}</p>' if sentence else ""


def notes_html(visit: Visit) -> str:
    """What a visitor should know about this comparison before reading it."""
    notes = list(visit.exploration.notes)
    stretches = visit.exploration.view.text_stretches
    if stretches > 1:
        notes.append(
            f"The question fills {stretches} stretches of 77 CLIP tokens. Each gives one text "
            "embedding and relevance is their mean, as CDPruner released it."
        )
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes)


def truth_html(answer: str | None) -> str:
    """The true answer of a drawn scene's own question."""
    return "" if answer is None else f'<p class="truth">True answer: <b>{escape(answer)}</b></p>'


def answers_html(visit: Visit, budget: int, about: str = "") -> str:
    """Three answers side by side.

    Args:
        visit: with the answers so far.
        budget: where the slider stands; answers for another budget say so.
        about: a line about the model, for pictures that it was not made for.
    """
    names = {UNPRUNED: f"All {visit.exploration.n} tokens"}
    shown = visit.answered_budget or budget
    for slot in SLOTS:
        kept = visit.exploration.selections(shown)[slot]
        merged = "" if kept.features is None else " merged"
        names[slot] = f"{slot} {visit.titles[slot]} · {kept.size}{merged}"
    cards = "".join(_card(label, name, visit) for label, name in names.items())
    stale = ""
    if visit.answers and visit.answered_budget != budget:
        stale = (
            f'<p class="note">Answers are for budget {visit.answered_budget}. '
            f"Ask gives them at {budget}.</p>"
        )
    line = f'<p class="note">{_code(about)}</p>' if about else ""
    kind = "answers stale" if stale else "answers"
    return f'<div class="{kind}" aria-live="polite">{cards}</div>{stale}{line}'


def _card(label: str, name: str, visit: Visit) -> str:
    answer = visit.answers.get(label)
    kind = {"A": "a", "B": "b"}.get(label, "all")
    if answer is not None:
        words, figures = answer.text, _figures(answer)
    elif label == visit.writing[0]:
        words, figures = visit.writing[1], "stopped" if visit.stopped else "answering …"
    else:
        words, figures = "", "not asked" if visit.stopped else "waits for its turn"
    verdict = ""
    whole = visit.answers.get(UNPRUNED)
    if answer is not None and whole is not None and label != UNPRUNED:
        verdict = f'<span class="verdict">{escape(_verdict(answer.text, whole.text))}</span>'
    said = escape(words) if words else "&nbsp;"
    return (
        f'<section class="card {kind}"><h3>{escape(name)}</h3><p class="said">{said}</p>'
        f'<p class="figures">{escape(figures)}</p>{verdict}</section>'
    )


def _figures(answer: Answer) -> str:
    prefill, cache = seconds_text(answer.prefill_seconds), bytes_text(answer.kv_cache_bytes)
    cut = {"length": " · cut at the longest answer", "stop": " · stopped"}.get(answer.ended, "")
    return f"prefill {prefill} · cache {cache}{cut}"


def _verdict(text: str, whole: str) -> str:
    if text == whole:
        return "same as all tokens"
    ours, theirs = text.split(), whole.split()
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    at = min(len(ours), len(theirs)) if first is None else first
    return f"differs from word {at + 1}"


def cost_html(visit: Visit) -> str:
    """What each answer cost, measured in this run, and what pruning brought."""
    if set(visit.answers) != {UNPRUNED, *SLOTS}:
        return '<p class="note">Measured once all three answers are there.</p>'
    names = {UNPRUNED: "All tokens", **{s: f"{s} {visit.titles[s]}" for s in SLOTS}}
    rows = cost_rows(visit.answers)
    body = "".join(
        f"<tr><th scope='row'>{escape(names[row.label])}</th>"
        f"<td>{row.prompt_tokens}</td><td>{row.visual_tokens}</td>"
        f"<td>{seconds_text(row.prefill_seconds)}</td><td>{seconds_text(row.decode_seconds)}</td>"
        f"<td>{row.new_tokens}</td><td>{bytes_text(row.kv_cache_bytes)}</td></tr>"
        for row in rows
    )
    heads = ("", "tokens in", "of them visual", "prefill", "decode", "tokens out", "KV cache")
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    picture, view = visit.picture, visit.exploration.view
    select = " · ".join(
        f"{slot} {seconds_text(seconds)}"
        for slot, seconds in visit.exploration.select_seconds.items()
    )
    once = (
        f"Once for this picture: encode {seconds_text(picture.encode_seconds)}. "
        f"Once for this question: relevance {seconds_text(view.relevance_seconds)}; "
        f"all {visit.exploration.n} picks: {select or 'made anew at each budget'}."
    )
    sentence = cost_sentence(rows, names)
    return (
        f"<div class='scroll'><table class='cost'><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
        f"<p>{escape(sentence)}</p><p class='note'>{escape(once)}</p>"
    )


GLOSSARY = """<dl class="glossary">
<dt>Visual token</dt>
<dd>One square patch of the picture as the language model receives it.</dd>
<dt>Budget</dt>
<dd>How many visual tokens are kept; the rest never enter the language model.</dd>
<dt>Prefill</dt>
<dd>The language model's one pass over all that it is given, up to its first word.</dd>
<dt>KV cache</dt>
<dd>What it holds of those tokens while it writes; read from the cache itself.</dd>
<dt>Reconstruction error</dt>
<dd>The share of all tokens' features (Frobenius norm) that no combination of the kept ones gives
back. The SVD bound is the least that any k directions leave.</dd>
</dl>"""


def words_html(sentence: str) -> str:
    """A sentence under a figure."""
    return f'<p class="words">{escape(sentence)}</p>'
