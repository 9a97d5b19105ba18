"""`python -m spare_demo compare`: the options, the run, and what it leaves in its folder."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from spare_demo.cli import options
from spare_demo.cli.comparison_text import (
    compare_runs,
    print_carriers,
    print_headline,
    print_report,
)
from spare_demo.cli.film import check_film, write_film
from spare_demo.comparison.pipeline import encode, finish
from spare_demo.comparison.request import Request, able_methods, choose
from spare_demo.comparison.result import Result
from spare_demo.images.load import open_local_picture
from spare_demo.models import Model, View, bits_of, load_model
from spare_demo.models.loading.catalogue import AUTO
from spare_demo.pruners import PRUNERS, LayerPlan, Method
from spare_demo.pruners.options import read_options
from spare_demo.results.drawings import MANY, OF_MANY, PANELS, USUAL
from spare_demo.results.export import cite, write_files
from spare_demo.results.io import read_pick_lists, read_result
from spare_demo.settings import Settings
from spare_demo.tokens import Selection

_OF_FILE = (
    *("methods", "options", "picks", "budget", "seed", "max_new_tokens", "aspect", "together"),
    *("positions", "relevance_layer", "relevance_text", "guidance_text"),
)
"""Options that --from does not read: the file says them."""
_OF_MODEL = ("model", "device", "bits", "without_language_model", "system")
"""Options that --from reads with --again alone."""


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    parser.set_defaults(run=run, wrong=parser.error)
    usual = " ".join(settings.methods).replace("%", "%%")
    add = options.adder(
        parser.add_argument,
        f"""
        image        a picture file
        question     the question; "" asks none, and methods that need one run in their text-free
                     form if they have one, else are refused
        --out        folder for the pictures and result.json
        --from       draw an earlier result.json again, without a model, instead of asking
        --again      with --from: ask the model again, with all settings of the file
        --panels     pictures to draw, of: {", ".join(PANELS)} (default: {" ".join(USUAL)}); grid
                     and consensus only of three methods or more; kl only
                     with --from, of a result.json that the page saved after it measured KL
        --carrier    also say which kept token carries each answer, by asking once more without
                     each of them
        --film       also save the order of picks as a film: FILE.webp or FILE.gif
        --html       also save one page with the viewer, which opens without the app
        --zip        also save citation.zip: pictures as PNG and SVG, commands and references
        --without-language-model
                     load the vision side alone: picks and maps but no answers, at a fraction of
                     the download
        --methods    names that the command methods lists; all: after those named, all others
                     that this model can run at the budget (default: {usual})
        --set        a setting of a method, such as divprune.metric=euclidean; may be repeated
        --picks      also compare these lists of patches: JSON, or an earlier result.json
        --budget     visual tokens kept, or a share such as "10%%" (default: %(default)s)
        """,
    )
    add("image", metavar="IMAGE", nargs="?")
    add("question", metavar="QUESTION", nargs="?")
    add("--out", required=True, metavar="DIR")
    add("--from", dest="result", metavar="FILE")
    add("--again", action="store_true")
    add("--panels", nargs="+", choices=tuple(PANELS), default=list(USUAL), metavar="PANEL")
    add("--carrier", action="store_true")
    add("--film", metavar="FILE")
    add("--html", metavar="FILE")
    add("--zip", action="store_true")
    options.add_model_options(parser, settings)
    without = settings.without_language_model
    add("--without-language-model", action="store_true", default=without)
    options.add_system_option(parser, settings)
    add("--methods", nargs="*", default=list(settings.methods), metavar="METHOD")
    add("--set", action="append", default=[], dest="options", metavar="METHOD.SETTING=VALUE")
    add("--picks", metavar="FILE")
    add("--budget", default=settings.budget)
    options.add_question_options(parser, settings, settings.max_new_tokens)


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Run it. Raises ValueError, ModelError or OSError with a sentence to show."""
    if arguments.result is not None:
        _compare_from(arguments, settings)
        return
    if arguments.again:
        arguments.wrong("--again needs --from FILE")
    if arguments.carrier and arguments.without_language_model:
        arguments.wrong("--carrier needs answers; leave --without-language-model out")
    if arguments.image is None or arguments.question is None:
        arguments.wrong("the following arguments are required: IMAGE, QUESTION (or --from FILE)")
    # Everything that can be refused is, before the seconds or minutes that loading takes.
    question = settings.check_question(arguments.question)
    changes = read_options(arguments.options)
    methods: dict[str, Method | Selection | LayerPlan] = {}
    names = [name for name in arguments.methods if name != "all"]
    others = [name for name in PRUNERS if name not in names] if "all" in arguments.methods else []
    if arguments.methods:
        methods |= choose([*names, *others], arguments.seed, changes)
    if arguments.picks is not None:
        text = Path(arguments.picks).read_text(encoding="utf-8-sig", errors="replace")
        imported = read_pick_lists(text, Path(arguments.picks).stem)
        mark = any(label in methods for label in imported)
        for label, picks in imported.items():
            # Only an imported list is ever called unmerged.
            plain = not mark or label.endswith(" (unmerged)")
            methods[label if plain else f"{label} (imported)"] = picks
    request = Request(
        image=arguments.image,
        question=question,
        methods=methods,
        budget=arguments.budget,
        seed=arguments.seed,
        **options.question_options(arguments),
    )
    _check_files(arguments, len(request.labelled))
    by_hand = [method.by_hand for method in request.labelled.values()]
    _check_panels(arguments, settings, by_hand.count(False), has_kl=False)
    check_film(arguments, request.labelled)
    photo = open_local_picture(arguments.image, settings.max_pixels)

    model = _load(arguments)
    request = dataclasses.replace(request, image=photo)
    view = encode(model, request)
    if others:
        request = _leave_out(request, model, view, others)
    result = finish(model, request, view)
    _write(result, arguments)
    if arguments.carrier:
        print_carriers(model, view, result)
    write_film(arguments.film, model, result, settings.marks)


