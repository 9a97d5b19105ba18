"""`python -m spare_demo evaluate`: the options, the run and what it leaves in its folder."""

from __future__ import annotations

import argparse
import functools
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spare_demo.cli import gallery, options
from spare_demo.cli.questions import EPILOG, USUAL_SET, add_question_source, read_questions, refuse
from spare_demo.comparison.request import choose
from spare_demo.evaluation import tables
from spare_demo.evaluation.budgets import read_budgets
from spare_demo.evaluation.built_in import describe_built_in
from spare_demo.evaluation.experiment import Experiment, Fitted, fit
from spare_demo.evaluation.report import SUMMARIES, write_files, write_report
from spare_demo.evaluation.results import (
    ANSWERS,
    PLACES,
    SETTINGS,
    SKIPPED,
    Results,
    has_results,
    load,
)
from spare_demo.evaluation.run import PictureResults, run
from spare_demo.evaluation.sheets import Sheet, digest
from spare_demo.evaluation.summary import RESAMPLES, Summary, summarise
from spare_demo.evaluation.variants import (
    BY_WORDS,
    MARK,
    Variant,
    plain_label,
    read_variant,
    split_label,
)
from spare_demo.models import load_model
from spare_demo.models.loading.catalogue import AUTO, BUILT_IN, CATALOGUE
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.options import read_method, read_options, write_method
from spare_demo.scenes.sets import SETS
from spare_demo.settings import Settings, check_characters
from spare_demo.table import counted

ALL = "all"
"""Among the methods: every one of the table that the model can run."""
BUDGETS = ("16", "32", "64", "128", "192")


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    parser.set_defaults(run=evaluate)
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    goals = parser.add_mutually_exclusive_group(required=True)
    add_goal = options.adder(
        goals.add_argument,
        f"""
        --out      folder for the results
        --gallery  look for surprising cases among the drawn scenes of --seeds, with
                   {" and ".join(gallery.METHODS)} at {", ".join(map(str, gallery.BUDGETS))} tokens,
                   and write them to this folder; of the other options it takes only those of the
                   model
        """,
    )
    add_goal("--out", type=Path, metavar="DIR")
    add_goal("--gallery", type=Path, metavar="DIR")
    add = options.adder(
        parser.add_argument,
        f"""
        --seeds        first and last scene for --gallery (default: 0 199)
        --methods      names that the command methods lists; {ALL}: every one that this model can
                       run. spare:squash=minmax changes a setting; spare@tokens takes the relevance
                       of each word by itself, spare@-1 that of the last layer; --methods alone
                       prunes nothing (default: all)
        --budgets      visual tokens kept, or shares of each picture's tokens such as 25%%
                       (default: {" ".join(BUDGETS)})
        --set          drawn scenes that training never shows, of: {", ".join(SETS)} (default:
                       {USUAL_SET}); or a setting of a method, such as divprune.metric=euclidean
        --workers      measure pictures on N GPUs at once, or with N shares of the processor's
                       cores; more than one needs Ray (default: %(default)s)
        --address      head of a Ray cluster whose machines the workers run on (default: this
                       machine)
        --blank        also ask every question about a blank picture (default: with drawn scenes)
        --instruction  a line added after every question; TRIM is the only method that reads it
        --reference    the method that differences are taken against (default: the first
                       of --methods)
        --resamples    resamples of the bootstrap (default: %(default)s)
        --report       also write a report in Markdown
        --figures      where the report's figures go (default: figures, beside the report)
        """,
    )
    add("--seeds", nargs=2, type=int, metavar=("FIRST", "LAST"))
    options.add_model_options(parser, settings)
    options.add_system_option(parser, settings)
    add("--methods", nargs="*", default=[ALL], metavar="METHOD")
    add("--budgets", nargs="+", default=list(BUDGETS), metavar="K")
    metavar = "SET|METHOD.SETTING=VALUE"
    add("--set", nargs="+", action="extend", type=_set_or_setting, default=[], metavar=metavar)
    add_question_source(parser)
    add("--workers", type=int, default=1, metavar="N")
    add("--address", default="", metavar="HOST:PORT")
    add("--blank", action=argparse.BooleanOptionalAction, default=None)
    add("--instruction", default="")
    options.add_question_options(parser, settings, max_new_tokens=16)
    add("--reference", metavar="METHOD")
    add("--resamples", type=int, default=RESAMPLES)
    add("--report", type=Path, metavar="FILE")
    add("--figures", type=Path, metavar="FOLDER")


def _set_or_setting(text: str) -> str:
    if text in SETS or "=" in text:
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither a set of scenes ({', '.join(SETS)}) nor a METHOD.SETTING=VALUE"
    )


