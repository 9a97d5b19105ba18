"""The one pipeline: picture + question + methods + budget -> what each keeps and what is answered.

`compare` runs all of it. The page runs the same steps as they finish: `model.look`, `model.ask`,
`choose`, `explore`, then `model.stream_together` for the answers, and `finished` at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.request import UNPRUNED, choose, name_of, read_budget
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source
from spare_demo.models import Answer, Model, View
from spare_demo.pruners import LayerPlan, Pruner
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection

if TYPE_CHECKING:
    from spare_demo.analysis.answer_shift import KlCurves


@dataclass(frozen=True, eq=False)
class Comparison:
    """One finished comparison. `answers` has a key for each method and one more: "unpruned".

    selections: what methods before the language model kept, by label.
    plans: the schedules of methods inside it; what they kept is in their answer's `layer_sets`.
    model, revision: name and revision of the model that ran.
    budget, max_new_tokens, seed, aspect, relevance, together: as asked for.
    kl: how far the first word moved at every budget, where that was measured (`change.kl_curves`).
    """

    exploration: Exploration
    selections: dict[str, Selection]
    plans: dict[str, LayerPlan]
    answers: dict[str, Answer]
    model: str
    revision: str
    budget: int
    max_new_tokens: int
    seed: int
    aspect: Aspect
    relevance: RelevanceOptions
    together: bool
    kl: KlCurves | None = None

    @property
    def view(self) -> View:
        """The picture with the question, as the model encoded it."""
        return self.exploration.view

    @cached_property
    def leftover(self) -> dict[str, Tensor | None]:
        """(n,) share of each patch that the kept ones cannot reconstruct; None for merged rows."""
        x = measures.compact(self.view.tokens.features)
        return {
            label: measures.leftover_share(x, kept.order).cpu() if kept.features is None else None
            for label, kept in self.selections.items()
        }


def compare(
    model: Model,
    image: Source,
    question: str,
    pruners: Sequence[str] | Mapping[str, Pruner | Selection | LayerPlan] = ("spare", "cdpruner"),
    budget: float | str = 64,
    max_new_tokens: int = 64,
    seed: int = 0,
    aspect: Aspect | None = None,
    relevance: RelevanceOptions = RelevanceOptions(),
    together: bool = False,
) -> Comparison:
    """Ask one question of one picture, with all visual tokens and with what each method keeps.

    Args:
        model: from `load_model`.
        image: anything `open_picture` takes.
        question: blank for none; methods that need text then run in their text-free form.
        pruners: names of the table, or {label: Pruner | Selection | LayerPlan} for settings, for
            one method twice, or for hand-made sets.
        budget: visual tokens kept, 1..n, or a share of them such as "10%"; of methods inside the
            language model the average over its layers.
        max_new_tokens: longest answer.
        seed: for methods given by name that draw at random.
        aspect: one of `model.aspects`, None for the first.
        relevance: where the text weight comes from.
        together: spend the budget over all views of the picture, instead of equal shares.

    Raises:
        ValueError: an unknown method, or a budget out of range or of a schedule's reach; the
            message may be shown.
        PictureError: the picture cannot be used.
    """
    chosen = choose(pruners, seed)
    aspect = model.aspect(aspect)
    view = model.encode(image, question, aspect, relevance, together)
    budget = read_budget(budget, view.tokens.n)
    exploration = explore(view, chosen)
    selections, plans = exploration.selections(budget), exploration.plans(budget)
    chosen_by = {label: (plans | selections)[label] for label in exploration.methods}
    answers = model.answer_together(view, {UNPRUNED: None, **chosen_by}, max_new_tokens)
    return Comparison(
        exploration=exploration,
        selections=selections,
        plans=plans,
        answers=answers,
        model=model.name,
        revision=model.revision,
        budget=budget,
        max_new_tokens=max_new_tokens,
        seed=seed,
        aspect=aspect,
        relevance=relevance,
        together=together,
    )


def finished(
    model: Model,
    exploration: Exploration,
    answers: Mapping[str, Answer],
    budget: int,
    max_new_tokens: int,
    seed: int,
    aspect: Aspect,
    relevance: RelevanceOptions,
    together: bool = False,
    kl: KlCurves | None = None,
) -> Comparison:
    """A comparison from parts that were made one by one, as a page makes them.

    Every label becomes the method's own name, as `choose` would have it, so that files and
    pictures say what ran; sets made by hand keep theirs.

    Args:
        answers: by the exploration's labels, and the unpruned one; all of them finished.
        budget, max_new_tokens, seed, aspect, relevance, together: what they were made with.
        kl: by the exploration's labels, where it was measured.

    Raises:
        ValueError: with a sentence to show: an answer is missing or was stopped.
    """
    missing = {UNPRUNED, *exploration.methods} - set(answers)
    if missing or any(answer.stopped for answer in answers.values()):
        raise ValueError("Not every answer is there yet. Ask, and let all of them end.")
    names: dict[str, str] = {}
    for label, method in exploration.methods.items():
        name = name_of(method) if isinstance(method, Pruner) else label
        turn = sum(other.split(" (")[0] == name for other in names.values()) + 1
        names[label] = name if turn == 1 else f"{name} ({turn})"
    if kl is not None:
        kl = dataclasses.replace(
            kl,
            series={names[label]: curve for label, curve in kl.series.items()},
            points={names[label]: point for label, point in kl.points.items()},
        )
    named = exploration.renamed(names)
    return Comparison(
        exploration=named,
        selections=named.selections(budget),
        plans=named.plans(budget),
        answers={UNPRUNED: answers[UNPRUNED]} | {names[label]: answers[label] for label in names},
        model=model.name,
        revision=model.revision,
        budget=budget,
        max_new_tokens=max_new_tokens,
        seed=seed,
        aspect=aspect,
        relevance=relevance,
        together=together,
        kl=kl,
    )
