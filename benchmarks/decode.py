"""Three answers about one picture: one after the other, and decoded together.

    python benchmarks/decode.py [--device auto] [--model built-in] [--tokens 32] [--runs 41]
                                [--json FILE]

With all visual tokens, with 64 by SPARE and with 64 by CDPruner, every answer so many tokens long:
what ends an answer is switched off. The floor is the slowest of the three alone, in transformers'
usual growing cache. First whole answers, prefills included, which stay apart either way; then the
steps of decoding by themselves.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

from measuring import ROOT, Figure, finish, in_turns, read_arguments, where
from PIL import Image

from spare_demo.analysis.cost import bytes_text
from spare_demo.models import Answer, load_model
from spare_demo.models.generate.decoding import AnswerRun
from spare_demo.models.generate.rows import kept_rows
from spare_demo.models.generate.together import decode_together
from spare_demo.pruners import PRUNERS

LABELS = ("all", "spare", "cdpruner")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--tokens", type=int, default=32)
    args, device = read_arguments(parser, runs=41)
    model = load_model(args.model, str(device))
    model.hf.generation_config.eos_token_id = None
    example = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
    view = model.encode(Image.open(example), "What is in the picture?")
    budget = min(64, view.tokens.n)
    asked = {"all": None} | {k: PRUNERS[k].select(view.tokens, budget) for k in LABELS[1:]}
    allocated: deque[int] = deque(maxlen=1)
    steps: dict[str, list[float]] = {name: [] for name in (*LABELS, "together")}

    def alone(label: str) -> tuple[int, ...]:
        answer = model.answer(view, asked[label], args.tokens)
        steps[label].append(answer.decode_seconds)
        return answer.token_ids

    def together() -> tuple[tuple[int, ...], ...]:
        parts = model.hf, model.tokenizer, model._passes, view.input_ids
        runs = {
            label: AnswerRun(*parts, kept_rows(view.picture, kept), None, args.tokens)
            for label, kept in asked.items()
        }
        done: dict[str, Answer] = {}
        for step in decode_together(model.hf, model._passes, runs):
            done |= {label: said for label, said in step.items() if isinstance(said, Answer)}
        allocated.append(sum(answer.allocated_bytes for answer in done.values()))
        steps["together"].append(max(answer.decode_seconds for answer in done.values()))
        return tuple(done[label].token_ids for label in asked)

    apart = {label: partial(alone, label) for label in LABELS}
    whole = in_turns(args.runs, device, **apart, together=together)
    shape = f"{view.input_ids.shape[1]} positions unpruned, {budget} kept, {args.tokens} new tokens"
    figures = [
        Figure(
            f"{name}, {stage}",
            *where(device, model.dtype),
            shape,
            times,
            "slowest alone",
            slowest,
        )
        for stage, seconds in (
            ("whole answers", whole),
            # What warms up is not counted there either.
            ("decoding", {label: times[1:] for label, times in steps.items()}),
        )
        for name, times, slowest in _rows(seconds)
    ]
    same = together() == tuple(alone(label) for label in LABELS)
    finish(
        f"Three answers of {model.name}",
        figures,
        args.json,
        same_tokens="token for token the same" if same else "other tokens",
        joined_cache=bytes_text(allocated[0]),
    )


def _rows(
    seconds: Mapping[str, Sequence[float]],
) -> list[tuple[str, Sequence[float], Sequence[float]]]:
    """Each row's name, its times, and the slowest alone in the same runs."""
    each = [seconds[label] for label in LABELS]
    slowest = [max(times) for times in zip(*each, strict=True)]
    rows = dict(zip(("all tokens alone", "SPARE alone", "CDPruner alone"), each, strict=True))
    rows["one after the other"] = [sum(times) for times in zip(*each, strict=True)]
    rows["together"] = seconds["together"]
    return [(name, times, slowest) for name, times in rows.items()]


if __name__ == "__main__":
    main()