def evaluate(arguments: argparse.Namespace, settings: Settings) -> None:
    """Run it. Raises ValueError, ModelError or OSError with a sentence to show."""
    if arguments.gallery is not None:
        unread = [name for name in vars(arguments) if name not in gallery.READ]
        if typed := options.given(add_options, settings, arguments.words, unread):
            flag = f"--{typed[0].replace('_', '-')}"
            raise ValueError(f"{flag} is not read with --gallery. Leave it out.")
        gallery.mine_gallery(arguments)
        return
    if arguments.seeds is not None:
        raise ValueError(
            "--seeds is read with --gallery only. Leave it out; the random seed is --seed."
        )
    if arguments.figures is not None and arguments.report is None:
        raise ValueError("--figures is read with --report only. Add --report, or leave it out.")
    _check_workers(arguments)
    experiment = _experiment(arguments)
    if arguments.resamples < 1:
        raise ValueError("--resamples must be 1 or more.")
    sheets = read_questions(arguments)
    # All that can be refused is, before the minutes of loading.
    has_results(arguments.out, _known_settings(arguments, sheets, experiment), partly=True)
    _check_reference(arguments, experiment)
    if arguments.report:
        arguments.figures = arguments.figures or arguments.report.parent / "figures"
        figure = arguments.figures / "a figure"
        others = (ANSWERS, SETTINGS, PLACES, SKIPPED, *SUMMARIES)
        options.check_file(arguments.report, *(arguments.out / name for name in others), figure)
        options.check_file(figure)
    options.check_file(arguments.out / ANSWERS)
    with ExitStack() as stack:
        fitted, measure = _engine(arguments, experiment, stack)
        for note in fitted.notes:
            options.tell(note)
        experiment = fitted.experiment
        _check_reference(arguments, experiment)
        record = {"model": fitted.model, "questions": digest(sheets), **experiment.record()}
        questions = {(sheet.set, sheet.picture): len(sheet.questions) for sheet in sheets}
        with Results(arguments.out, record, questions, experiment.rows_each) as results:
            _fill(results, sheets, measure(sheets, experiment, results.done))
            if not results.rows:
                raise ValueError("No question could be asked. See the lines above.")
            results.sort()
    # As the file has them, so that the same comes out whenever it is summed up.
    record, rows, places = load(arguments.out)
    # An earlier command may have named another method first.
    reference = arguments.reference or next(iter(experiment.methods), None)
    summaries = summarise(rows, places, reference, arguments.resamples)
    _write(arguments, record, summaries)


def _check_workers(arguments: argparse.Namespace) -> None:
    """Raises ValueError, with a sentence to show, for options that no workers can be had by."""
    if arguments.workers < 1:
        raise ValueError("--workers must be 1 or more.")
    if arguments.workers == 1 and not arguments.address:
        return
    if re.fullmatch(r"cuda:\d+", arguments.device):
        raise ValueError(
            f"--device {arguments.device} is one GPU, and every worker gets its own. Choose auto, "
            "cpu or cuda."
        )
    if find_spec("ray") is None:
        raise ValueError('Several workers need Ray. Install it: pip install ".[ray]"')


def _known_settings(
    arguments: argparse.Namespace, sheets: Sequence[Sheet], experiment: Experiment
) -> dict[str, Any]:
    """What the settings file will say, as far as that is known before the model is loaded."""
    record = experiment.record()
    for name in ("aspect", "positions", "variants", *(["methods"] * (ALL in arguments.methods))):
        record.pop(name, None)
    if arguments.model in CATALOGUE:
        record["model"] = {"name": arguments.model}
    return {"questions": digest(sheets), **record}


def _check_reference(arguments: argparse.Namespace, experiment: Experiment) -> None:
    if arguments.reference and arguments.reference not in experiment.methods:
        raise ValueError(
            f"--reference must be one of the methods: {', '.join(experiment.methods)}."
        )


def _engine(
    arguments: argparse.Namespace, experiment: Experiment, stack: ExitStack
) -> tuple[Fitted, Callable[..., Iterator[PictureResults]]]:
    """What can be measured, and `run` without its model: in this process, or by workers.

    stack: ends the workers.
    """
    load_it = functools.partial(
        load_model, arguments.model, arguments.device, bits=arguments.bits, system=arguments.system
    )
    leave_out = ALL in arguments.methods
    # On a line above the progress bar, not behind it.
    skip = functools.partial(tqdm.write, file=sys.stderr) if arguments.skip_bad else refuse
    if arguments.workers == 1 and not arguments.address:
        model = load_it(report=options.tell)
        return fit(model, experiment, leave_out), functools.partial(run, model, skip=skip)
    from spare_demo.evaluation.on_ray import open_workers  # an extra, and slow to import

    workers = stack.enter_context(
        open_workers(arguments.workers, arguments.address, arguments.device, load_it)
    )
    fitted = workers.fit(experiment, leave_out)
    return fitted, functools.partial(workers.run, fitted.model, skip=skip)


