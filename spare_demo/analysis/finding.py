"""The headline of a comparison: what is remarkable in it, in one or two sentences.

Made of what the result holds, and of this picture, question and budget alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spare_demo import measures
from spare_demo.analysis.answer_shift import first_difference
from spare_demo.analysis.first_words import share_text
from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.models import Answer
from spare_demo.models.loading.catalogue import BUILT_IN
from spare_demo.pruners.options import seeds_of
from spare_demo.scenes.asked import Asked
from spare_demo.scenes.wordings import is_familiar
from spare_demo.table import listed, shortened, tokens_word
from spare_demo.tokens import Selection

_MOST_NAMES = 3
_LONGEST_QUOTE = 40  # characters
_RIGHT_WORD = "the right first word"
_SAYS_SO = "small model"  # in what the built-in model says of a question that is off topic
_ASKED_WORDS = {
    "word": "a letter of {answer}",
    "number": "any part of the digit {answer}",
    "things": "any part of what is asked about",
}


def headline(
    result: Result,
    truth: str | None = None,
    grades: Mapping[str, bool | None] | None = None,
    asked: Asked | None = None,
) -> str:
    """What a comparison came to; while answers are missing, what is kept. "" without a method.

    Args:
        truth: the true answer, None where it is not known.
        grades: whether each answer, by label, is the true one; None of one that needs a judge.
        asked: which tokens show what is asked about, None where that is not known.
    """
    names, answers = _names_of(result.methods), result.answers
    if len(names) == 2 and len({repr(record) for record in result.methods.values()}) == 1:
        both, title = _list([*names]), next(iter(result.methods.values())).title
        return f"{both} are the same method, {title}. Choose another for one of them."
    k, n = result.budget, result.visual_tokens
    if set(answers) | set(result.refused) != {UNPRUNED, *names}:
        return kept_sentence(result.methods, result.selections, n, not result.language_model)
    if len(answers) == 1:
        return " ".join(result.refused.values())
    if is_off_topic(result, truth):
        return kept_sentence(result.methods, result.selections, n)
    # Methods inside the language model keep that many on average, sets made by hand any number.
    sizes = {kept.size for kept in result.selections.values()}
    kept_by_each = sizes.pop() if len(sizes) == 1 and not result.inside else None
    at = f"With {kept_by_each or f'a budget of {k}'} of {n} tokens"
    grades = grades or {}
    if truth is not None and all(grades.get(label) is not None for label in answers):
        right = [label for label in answers if grades[label]]
        clause = _against_truth(answers, names, truth, right)
        lost = len(right) < len(answers)
    else:
        clause, lost = _against_unpruned(answers, names), False
    missing = "".join(f" {names[label]} cannot meet this budget." for label in result.refused)
    places = _place_counts(result, asked)
    if asked is None or not places:
        return f"{at}, {clause}{missing}"
    if not any(places.values()):
        return f"{at}, no kept patch shows {_asked_words(asked)}. {clause}{missing}"
    shown = f" {_places_sentence(places, asked, names)}" if lost else ""
    return f"{at}, {clause}{missing}{shown}"


def is_off_topic(result: Result, truth: str | None) -> bool:
    """Whether the built-in model was not made for the question, as it says or as its words show.

    It says `scenes.practice.MADE_FOR`, or, where it is unsure, a part of that. Until the unpruned
    answer is whole, any words so far decide: a pruned answer comes first.
    """
    if truth is not None or result.model != BUILT_IN.name:
        return False
    if not is_familiar(result.question):
        return True
    if UNPRUNED in result.answers:
        return _SAYS_SO in result.answers[UNPRUNED].text
    ended = [answer.text for answer in result.answers.values()]
    return any(_SAYS_SO in words for words in (*ended, *result.partial_text.values()))


def informed_sentence(titles: Mapping[str, str], selections: Mapping[str, Selection]) -> str:
    """A sentence for each selection of which the criterion chose only a part; "" for none.

    titles: what to call each label of `selections`.
    """
    return " ".join(
        f"{titles[label]} chose {kept.informed} of its {len(kept)} tokens by its criterion; the "
        "rest lie in the span of these, where it cannot tell them apart."
        for label, kept in selections.items()
        if kept.informed is not None and kept.informed < len(kept)
    )


def kept_sentence(
    methods: Mapping[str, MethodRecord],
    selections: Mapping[str, Selection],
    n: int,
    jaccard: bool = False,
) -> str:
    """What methods keep of n visual tokens, and how much of it two or more keep in common.

    selections: of the methods that choose before the language model.
    jaccard: whether to add the Jaccard index of two, beside that of two random picks.
    """
    names = _names_of(methods)
    plain = {label: kept for label, kept in selections.items() if not kept.merged}
    if len(plain) < 2 or len(plain) < len(names):
        parts = [_kept_part(name, selections.get(label), n) for label, name in names.items()]
        return f"{'; '.join(parts)}." if parts else ""
    sets = [set(kept.order.tolist()) for kept in plain.values()]
    common, sizes = len(set.intersection(*sets)), [len(one) for one in sets]
    if len(set(sizes)) == 1:
        shared = f"{common} of their {tokens_word(sizes[0])}"
    elif len(sizes) <= _MOST_NAMES:
        shared = f"{common} of their {listed(sizes)} tokens"
    else:
        shared = tokens_word(common)
    sentence = f"{_list([*names.values()], _noun(names, names))} keep {shared} in common."
    if jaccard and len(sets) == 2:
        one, other = (kept.order for kept in plain.values())
        index = measures.jaccard(one, other, n)
        chance = measures.expected_jaccard(n, *sizes)
        sentence += f" Jaccard {index:.2f}; two random picks of these sizes: {chance:.2f}."
    return sentence


def _names_of(methods: Mapping[str, MethodRecord]) -> dict[str, str]:
    """What to call each label: the method's title, or with its label where two have the same."""
    titles = {k: ", ".join([record.title, *seeds_of(k)]) for k, record in methods.items()}
    every = list(titles.values())
    return {k: f"{k} {title}" if every.count(title) > 1 else title for k, title in titles.items()}


