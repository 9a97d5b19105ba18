"""The written parts of the page as HTML: answers, cost, messages, who the model is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

from spare_demo.change import Change, first_difference
from spare_demo.cost import (
    UNPRUNED,
    bytes_text,
    cost_rows,
    cost_sentence,
    seconds_text,
    tokens_text,
)
from spare_demo.first_words import Candidate
from spare_demo.models import Answer, Model
from spare_demo.pruners import LayerPruner
from spare_demo.sufficiency import Sufficiency
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


def answers_html(
    visit: Visit, budget: int, about: str = "", candidates: Sequence[Candidate] = ()
) -> str:
    """Three answers side by side.

    Args:
        visit: with the answers so far.
        budget: where the slider stands; answers for another budget say so.
        about: a line about the model, for pictures that it was not made for.
        candidates: the likeliest first words, drawn once an answer is there.
    """
    names = {UNPRUNED: f"All {visit.exploration.n} tokens"}
    shown = visit.answered_budget or budget
    for slot in SLOTS:
        kept = visit.exploration.selections(shown).get(slot)
        method = visit.exploration.methods[slot]
        count = f"{shown} on average"
        if isinstance(method, LayerPruner) and method.counting_note:
            count = f"{shown} as its paper counts"
        if kept is not None:
            count = f"{kept.size}{'' if kept.features is None else ' merged'}"
        names[slot] = f"{slot} {visit.titles[slot]} · {count}"
    cards = "".join(_card(label, name, visit) for label, name in names.items())
    old = bool(visit.answers) and visit.answered_budget != budget
    # The page shows and hides the line itself while the slider moves: js/answers.js.
    stale = (
        f'<p class="note stale-note"{"" if old else " hidden"}>'
        f"Answers are for budget {shown}. "
        f'<button type="button" class="answer-now">Answer at <b>{budget}</b></button></p>'
    )
    line = f'<p class="note">{_code(about)}</p>' if about else ""
    kind = "answers stale" if old else "answers"
    return (
        f'<div class="{kind}" aria-live="polite" data-budget="{shown}">{cards}</div>{stale}'
        f"{_bars(candidates, names)}{line}"
    )


def _bars(candidates: Sequence[Candidate], names: Mapping[str, str]) -> str:
    """Probability of each candidate for the first word, per answer, on one axis from 0 to 1."""
    if not candidates:
        return ""
    rows = ""
    for candidate in candidates:
        tracks = "".join(
            f'<span class="prob {_kind(label)}" title="{escape(names[label])}">'
            f'<span style="width:{100 * share:.1f}%"></span><em>{_share_text(share)}</em></span>'
            for label, share in candidate.probabilities.items()
        )
        rows += f"<tr><th scope='row'>{escape(candidate.text)}</th><td>{tracks}</td></tr>"
    best = max(candidates, key=lambda c: c.probabilities.get(UNPRUNED, 0.0))
    told = ", ".join(
        f"{names[label]} {_share_text(share)}" for label, share in best.probabilities.items()
    )
    return (
        "<div class='first-words'><h3>Probability of the first word</h3>"
        f"<table><tbody>{rows}</tbody></table>"
        '<p class="axis" aria-hidden="true"><span>0</span><span>½</span><span>1</span></p>'
        f"<p class='words'>First word “{escape(best.text)}”: {escape(told)}. From top to bottom: "
        "all tokens, A, B; every bar on the same axis from 0 to 1.</p></div>"
    )


def _kind(label: str) -> str:
    return {"A": "a", "B": "b"}.get(label, "all")


def _share_text(share: float) -> str:
    return f"{share:.2f}" if share >= 0.005 else "<.01" if share > 0 else "0"


def _card(label: str, name: str, visit: Visit) -> str:
    answer = visit.answers.get(label)
    kind = _kind(label)
    if label in visit.refused:
        said = _refusal(visit, label)
        return f'<section class="card {kind}"><h3>{escape(name)}</h3>{said}</section>'
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
    said = _marked(words, whole.text if verdict and whole else words) or "&nbsp;"
    return (
        f'<section class="card {kind}"><h3>{escape(name)}</h3><p class="said">{said}</p>'
        f'<p class="figures">{escape(figures)}</p>{verdict}</section>'
    )


def _refusal(visit: Visit, slot: str) -> str:
    """Why a schedule cannot meet the budget, and a button to the least that it can."""
    view, method = visit.exploration.view, visit.exploration.methods[slot]
    least = ""
    if isinstance(method, LayerPruner):
        k = method.lowest(view.tokens.n, view.layers)
        least = f'<button type="button" class="reach" data-k="{k}">Set the budget to {k}</button>'
    return f'<p class="note">{escape(visit.refused[slot])} {least}</p>'


def _figures(answer: Answer) -> str:
    prefill, cache = seconds_text(answer.prefill_seconds), bytes_text(answer.kv_cache_bytes)
    cut = {"length": " · cut at the longest answer", "stop": " · stopped"}.get(answer.ended, "")
    return f"prefill {prefill} · cache {cache}{cut}"


def _marked(words: str, whole: str) -> str:
    """The answer as HTML, its first word that differs from the whole model's marked."""
    apart = first_difference(words, whole)
    if apart is None:
        return escape(words)
    start, end = apart.a
    odd = escape(words[start:end])
    mark = f"<mark>{odd}</mark>" if odd else ' <mark title="ends here">∎</mark>'
    return f"{escape(words[:start])}{mark}{escape(words[end:])}"