def _fill(results: Results, sheets: Sequence[Sheet], measured: Iterator[PictureResults]) -> None:
    """Add what is measured, with a bar of the questions that are done."""
    total = sum(len(sheet.questions) for sheet in sheets)
    done = results.done
    before = sum(len(s.questions) for s in sheets if (s.set, s.picture) in done)
    options.tell(
        f"{counted(total, 'question')} about {counted(len(sheets), 'picture')}. The time left is "
        "shown once the first picture is done."
    )
    if results.skipped:
        earlier = counted(len(results.skipped), "question")
        options.tell(f"Left out earlier: {earlier}, with the reasons in {SKIPPED}.")
    form = "{l_bar}{bar}| {n_fmt}/{total_fmt} questions [{elapsed}, {remaining} left]"
    with tqdm(total=total, initial=before, bar_format=form, mininterval=1) as bar:
        try:
            for of_picture in measured:
                results.add(of_picture.rows, of_picture.places, of_picture.skipped)
                bar.update(len(of_picture.sheet.questions))
        except KeyboardInterrupt:
            bar.close()
            asked = f"{bar.n} of {total}"
            options.tell(f"Interrupted. The same command resumes after question {asked}.")
            raise


def _experiment(arguments: argparse.Namespace) -> Experiment:
    budgets = read_budgets(arguments.budgets)
    if arguments.max_new_tokens < 1:
        raise ValueError("--max-new-tokens must be 1 or more.")
    texts = arguments.methods
    names = [name for text in texts for name in (PRUNERS if text == ALL else (text,))]
    changes = read_options([text for text in arguments.set if text not in SETS])
    if unused := [name for name in changes if name not in names]:
        raise ValueError(
            f"{unused[0]!r} has settings but is not measured. Add it to --methods, or leave its "
            "settings out."
        )
    # What is set goes into the label, so that every table and file says so. A seed is compared with
    # the run's, not with the method's usual one.
    unset = choose(list(changes), arguments.seed) if changes else {}
    labels = {name: write_method(name, values, unset[name]) for name, values in changes.items()}
    names = [plain_label(labels.get(name, name)) for name in names]
    reference = labels.get(arguments.reference, arguments.reference)
    arguments.reference = reference and plain_label(reference)
    asked = options.question_options(arguments)
    if asked["relevance"].guidance_text == "words":  # no paper's, so the labels say so
        names = [_by_words(name) for name in names]
        arguments.reference = arguments.reference and _by_words(arguments.reference)
    split = {label: split_label(label) for label in names}
    plain = list(dict.fromkeys(name for name, _ in split.values()))
    chosen = choose(plain, arguments.seed) if plain else {}
    methods = {label: chosen[name] for label, (name, _) in split.items()}
    usual = Variant(asked["relevance"], asked["positions"])
    variants = {label: read_variant(text, usual) for label, (_, text) in split.items() if text}
    for label, variant in variants.items():
        if variant.relevance != usual.relevance and not methods[label].reads_relevance:
            raise ValueError(
                f"{label!r} reads no question, so after {MARK} it can only have positions, such as "
                f"{MARK}original."
            )
    return Experiment(
        methods=methods,
        variants=variants,
        budgets=budgets,
        blank=arguments.data is None if arguments.blank is None else arguments.blank,
        instruction=check_characters("instruction", arguments.instruction.strip()),
        **asked,
    )


def _by_words(label: str) -> str:
    """The label of a method that reads relevance by words of the language model."""
    name, variant = split_label(label)
    if BY_WORDS in variant.split(",") or not read_method(name).reads_relevance:
        return label
    return f"{label},{BY_WORDS}" if variant else f"{label}{MARK}{BY_WORDS}"


def _write(
    arguments: argparse.Namespace, record: dict[str, Any], summaries: dict[str, Summary]
) -> None:
    """Tables on the terminal, and all of the folder's files; the report if asked for."""
    write_files(arguments.out, record, summaries)
    if arguments.report:
        built_in = None
        # A folder of another model may have its name.
        if record["model"]["name"] == BUILT_IN.name and arguments.model in (AUTO, BUILT_IN.name):
            built_in = describe_built_in(Path(BUILT_IN.source))
        command = shlex.join(["python", "-m", "spare_demo", *sys.argv[1:]])
        write_report(arguments.report, arguments.figures, built_in, record, summaries, command)
    # After the files: whoever reads the tables may have enough of them.
    for name, summary in summaries.items():
        print(f"\n== {name} ==")
        for table in tables.all_tables(summary):
            print(f"\n{table.text()}")
    print(f"\nWritten to {arguments.out}: {', '.join([ANSWERS, *SUMMARIES])}")
    if arguments.report:
        print(f"The report is {arguments.report}.")
