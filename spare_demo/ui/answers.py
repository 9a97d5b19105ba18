"""The answers as HTML: side by side, each against the unpruned model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from spare_demo.analysis.answer_shift import Change, first_difference
from spare_demo.analysis.cost import bytes_text, seconds_text
from spare_demo.analysis.first_words import Candidate, share_text
from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.grading import grade
from spare_demo.models import Answer
from spare_demo.ui.terms import mark_terms
from spare_demo.ui.visit import Visit

_LONG = 120
"""Characters; an answer with more is in smaller type, and so are those beside it."""


def answers_html(
    visit: Visit,
    budget: int,
    instead: str = "",
    candidates: Sequence[Candidate] = (),
    saved: bool = False,
) -> str:
    """Three answers side by side.

    Args:
        visit: with the answers so far.
        budget: where the slider stands; answers for another budget say so.
        instead: HTML in their place, which folds them away: of a picture that the model was not
            made for.
        candidates: the likeliest first words, drawn once the unpruned answer is there.
        saved: for a page without a model that could answer at another budget.
    """
    names = {UNPRUNED: f"All {visit.exploration.n} tokens"}
    result = visit.result
    was_asked = bool(result.answers or result.partial_text)
    k = result.budget if was_asked else budget
    for slot, record in result.methods.items():
        kept = visit.exploration.selections(k).get(slot)
        if kept is not None:
            count = f"{kept.size}{' merged' if kept.merged else ''}"
        else:
            count = f"{k} {'on average' if record.budget_is_average else 'as its paper counts'}"
        names[slot] = f"{visit.titles[slot]} · {count}"
    of_all = (c for c in candidates if UNPRUNED in c.probabilities)
    likeliest = max(of_all, key=lambda c: c.probabilities[UNPRUNED], default=None)
    cards = "".join(_card(label, name, visit, likeliest) for label, name in names.items())
    old = bool(result.answers) and k != budget
    # The page shows and hides the line itself while the slider moves: js/answers.js.
    other = (
        f"The picture shows <b>{budget}</b>."
        if saved
        else f'<button type="button" class="answer-now">Answer at <b>{budget}</b></button>'
    )
    stale = (
        f'<p class="note stale-note"{"" if old else " hidden"}>'
        f"Answers are for budget {k}. {other}</p>"
    )
    texts = [*result.partial_text.values(), *(answer.text for answer in result.answers.values())]
    long = any(len(text) > _LONG for text in texts)
    kind = f"answers{' long' if long else ''}{' stale' if old else ''}"
    # A screen reader reads the whole answers once, and not all that is there at every word.
    to_come = names.keys() - result.answers.keys() - result.refused.keys()
    busy = ' aria-busy="true"' if was_asked and to_come and not visit.stopped else ""
    answers = (
        f'<div class="{kind}" aria-live="polite"{busy} data-budget="{k}">{cards}</div>{stale}'
        f"{_bars(candidates, likeliest, names)}"
    )
    if not instead:
        return answers
    return (
        f'{instead}<details class="noise"><summary>Show its answers anyway: noise</summary>'
        f"{answers}</details>"
    )


def asked_html(visit: Visit, budget: int, answers: str) -> str:
    """Answers under what they are of: the question, the budget and the picture that were asked.

    js/answers.js compares both attributes with the page, and dims what is of anything else.
    budget: where the slider stands; it counts until something was asked.
    """
    result, question = visit.result, visit.request.question
    k = result.budget if result.answers or result.partial_text else budget
    text = f"“{question.strip()}”" if question.strip() else "no question"
    return (
        f'<div class="asked" data-question="{escape(question)}" '
        f'data-picture="{escape(visit.source)}">'
        '<h2 class="spoken">Answers</h2>'
        f'<p class="asked-line"><img src="{visit.canvas.thumbnail}" alt="The picture asked about">'
        f'<span class="asked-question" title="{escape(question)}">{escape(text)}</span>'
        f'<span class="asked-budget">budget {k}</span></p>'
        '<p class="note other-inputs">These answers are for another question or picture. '
        f"<span>Press Ask.</span></p>{answers}</div>"
    )


def _bars(
    candidates: Sequence[Candidate], likeliest: Candidate | None, names: Mapping[str, str]
) -> str:
    """Probability of each candidate for the first word, per answer, on one axis from 0 to 1."""
    if likeliest is None:
        return ""
    rows = ""
    for candidate in candidates:
        tracks = "".join(
            f'<span class="prob {_kind(label)}" title="{escape(names[label])}">'
            f'<span style="width:{100 * share:.1f}%"></span><em>{share_text(share)}</em></span>'
            for label, share in candidate.probabilities.items()
        )
        rows += f"<tr><th scope='row'>{escape(candidate.text)}</th><td>{tracks}</td></tr>"
    shares = ", ".join(
        f"{share_text(share)} from {'all tokens' if label == UNPRUNED else label}"
        for label, share in likeliest.probabilities.items()
    )
    return (
        "<details class='first-words'><summary>Probability of the first word</summary>"
        f"<table><tbody>{rows}</tbody></table>"
        '<p class="axis" aria-hidden="true"><span>0</span><span>½</span><span>1</span></p>'
        f"<p class='words'>“{escape(likeliest.text)}” as the first word: {escape(shares)}. The "
        "bars follow this order from top to bottom, on one axis from 0 to 1.</p></details>"
    )


def _kind(label: str) -> str:
    return "all" if label == UNPRUNED else label.lower()


def _card(label: str, name: str, visit: Visit, likeliest: Candidate | None) -> str:
    """One answer, with its probability of the unpruned model's likeliest first word."""
    result, kind = visit.result, _kind(label)
    answer = result.answers.get(label)
    if label in result.refused:
        body = _refusal(visit, label)
        return f'<section class="card {kind}"><h3>{escape(name)}</h3>{body}</section>'
    if answer is not None:
        words, figures = answer.text, _figures(answer)
        if likeliest is not None and label in likeliest.probabilities:
            share = share_text(likeliest.probabilities[label])
            figures = f"“{likeliest.text}” {share} · {figures}"
    elif label in result.partial_text:
        words = result.partial_text[label]
        figures = "stopped" if visit.stopped else "answering …"
    else:
        words, figures = "", "not asked" if visit.stopped else "waiting for its turn"
    whole = result.answers.get(UNPRUNED) if label != UNPRUNED else None
    terms = ("prefill", "cache") if label == UNPRUNED else ()
    marked = mark_terms(escape(figures), *terms)
    return (
        f'<section class="card {kind}"><h3>{escape(name)}</h3>'
        f"{_words_html(words, answer, whole, visit.truth)}"
        f'<p class="figures">{marked}</p></section>'
    )


