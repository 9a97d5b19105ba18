"""Which event of the page calls which handler, and with what of the page."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.events import Dependency

from spare_demo.ui import panels
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.events import ANSWERING, QUIET, begin_on, in_steps, stop_on
from spare_demo.ui.find import CHANGED, READ, find_disagreement
from spare_demo.ui.gradio_compat.parts import with_event_data, with_toast
from spare_demo.ui.gradio_compat.queue import is_awaited, seconds_in_queue
from spare_demo.ui.handler_wrappers import with_page
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.layout import CONTROLS
from spare_demo.ui.open_visits import OpenVisits
from spare_demo.ui.replies import choose_chip
from spare_demo.ui.steps import Handler, PageChanges
from spare_demo.ui.times_log import with_times

_FOLDS = ("lost_fold", "cost_fold", "kl_fold")
_ASK_AGAIN = " Click it again to ask: "  # between the questions of an example

_WITH_LAYER = "(token, _, ...more) => [token, SPARE.state.depth, ...more]"
_FILM_OVER = "() => { SPARE.emit('film-over') }"

# A study asks many times in one turn, which lasts no longer once another is waited for.
STUDY_SECONDS = 60.0
_NO_LONGER = (
    "Others are waiting, so this stopped after a minute, with what it had found. Start it again "
    "later, or at a smaller budget."
)
# It asks many times: it waits for other searches only, and whoever asks once does not wait for it.
_FINDING: dict[str, Any] = {"concurrency_id": "find", "concurrency_limit": 1}


def until_asked(
    steps: Iterator[PageChanges], visits: OpenVisits, asked: float
) -> Iterator[PageChanges]:
    """A search's steps, until its visitor asks something else: then a sentence says so.

    With it goes the picture that was found just before; why, `in_steps` says.

    asked: when the search was. What was asked before it may put its visits in the middle of it.
    """
    picture: PageChanges = {}
    for values in steps:
        if visits.last_asked() > asked:
            ended = "The search stopped because something else was asked."
            yield picture | {"tried": panels.words_html(ended, spoken=True)}
            return
        if "image" in values:
            picture = {"image": values["image"]}
        yield values


def until_awaited(steps: Iterator[PageChanges]) -> Iterator[PageChanges]:
    """A study's steps, until its time is over and someone waits for the model."""
    begun = time.monotonic()
    for values in steps:
        if time.monotonic() - begun > STUDY_SECONDS and is_awaited(ANSWERING["concurrency_id"]):
            yield values | {"message": panels.message_html(_NO_LONGER)}
            return
        yield values