def _verdict(text: str, whole: str) -> str:
    apart = first_difference(text, whole)
    return "same as all tokens" if apart is None else f"differs from word {apart.word + 1}"


def own_html(
    words: str, kept: int, answer: Answer | None, whole: Answer | None, moved: Change | None
) -> str:
    """The answer from a set made by hand, and how far it is from the unpruned model's.

    Args:
        words: the answer so far; `answer` once it is finished.
        kept: visual tokens in the set.
        whole: the unpruned model's answer, None where there is none.
        moved: what became of its words, None while or where that is not known.
    """
    figures, verdict, said, change = "answering …", "", escape(words), ""
    if answer is not None:
        figures = _figures(answer)
        if whole is not None:
            said = _marked(words, whole.text)
            verdict = f'<span class="verdict">{escape(_verdict(words, whole.text))}</span>'
    if moved is not None:
        pieces = ", ".join(
            f"“{escape(word.strip())}” {_share_text(now)} (was {_share_text(before)})"
            for word, before, now in zip(moved.words, moved.whole, moved.pruned, strict=True)
        )
        change = (
            f'<p class="figures">KL of the first token: {moved.kl:.3g} nats. Probability of the '
            f"unpruned answer: {_share_text(moved.probability)} (was "
            f"{_share_text(moved.whole_probability)}); word by word: {pieces}.</p>"
        )
    return (
        f'<section class="card own"><h3>Your set · {kept}</h3><p class="said">{said or "&nbsp;"}'
        f'</p><p class="figures">{escape(figures)}</p>{change}{verdict}</section>'
    )