def _kept_part(name: str, kept: Selection | None, n: int) -> str:
    if kept is None:
        return f"{name} chooses inside the language model"
    if kept.merged:
        return f"{name} merges {n} tokens into {kept.size}"
    return f"{name} keeps {kept.size} of {n} tokens"


def _against_truth(
    answers: Mapping[str, Answer], names: Mapping[str, str], truth: str, right: Sequence[str]
) -> str:
    """What became of the true answer, with its first word's probabilities."""
    whole = answers[UNPRUNED]
    kept = [label for label in names if label in right]
    lost = [label for label in names if label in answers and label not in right]
    true, unpruned = _quote(truth), _quote(whole.text)
    if UNPRUNED in right:
        shares = _shares(whole, [*kept, *lost], answers, _RIGHT_WORD)
        if not lost:
            return f"{_does(kept, names, 'still answer')} {true}, as all tokens do{shares}."
        if not kept:
            clause = f"{_answers(lost, answers, names)}{shares}"
            return f"{clause}; all tokens answer {true}, which is right."
        clause = f"{_does(kept, names, 'still answer')} {true}; {_answers(lost, answers, names)}"
        return f"{clause}{shares}."
    if kept:
        clause = (
            f"{_does(kept, names, 'answer')} {true}, which is right; all tokens answer {unpruned}"
        )
        clause += f", {_answers(lost, answers, names)}" if lost else ""
        in_order = [*kept, UNPRUNED, *lost]
        return f"{clause}{_shares(answers[kept[0]], in_order, answers, _RIGHT_WORD)}."
    share = _shares(whole, [UNPRUNED], answers, _first_word(whole))
    clause = f"{_answers(lost, answers, names)}; all tokens answer {unpruned}{share}"
    return f"{clause}. The right answer is {true}."