def _leave_out(request: Request, model: Model, view: View, others: Sequence[str]) -> Request:
    """The request without those of `others`, which `all` stands for, that cannot run here; prints a
    line for each."""
    n = view.tokens.n
    budget, with_text = request.budget_of(n), bool(view.question.strip())
    _, reasons = able_methods(model, n, budget, with_text, request.relevance.guidance_text)
    left_out = [name for name in others if name in reasons]
    for name in left_out:
        options.print_wrapped(f"{PRUNERS[name].title} is left out: {reasons[name]}.")
    methods = {label: method for label, method in request.labelled.items() if label not in left_out}
    return dataclasses.replace(request, methods=methods)


def _check_files(arguments: argparse.Namespace, methods: int) -> None:
    """ValueError or OSError, with a sentence to show, where there can be no page or no results."""
    result = Path(arguments.out) / "result.json"
    if arguments.html is not None:
        if methods < 2:
            raise ValueError("--html shows two methods side by side. Compare one more.")
        options.check_file(Path(arguments.html), result, arguments.film)
    options.check_file(result)


def _check_panels(
    arguments: argparse.Namespace, settings: Settings, methods: int, has_kl: bool
) -> None:
    """ValueError, with a sentence to show, for a panel that was typed and cannot be drawn.

    methods: how many are compared, without sets made by hand. has_kl: whether KL was measured.
    """
    if not options.given(add_options, settings, arguments.words, ["panels"]):
        return
    if "kl" in arguments.panels and not has_kl:
        raise ValueError(
            "The panel kl draws what only the page measures. Leave it out; or measure KL on the "
            "page, save result.json there, and draw that with --from, without --again."
        )
    if methods < MANY and (of_many := [name for name in arguments.panels if name in OF_MANY]):
        raise ValueError(
            f"The panel {of_many[0]} needs {MANY} methods or more. Leave it out, or compare more."
        )


def _compare_from(arguments: argparse.Namespace, settings: Settings) -> None:
    if arguments.carrier:
        arguments.wrong("--carrier asks about a picture; give IMAGE and QUESTION, without --from")
    if arguments.question is not None:
        arguments.wrong("the question is in the file that --from names; leave QUESTION out")
    typed = options.given(add_options, settings, arguments.words, (*_OF_FILE, *_OF_MODEL))
    if unread := [name for name in typed if name in _OF_FILE or not arguments.again]:
        flag = "--set" if unread[0] == "options" else f"--{unread[0].replace('_', '-')}"
        need = "leave it out" if unread[0] in _OF_FILE else "leave it out, or add --again"
        arguments.wrong(f"{flag} is not read with --from, whose file says all settings; {need}")
    photo = None
    if arguments.image is not None:
        photo = open_local_picture(arguments.image, settings.max_pixels)
    text = Path(arguments.result).read_text(encoding="utf-8-sig", errors="replace")
    saved = read_result(text, photo)
    for note in saved.notes:
        options.print_wrapped(note)
    first = saved.result
    _check_files(arguments, len(first.methods))
    by_hand = [record.name is None or record.planned_by_hand for record in first.methods.values()]
    has_kl = first.kl is not None and not arguments.again
    _check_panels(arguments, settings, by_hand.count(False), has_kl)
    if arguments.film is not None and not arguments.again:
        raise ValueError("A film asks the model at every step. Add --again, or leave --film out.")
    if not saved.pictured and (arguments.again or arguments.zip):
        raise ValueError("The file does not hold the picture. Name it too: compare IMAGE --from …")
    if not arguments.again:
        _write(first, arguments, text)
        return
    request = first.request
    check_film(arguments, request.labelled)
    of_file = {
        "model": first.model,
        "bits": bits_of(first.revision),
        "without_language_model": not first.language_model,
        "system": first.system,
    }
    vars(arguments).update((name, value) for name, value in of_file.items() if name not in typed)
    model = _load(arguments)
    again = finish(model, request)
    _write(again, arguments)
    options.print_wrapped(compare_runs(first, again))
    write_film(arguments.film, model, again, settings.marks)


def _load(arguments: argparse.Namespace) -> Model:
    model = load_model(
        arguments.model,
        arguments.device,
        bits=arguments.bits,
        report=options.tell,
        language_model=not arguments.without_language_model,
        system=arguments.system,
    )
    # Why `auto` took it says the same, and whether the model for photos has room here.
    for note in model.notes if arguments.model == AUTO else (model.description, *model.notes):
        options.tell(note)
    return model


def _write(result: Result, arguments: argparse.Namespace, text: str | None = None) -> None:
    folder = Path(arguments.out)
    if arguments.html is not None:
        Path(arguments.html).parent.mkdir(parents=True, exist_ok=True)
        result.html(arguments.html)
    files = write_files(result, folder, arguments.panels, text)
    if arguments.zip:
        (folder / "citation.zip").write_bytes(cite(result, arguments.panels))
        files.append("citation.zip")
    if result.view is not None:  # a file lacks the probabilities that back a headline
        print_headline(result, arguments.image)
    print_report(result)
    print(f"\nWritten to {folder}: {', '.join(files)}")
    if arguments.html is not None:
        print(f"The page is {arguments.html}")