def cost_html(visit: Visit, floor: Callable[[Answer], float | None]) -> str:
    """What each answer cost, measured in this run, and what pruning brought.

    floor: the least time this device could take for an answer's prefill, where that is known.
    """
    if {*visit.answers, *visit.refused} != {UNPRUNED, *SLOTS}:
        return '<p class="note">Measured once all three answers are there.</p>'
    names = {UNPRUNED: "All tokens", **{s: f"{s} {visit.titles[s]}" for s in SLOTS}}
    rows = cost_rows(visit.answers)
    floors = {label: floor(answer) for label, answer in visit.answers.items()}
    body = "".join(
        f"<tr><th scope='row'>{escape(names[row.label])}</th>"
        f"<td>{row.prompt_tokens}</td><td>{tokens_text(row)}</td>"
        f"<td>{seconds_text(row.prefill_seconds)}</td><td>{_floor_text(floors[row.label])}</td>"
        f"<td>{seconds_text(row.decode_seconds)}</td><td>{row.new_tokens}</td>"
        f"<td>{bytes_text(row.kv_cache_bytes)}</td></tr>"
        for row in rows
    )
    heads = ["", "tokens in", "of them visual", "prefill", "its floor"]
    heads += ["decode", "tokens out", "KV cache"]
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    picture, view = visit.picture, visit.exploration.view
    by_time: dict[float, list[str]] = {}  # methods that ran as one carry one time
    for slot, seconds in visit.exploration.select_seconds.items():
        by_time.setdefault(seconds, []).append(slot)
    select = " · ".join(
        f"{' and '.join(slots)} {'together ' if len(slots) > 1 else ''}{seconds_text(seconds)}"
        for seconds, slots in by_time.items()
    )
    once = (
        f"Once for this picture: encode {seconds_text(picture.encode_seconds)}. "
        f"Once for this question: relevance {seconds_text(view.relevance_seconds)}; "
        f"all {visit.exploration.n} picks: {select or 'made anew at each budget'}."
    )
    sentence = cost_sentence(rows, names)
    if any(floors.values()):
        once += (
            " Floor: the least this device could take for the prefill, from its memory's speed and "
            "its rate of arithmetic, both measured at start."
        )
    return (
        "<div class='scroll' tabindex='0' role='region' aria-label='Cost of each answer'>"
        f"<table class='cost'><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
        f"<p>{escape(sentence)}</p><p class='note'>{escape(once)}</p>"
    )


def _floor_text(seconds: float | None) -> str:
    return "not known" if seconds is None else seconds_text(seconds)


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


def is_nested(visit: Visit, slot: str) -> bool:
    """Whether the picks of a slot at one budget are the first ones at any larger budget."""
    return bool(getattr(visit.exploration.methods[slot], "nested", False))


def enough_html(visit: Visit, found: Mapping[str, Sufficiency]) -> str:
    """How few tokens are enough: the answer at each budget tried, per method."""
    parts = []
    for slot, known in found.items():
        title = f"{slot} {visit.titles[slot]}"
        rows = "".join(
            f"<tr><th scope='row'>{trial.budget}</th><td>{escape(trial.text)}</td>"
            f"<td>{'same' if trial.same else 'another'}</td></tr>"
            for trial in known.trials
        )
        sentence = known.sentence(title) if known.done else f"{title}: searching …"
        parts.append(
            f"<section class='tried {slot.lower()}'><p>{escape(sentence)}</p>"
            f"<details><summary>{len(known.trials)} budgets tried</summary>"
            f"<div class='scroll' tabindex='0' role='region' aria-label='Budgets tried, {slot}'>"
            "<table><thead><tr><th scope='col'>k</th><th scope='col'>answer"
            f"</th><th scope='col'>against all tokens</th></tr></thead><tbody>{rows}</tbody>"
            "</table></div></details></section>"
        )
    return "".join(parts)


def figures_html(figures: Sequence[tuple[str, str]], words: str = "") -> str:
    """Pictures side by side, each with its sentence as caption and alternative text.

    figures: (address, sentence) of each. words: a sentence about all of them.
    """
    shown = "".join(
        f'<figure><img src="{address}" alt="{escape(words)}"><figcaption>{escape(words)}'
        "</figcaption></figure>"
        for address, words in figures
    )
    return f'<div class="figures-row">{shown}</div>{words_html(words) if words else ""}'


KL_WORDS = words_html(
    "How far the probabilities of the first word are from the unpruned model's, for A, B and "
    "random picks. Measuring runs the model some fifty times."
)
