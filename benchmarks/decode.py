"""Three answers about one picture: one after the other, and decoded as one batch.

    python benchmarks/decode.py [--device auto] [--model built-in] [--tokens 32] [--runs 9]
                                [--json FILE]

With all visual tokens, with 64 by SPARE and with 64 by CDPruner, every answer so many tokens long:
what ends an answer is switched off. The floor is the slowest of the three alone. Prefills count.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque

from measuring import ROOT, Figure, device_name, finish, in_turns, read_arguments

sys.path.insert(0, str(ROOT))

from PIL import Image

from spare_demo.cost import bytes_text
from spare_demo.models import Answer, load_model
from spare_demo.models.rows import kept_rows
from spare_demo.models.together import decode_together
from spare_demo.pruners import PRUNERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--model", default="built-in")
    parser.add_argument("--tokens", type=int, default=32)
    args, device = read_arguments(parser, runs=9)
    model = load_model(args.model, str(device))
    model.hf.generation_config.eos_token_id = None
    example = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
    view = model.encode(Image.open(example), "What is in the picture?")
    budget = min(64, view.tokens.n)
    selections = [
        None,
        *(PRUNERS[name].select(view.tokens, budget) for name in ("spare", "cdpruner")),
    ]
    asked = dict(zip(("all", "spare", "cdpruner"), selections, strict=True))
    allocated: deque[int] = deque(maxlen=1)

    def alone(i: int) -> tuple[int, ...]:
        return model.answer(view, selections[i], args.tokens).token_ids

    def together() -> tuple[tuple[int, ...], ...]:
        rows = {label: kept_rows(view.picture, kept) for label, kept in asked.items()}
        done: dict[str, Answer] = {}
        for step in decode_together(
            model.hf, model.tokenizer, model._passes, view.input_ids, rows, args.tokens
        ):
            done |= {label: said for label, said in step.items() if isinstance(said, Answer)}
        allocated.append(sum(answer.allocated_bytes for answer in done.values()))
        return tuple(done[label].token_ids for label in asked)

    seconds = in_turns(
        args.runs,
        device,
        all=lambda: alone(0),
        spare=lambda: alone(1),
        cdpruner=lambda: alone(2),
        together=together,
    )
    each = [seconds[name] for name in ("all", "spare", "cdpruner")]
    slowest = [max(times) for times in zip(*each, strict=True)]
    shape = f"{view.input_ids.shape[1]} positions unpruned, {budget} kept, {args.tokens} new tokens"
    rows = {"all tokens alone": each[0], "SPARE alone": each[1], "CDPruner alone": each[2]}
    rows["one after the other"] = [sum(times) for times in zip(*each, strict=True)]
    rows["together"] = seconds["together"]
    figures = [
        Figure(
            name,
            device_name(device),
            str(model.dtype).removeprefix("torch."),
            shape,
            times,
            "slowest alone",
            slowest,
        )
        for name, times in rows.items()
    ]
    same = together() == tuple(alone(i) for i in range(3))
    finish(
        f"Three answers of {model.name}",
        figures,
        args.json,
        same_tokens="token for token the same" if same else "other tokens",
        padded_cache=bytes_text(allocated[0]),
    )


if __name__ == "__main__":
    main()