def _against_unpruned(answers: Mapping[str, Answer], names: Mapping[str, str]) -> str:
    """What became of the unpruned model's answer."""
    whole, labels = answers[UNPRUNED], [label for label in names if label in answers]
    places = {label: first_difference(answers[label].text, whole.text) for label in labels}
    same = [label for label in labels if places[label] is None]
    others = {label: place.word + 1 for label, place in places.items() if place is not None}
    quotes, unpruned = [_quote(answers[label].text) for label in others], _quote(whole.text)
    longest = max(len(answers[label].text) for label in (UNPRUNED, *others))
    shares = _shares(whole, [*same, *others], answers, _first_word(whole))
    if len(others) <= _MOST_NAMES and longest <= _LONGEST_QUOTE and unpruned not in quotes:
        clauses = [f"{_does(same, names, 'answer')} {unpruned}"] if same else []
        if others:
            clauses.append(_answers([*others], answers, names))
            # The probabilities are the methods', and would be read as those of all tokens.
            return f"{'; '.join(clauses)}{shares}; all tokens answer {unpruned}."
        clauses[-1] += ", as all tokens do"
    else:  # the words would say too much, or not what differs
        clauses = [f"{_does(same, names, 'answer')} as all tokens do"] if same else []
        if len(others) > _MOST_NAMES:
            clauses.append(f"{len(others)} {_noun(others, names)} answer otherwise")
        else:
            reference = "" if same else " from the answer with all tokens"  # named once
            for label, k in others.items():
                clauses.append(f"{names[label]} differs{reference} from word {k} on")
                reference = ""
    return f"{'; '.join(clauses)}{shares}."


def _first_word(answer: Answer) -> str:
    """What the first word of an answer is called beside its probabilities."""
    first, *more = answer.text.split() or [""]
    if not first:
        return "ending at once"
    return f"“{first}” as the first word" if more else _quote(first)


def _shares(
    reference: Answer, labels: Sequence[str], answers: Mapping[str, Answer], of: str
) -> str:
    """Probabilities of the first token of `reference` under each label's answer; "" if unknown."""
    shares = [answers[label].first_probabilities for label in labels]
    if not reference.token_ids or len(labels) > _MOST_NAMES or not all(map(len, shares)):
        return ""
    texts = [share_text(float(share[reference.token_ids[0]])) for share in shares]
    return f" (probability of {of} {_list(texts)})"


def _answers(labels: Sequence[str], answers: Mapping[str, Answer], names: Mapping[str, str]) -> str:
    """Who answers what, those that say the same together."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        # By all their words: what a quote leaves out can differ.
        groups.setdefault(answers[label].text.strip().rstrip("."), []).append(label)
    parts = [f"{_does(group, names, 'answer')} {_quote(text)}" for text, group in groups.items()]
    return ", ".join(parts[:_MOST_NAMES]) + (" …" if len(parts) > _MOST_NAMES else "")


def _does(labels: Sequence[str], names: Mapping[str, str], verb: str) -> str:
    """ "SPARE still answers", "SPARE and CDPruner both still answer"."""
    subject = _list([names[label] for label in labels], _noun(labels, names))
    if len(labels) == 1:
        return f"{subject} {verb}s"
    both = "both " if len(labels) == 2 else ""
    return f"{subject} {both}{verb}"


def _noun(labels: Iterable[str], names: Mapping[str, str]) -> str:
    """What to call many labels: a set made by hand, whose name is its label, is no method."""
    return "selections" if any(names[label] == label for label in labels) else "methods"


def _list(words: Sequence[str], noun: str = "methods") -> str:
    if len(words) > _MOST_NAMES:
        return f"{len(words)} {noun}"
    return listed(words)


def _quote(text: str) -> str:
    """An answer's words in a sentence: one word as it is, more in quotes, shortened."""
    text = shortened(text.strip().rstrip("."), _LONGEST_QUOTE)
    if not text:
        return "nothing"
    return f"“{text}”" if " " in text else text


def _place_counts(result: Result, asked: Asked | None) -> dict[str, int]:
    """How many kept tokens show what is asked about, by label; empty unless known of each."""
    selections = result.selections
    if asked is None or asked.tokens is None or set(selections) != set(result.methods):
        return {}
    if any(kept.merged for kept in selections.values()) or len(selections) > _MOST_NAMES:
        return {}
    return {
        label: int(asked.tokens[kept.order.numpy()].sum()) for label, kept in selections.items()
    }


def _asked_words(asked: Asked) -> str:
    return _ASKED_WORDS[asked.kind].format(answer=asked.answer)


def _places_sentence(places: Mapping[str, int], asked: Asked, names: Mapping[str, str]) -> str:
    assert asked.tokens is not None
    of = f"of the {int(asked.tokens.sum())} patches that show {_asked_words(asked)}"
    (first, count), *others = places.items()
    rest = "".join(f", {names[label]} {other or 'none'}" for label, other in others)
    return f"{names[first]} keeps {count or 'none'} {of}{rest}."