def wire(
    demo: gr.Blocks,
    parts: SimpleNamespace,
    handlers: Handlers,
    visits: OpenVisits,
    opened: Sequence[Any],
    ask_on_load: bool,
    gpu: Here,
) -> list[Dependency]:
    """The runs of studies, which may take long.

    parts: as `layout.lay_out` returns them.
    opened: the events after which the gallery or the Lab has put a picture and a question here.
    ask_on_load: whether the page opens without answers. gpu: where events run the model.
    """
    changed = (
        *("visit", "message", "notes", "truth", "headline", "chips", "stage", "answers", "cost"),
        *("curve", "curve_words", "budget_message", "reply", "own_answer"),
        *("enough", "carrier", "kl", "kl_words", "second", "rank", "many", "merged", "tried"),
        *_FOLDS,
    )
    outputs = [getattr(parts, name) for name in changed]

    def put(values: PageChanges, asked_at: float | None = None) -> dict:
        if "visit" in values:
            values = {**values, "visit": visits.put(values["visit"], asked_at)}
        # Gradio takes no dictionary without an output for an answer.
        return {getattr(parts, name): value for name, value in values.items()} or gr.skip()

    def of(names: Sequence[str]) -> list[Any]:
        return [getattr(parts, name) for name in names]

    def stream(handler: Handler, names: Sequence[str], place: str) -> Callable:
        """The handler as Gradio calls it for a run that Stop can end; inputs by name."""
        event = gpu.stream(handler, handlers.keep_finished)
        name = getattr(handler, "func", handler).__name__
        timed = with_times(event, name, handlers.model.name)

        def run(*values: Any) -> Iterator[dict]:
            asked_at = time.monotonic() - (seconds_in_queue() or 0.0)
            # Ask can do without the visit before it.
            alone = handler in (handlers.ask, handlers.ask_linked)
            visit_of = visits.find if alone else visits.get
            whole = with_page(timed, visit_of, place)
            steps = whole(**dict(zip(names, values, strict=True)))
            if handler in lasting:
                steps = until_awaited(steps)
            steps = in_steps(steps, ("image", "curve", "kl", *_FOLDS))
            if handler is find:
                steps = until_asked(steps, visits, asked_at)
            for changes in steps:
                yield put(changes, asked_at)

        return run

    def once(handler: Handler, place: str = "message", asked: str = "") -> Callable:
        """All that the handler changes, in one go; place and asked: see `with_refusals`."""
        event = with_page(gpu.stream(handler), visits.get, place, asked)

        def run(*inputs: Any) -> dict:
            changes = event(*inputs)
            return put({name: value for change in changes for name, value in change.items()})

        return run

    def move_to(mark: int | str, key: Any) -> Any:
        visit = visits.find(key)
        return gr.update() if visit is None else handlers.marked(mark, visit)

    find = functools.partial(find_disagreement, handlers)
    studies = handlers.studies
    # Half of a film is nothing, so that one goes on to its end.
    lasting = (studies.enough, studies.carrier, studies.measure, studies.all_methods)
    running, long = [], []
    p = parts
    redrawn = ["budget", "visit"]
    moving: dict[str, Any] = {"trigger_mode": "always_last", "concurrency_limit": 4, **QUIET}
    draw_curve = once(handlers.draw_curve)
    drawn_curve = [p.curve, p.curve_words, p.rank, p.lost_fold, p.message]

    def answering(
        event: Any,
        handler: Callable,
        names: Sequence[str],
        mode: str = "once",
        place: str = "message",
        curve: bool = True,
        more: Sequence[str] = (),
        turn: dict[str, Any] = ANSWERING,
    ) -> Any:
        """After the event the handler streams when its turn comes, and Stop can end it.

        names: the handler's inputs, which are parts of the page.
        place: where a visitor who pressed something far from Ask reads what went wrong.
        curve: whether the curve of errors is drawn anew afterwards, which needs no model.
        more: parts that it changes beside those of every answer.
        turn: whom it waits for.

        Returns the event of the run.
        """
        options: dict[str, Any] = {"trigger_mode": mode, "show_progress_on": p.looked, **turn}
        answer, changes = stream(handler, names, place), [*outputs, *of(more)]
        run = begin_on(event, answer, of(names), changes, "ask", **options)
        running.append(run)
        if handler in lasting:
            long.append(run)
        if curve:
            run.then(draw_curve, of(redrawn), drawn_curve, **moving)
        return run

    asked = [*CONTROLS, "example", "visit"]

    load = with_toast(handlers.load_example)
    chosen = p.offered.click(load, [p.offered, p.question], [p.image, p.question], **QUIET)
    drawn = p.scene.click(handlers.new_scene, None, [p.image, p.question, p.example], **QUIET)
    for event in (p.ask.click, p.question.submit, p.offered.click, p.scene.click, p.chips.choose):
        event(None, None, p.notice, js="() => ''", **QUIET)  # a link's goes with its comparison
    # After Stop the page may not know yet that the run is over: "once" would lose the next press.
    # The second click of a double click, and the like, js/runs.js keeps back.
    for event in (p.ask.click, p.question.submit, *([demo.load] if ask_on_load else [])):
        answering(event, handlers.ask, asked, "multiple")
    # What is chosen while an answer runs is asked next: the controls show it already.
    chip = p.chips.choose(
        with_event_data(once(choose_chip)), p.visit, [p.question, p.message], **QUIET
    )
    answering(p.find.click, find, READ, place="tried", more=CHANGED, turn=_FINDING)
    chosen_anew: tuple[Any, ...] = (
        *(part.input for part in (p.aspect, p.relevance_layer, p.relevance_text, p.together)),
        *(p.positions.input, p.seed.submit),
    )
    by = p.guidance_text.input(
        with_toast(handlers.menus),
        [p.guidance_text, p.method_a, p.method_b],
        [p.method_a, p.method_b],
        **QUIET,
    )
    shown_anew = (chosen.then, drawn.then, chip.then, by.then, *(event.then for event in opened))
    for event in (*chosen_anew, *shown_anew):
        answering(event, handlers.ask, asked, "always_last")

    others = ["method_a", "method_b", "seed", "budget", "visit"]
    of_story = p.story_card.choose_methods(
        handlers.story_methods, p.guidance_text, [p.method_a, p.method_b], **QUIET
    )
    tuned = (p.tuned_a.change, p.tuned_b.change)
    for event in (p.method_a.input, p.method_b.input, p.seed.blur, of_story.then, *tuned):
        answering(event, handlers.change_methods, others, "always_last")

    p.budget.change(None, p.budget, None, js="(budget) => { SPARE.showBudget?.(budget) }", **QUIET)
    # Plotly is larger than all else together, and draws anew at every question.
    p.lost_fold.expand(
        None, None, p.curve, js="() => ({__type__: 'update', visible: true})", **QUIET
    )
    p.by_hand.click(None, None, None, js="() => { SPARE.editByHand() }", **QUIET)
    p.keep.click(None, None, None, js="() => { SPARE.unfold('keep') }", **QUIET)
    merged = once(handlers.merged, place="merged")
    for event in (p.show_merged.click, p.token.submit):
        options: dict[str, Any] = {"js": _WITH_LAYER, "trigger_mode": "always_last", **QUIET}
        event(merged, [p.token, p.layer, *of(redrawn)], p.merged, **options)
    answering(p.find_enough.click, studies.enough, ["visit"], place="enough", curve=False)
    answering(p.find_carrier.click, studies.carrier, redrawn, place="carrier", curve=False)
    answering(p.measure.click, studies.measure, redrawn, place="kl_words", curve=False)
    answering(p.compare_all.click, studies.all_methods, redrawn, place="many", curve=False)
    filmed = answering(p.cite.film, studies.film, redrawn, place="file", curve=False)
    filmed.then(None, None, None, js=_FILM_OVER, **QUIET)
    for event in (p.compare_questions.click, p.other.submit):
        inputs = ["other", "budget", "visit"]
        answering(event, studies.second, inputs, "always_last", "second", curve=False)
    # js/core.js asks them one after the other.
    asking: dict[str, Any] = moving | {"trigger_mode": "multiple"}
    replies = handlers.replies
    for asks, reply, kind in (
        (p.stage.words, studies.words, "words"),
        (p.stage.picks, replies.picks, "picks"),
        (p.stage.leftover, replies.leftover, "leftover"),
        (p.why.why, replies.why, "why"),
    ):
        handler = with_event_data(once(reply, asked=kind))
        asks(handler, p.visit, [p.reply, p.message], **asking)
    # A file of a large photo takes hundreds of megabytes while it is made.
    filing: dict[str, Any] = asking | {"concurrency_id": "file", "concurrency_limit": 1}
    for asks, reply in ((p.cite.cite, replies.cite), (p.cite.save_page, replies.save_page)):
        asks(with_event_data(once(reply, place="file")), p.visit, p.reply, **filing)
    linked = p.stage.reopen(
        with_event_data(once(handlers.reopen, place="notice")),
        p.visit,
        of([*CONTROLS, "notice"]),
        **QUIET,
    )
    answering(linked.then, handlers.ask_linked, asked)
    answering(p.answers.answer_now, handlers.answer_now, redrawn, "always_last")
    own = ["own", "visit"]
    answering(p.own.ask_own, handlers.ask_own, own, "always_last", "own_answer", curve=False)
    answering(p.budget.release, handlers.settle, redrawn, "always_last")
    for mark, button in p.marks:
        to = functools.partial(move_to, mark)
        moved = button.click(to, p.visit, p.budget, queue=False, **QUIET)
        redraw = moved.then(once(handlers.redraw), of(redrawn), outputs, **moving)
        answering(redraw.then, handlers.settle, redrawn, "always_last")

    checking = moving | {"concurrency_limit": 2}  # a picture is large while it is looked at
    p.image.input(once(handlers.check_upload), p.image, p.message, **checking)
    p.image.input(None, None, p.chips, js="() => ''", **QUIET)  # a visitor's picture has none
    # Not `input`, which a Textbox leaves out for what is pasted or deleted. Once the page shows it.
    for event in (p.image.change, p.question.change):
        event(None, None, None, js="() => { setTimeout(SPARE.compareInputs) }", **QUIET)
    shown_by_stop = [*outputs, p.method_a, p.method_b]
    stop = once(handlers.stop)
    stopped = stop_on(p.stop.click, running, stop, of(redrawn), shown_by_stop, "ask")
    stopped.then(None, None, None, js=_FILM_OVER, **QUIET)
    stopped.then(draw_curve, of(redrawn), drawn_curve, **moving)
    questions = json.dumps([_ASK_AGAIN.join(example.answers) for example in handlers.offered])
    demo.load(None, None, None, js=f"() => SPARE.openPage({questions})", **QUIET)
    return long
