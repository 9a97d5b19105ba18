"""What the paper claims, beside what was measured: whether it agrees, and why it may not."""

from __future__ import annotations

from dataclasses import dataclass

from spare_demo.evaluation.budgets import Budget
from spare_demo.evaluation.built_in import BuiltIn
from spare_demo.evaluation.cells import in_measure, is_apart, plain, title_of
from spare_demo.evaluation.summary import ERROR, MEASURES, RIGHT, Summary
from spare_demo.table import listed

REBUILT = 1e-6
"""Relative reconstruction error below which only rounding is left to rebuild."""


@dataclass(frozen=True)
class Claim:
    """That one method is above another on a measure, or below it.

    Attributes:
        words: the claim and where it stands.
        a, b: labels. measure: of `MEASURES`.
        sign: 1 if a is claimed to be above b, -1 if below.
    """

    words: str
    a: str
    b: str
    measure: str = RIGHT
    sign: int = 1


CLAIMS = (
    Claim("Reconstruction keeps more answers right than diversity (abstract), here without text",
          "spare-reconstruction", "cdpruner-diversity"),
    Claim("SPARE keeps more answers right than CDPruner (abstract)", "spare", "cdpruner"),
    Claim("Reconstruction leaves a smaller error than CDPruner without relevance (Table 6)",
          "spare-reconstruction", "cdpruner-diversity", ERROR, -1),
    Claim("Reconstruction leaves a smaller error than DART's diversity (Table 6)",
          "spare-reconstruction", "dart-diversity", ERROR, -1),
    Claim("Anti-relevance helps reconstruction (Figure 5)", "spare", "spare-reconstruction"),
    Claim("Anti-relevance is better for reconstruction than relevance (Figure 5)",
          "spare", "spare-normal-relevance"),
    Claim("The tokens of lowest relevance alone are better than those of highest (Figure 3)",
          "anti-relevance", "normal-relevance"),
    Claim("By the last layer too, those of lowest relevance are better than the highest (Figure 3)",
          "anti-relevance@-1", "normal-relevance@-1"),
)  # fmt: skip


def verdicts(summary: Summary) -> list[str]:
    """Of each claim that was measured: what was found at every budget, and whether it holds."""
    sentences = [_verdict(summary, claim) for claim in CLAIMS]
    return [sentence for sentence in sentences if sentence]


def reasons(summary: Summary, built_in: BuiltIn) -> list[str]:
    """Why the built-in model may differ from the paper's, from its files and what was measured."""
    return [_patches(built_in), *_inversion(summary), _width(summary, built_in)]


def _verdict(summary: Summary, claim: Claim) -> str:
    estimates = {
        k: estimate
        for k in summary.budgets
        if (estimate := summary.pairs[claim.measure].get(((claim.a, k), (claim.b, k))))
        and not (claim.measure == ERROR and _rebuilt(summary, claim, k))
    }
    if not estimates:
        return ""
    holds = [k for k, e in estimates.items() if is_apart(summary, e) and e.value * claim.sign > 0]
    fails = [k for k, e in estimates.items() if is_apart(summary, e) and e.value * claim.sign < 0]
    open_ = [k for k, e in estimates.items() if not is_apart(summary, e)]
    parts = [
        f"{name} at {'every budget' if len(several) == len(estimates) > 1 else listed(several)}"
        for name, several in (("agrees", holds), ("disagrees", fails), ("leaves it open", open_))
        if several
    ]
    numbers = ", ".join(f"{in_measure(claim.measure, e)} at {k}" for k, e in estimates.items())
    return (
        f"{claim.words}. This model {'; '.join(parts)}: “{title_of(claim.a)}” minus "
        f"“{title_of(claim.b)}” in {MEASURES[claim.measure]}, paired: {numbers}."
    )


def _rebuilt(summary: Summary, claim: Claim, k: Budget) -> bool:
    return all(summary.error[label, k].value < REBUILT for label in (claim.a, claim.b))


def _patches(built_in: BuiltIn) -> str:
    return (
        f"The CLIP here was trained with a loss on every patch in {built_in.patch_phases} of "
        f"{built_in.phases} phases, which draws a patch towards the words for what it shows. The "
        "CLIP of the paper's models was trained on whole pictures with their captions."
    )


def _inversion(summary: Summary) -> list[str]:
    """Whether the cosine is inverted, at the layer that relevance reads."""
    over = summary.places.get(-2, {}).get("asked_over_background")
    if over is None:
        return []
    measured = f"(AUC of the things asked about over the background: {plain(over)})"
    if not is_apart(summary, over, 0.5):
        return [f"Whether raw cosine here is inverted at layer -2 is open {measured}."]
    if over.value > 0.5:
        return [
            f"Here raw cosine is higher on what is asked about {measured}: the inversion is "
            "missing on which the minus sign of CDPruner, TRIM and SPARE rests. What is least like "
            "the question is then mostly what the answer does not need."
        ]
    return [
        f"Here raw cosine is lower on what is asked about {measured}: the inversion on which "
        "the minus sign of CDPruner, TRIM and SPARE rests is there, so it explains no disagreement."
    ]


def _width(summary: Summary, built_in: BuiltIn) -> str:
    sentence = (
        f"The visual tokens here are {built_in.width} wide, and a picture has {summary.tokens}: "
        f"{built_in.width} tokens that do not depend on each other rebuild all of them. The tokens "
        "of LLaVA are 4,096 wide or more, so that each further one can add something."
    )
    exhausted = [k for k in summary.budgets if isinstance(k, int) and k >= built_in.width]
    errors = {
        (m, k): summary.error[m, k].value
        for k in exhausted
        for m in summary.methods
        if (m, k) in summary.error
    }
    if not errors:
        return sentence
    rebuilt = sum(error < REBUILT for error in errors.values())
    (worst, _), most = max(errors.items(), key=lambda item: item[1])
    low = min(exhausted)
    return (
        f"{sentence} At {low} tokens or more the relative error is below {REBUILT:g}, which is "
        f"rounding, for {rebuilt} of {len(errors)} methods and budgets, and {most:.2g} at most "
        f"({title_of(worst)}): there reconstruction has nothing left to choose by."
    )