def _words_html(words: str, answer: Answer | None, whole: Answer | None, truth: str | None) -> str:
    """An answer's words; once it is finished, first whether they are right, then how they agree.

    whole: the unpruned model's answer, None where there is none to compare with.
    """
    body, verdict, right = escape(words), "", ""
    if answer is not None and whole is not None:
        apart = first_difference(words, whole.text)
        agrees = "same as all tokens"
        if apart is not None:
            body, agrees = _marked(words, *apart.a), f"differs from word {apart.word + 1} on"
        verdict = f'<span class="verdict">{agrees}</span>'
    if answer is not None and truth is not None:
        right = _grade_html(words, truth)
    if not body:  # it has not begun, or ended before its first word
        body = "&nbsp;" if answer is None else '<em class="no-words">no words</em>'
    return f'{right}<div class="said"><p class="answer-text">{body}</p>{verdict}</div>'


def _grade_html(words: str, truth: str) -> str:
    """Whether an answer is the true one; where only a judge could tell, what the true one is."""
    right = grade(words, truth)
    if right:
        return '<span class="grade right">✓ right</span>'
    if right is None:
        return f'<span class="grade">true answer: {escape(truth)}</span>'
    return f'<span class="grade wrong">✗ wrong: it is {escape(truth)}</span>'


def _refusal(visit: Visit, slot: str) -> str:
    """Why a schedule cannot meet the budget, and a button to the least that it can."""
    k = visit.result.methods[slot].least_budget
    least = f'<button type="button" class="reach" data-k="{k}">Set the budget to {k}</button>'
    return f'<p class="note">{escape(visit.result.refused[slot])} {least}</p>'


def _figures(answer: Answer) -> str:
    prefill, cache = seconds_text(answer.prefill_seconds), bytes_text(answer.kv_cache_bytes)
    cut = " · cut off at the maximum length" if answer.ended == "length" else ""
    return f"prefill {prefill} · cache {cache}{cut}"


def _marked(words: str, start: int, end: int) -> str:
    """The answer as HTML, its first word that differs from the whole model's marked."""
    odd = escape(words[start:end])
    mark = f"<mark>{odd}</mark>" if odd else ' <mark title="ends here">∎</mark>'
    return f"{escape(words[:start])}{mark}{escape(words[end:])}"


def own_html(
    words: str,
    kept: int,
    answer: Answer | None,
    whole: Answer | None,
    change: Change | None,
    truth: str | None = None,
) -> str:
    """The answer from a set made by hand, and how far it is from the unpruned model's.

    Args:
        words: the answer so far; `answer` once it is finished.
        kept: visual tokens in the set.
        whole: the unpruned model's answer, None where there is none.
        change: what became of its words, None while or where that is not known.
        truth: the true answer, None where it is not known.
    """
    figures, shift = "answering …" if answer is None else _figures(answer), ""
    if change is not None:
        pieces = ", ".join(
            f"“{escape(word.strip())}” {share_text(now)} (was {share_text(before)})"
            for word, before, now in zip(change.words, change.whole, change.pruned, strict=True)
        )
        by_word = f"; word by word: {pieces}" if len(change.words) > 1 else ""
        shift = (
            f'<p class="figures">KL of the first word: {change.kl:.3g} nats. Probability of the '
            f"unpruned answer: {share_text(change.probability)} (was "
            f"{share_text(change.whole_probability)}){by_word}.</p>"
        )
    kind = "card own long" if len(words) > _LONG else "card own"
    busy = ' aria-busy="true"' if answer is None else ""  # read out once, as the others are
    return (
        f'<section class="{kind}" aria-live="polite"{busy}><h3>Your set · {kept}</h3>'
        f"{_words_html(words, answer, whole, truth)}"
        f'<p class="figures">{escape(figures)}</p>{shift}</section>'
    )
