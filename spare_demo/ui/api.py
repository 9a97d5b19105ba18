"""What programs can call: `compare`, `select`, `relevance` and `answer`, through `gradio_client`,
plain HTTP, or MCP where the server offers it. Their inputs are nowhere on the page.

MCP clients read the docstrings: Gradio puts a comma between the lines of "Returns".
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import gradio as gr
from PIL import Image

from spare_demo.analysis.answer_shift import measure_change, word_maps
from spare_demo.comparison.pipeline import finish
from spare_demo.comparison.request import UNPRUNED, Request, choose, read_budget, read_seed
from spare_demo.comparison.selections import explore
from spare_demo.images.load import PictureError
from spare_demo.models import Model, View
from spare_demo.pruners.fields import missing_reason
from spare_demo.relevance import GuidanceText, RelevanceOptions
from spare_demo.results.io import read_pick_list, to_json
from spare_demo.settings import Settings
from spare_demo.tokens import Positions
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.events import ANSWERING
from spare_demo.ui.gradio_compat.operations import describe, describe_endpoint, make_optional
from spare_demo.ui.gradio_compat.parts import (
    NumberAsSent,
    TextAsSent,
    TickAsSent,
    photo_input,
    with_toast,
)
from spare_demo.ui.guide import open_upload
from spare_demo.ui.times_log import (
    ALL_STAGES,
    fields_of_result,
    fields_of_view,
    logged_turn,
    seconds_of_answers,
)

_CALL_COMPARE = "Call /compare, which says what each layer kept."


class Api:
    """The operations, with the limits of this server."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings

    def compare(
        self,
        image: str,
        question: str,
        method_a: str = "spare",
        method_b: str = "cdpruner",
        budget: float | str = 64,
        seed: float = 0,
        positions: str = "",
        guidance_text: GuidanceText = "clip",
    ) -> dict[str, Any]:
        """Everything of one comparison: what both methods keep of a picture, and three answers.

        The same as `spare_demo.compare`; the result is what the command line writes to result.json,
        tens of thousands of characters. `answer` gives one answer alone.

        Args:
            image: the picture: a file, or from MCP clients data:image/png;base64,… (or jpeg).
            question: what to ask about it; empty for none.
            method_a: a pruning method, such as spare or fastv; a wrong name gets all of them.
            method_b: another, or the same.
            budget: visual tokens kept, from 1 to all of the picture's, or a share of them ("10%").
            seed: whole number, for methods that draw at random.
            positions: of kept tokens, compact (without gaps) or original; empty for the usual ones.
            guidance_text: clip, as in the papers, or words of the language model (no paper's).

        Returns:
            the picks in order, gains, weights, relevance, answers, costs and reconstruction errors.
        """
        with logged_turn("compare", self.model.name) as line:
            text, photo = self.settings.check_question(question), self._open(image)
            read_budget(budget, self.model.most_tokens)  # a refusal names the most
            request = Request(
                image=photo,
                question=text,
                methods=(method_a, method_b),
                budget=budget,
                max_new_tokens=self.settings.max_new_tokens,
                seed=seed,  # type: ignore[arg-type]  # a number as it was sent
                positions=self._positions(positions),
                relevance=RelevanceOptions(guidance_text=guidance_text),
            )
            result = finish(self.model, request)
            line.update(fields_of_result(result, ALL_STAGES, result.answers))
            return to_json(result)

    def select(
        self,
        image: str,
        question: str = "",
        method: str = "spare",
        budget: float | str = 64,
        seed: float = 0,
        guidance_text: GuidanceText = "clip",
    ) -> dict[str, Any]:
        """Which visual tokens a pruning method keeps. The language model does not run.

        Args:
            image: the picture: a file, or from MCP clients data:image/png;base64,… (or jpeg).
            question: the text that guides the choice; empty for none.
            method: a pruning method, such as spare or divprune; a wrong name gets all of them.
            budget: visual tokens kept, from 1 to all of the picture's, or a share of them ("10%").
            seed: whole number, for methods that draw at random.
            guidance_text: clip, as in the papers, or words of the language model (no paper's).

        Returns:
            method, visual_tokens, rows and columns of the grid, order (patch indices as picked)
            gain (the criterion at each pick, or null), weight (text weight per patch, or null)
            boxes (x0, y0, x1, y1 per patch in photo pixels) and notes.
        """
        with logged_turn("select", self.model.name) as line:
            read_budget(budget, self.model.most_tokens)  # what can be refused, before the picture
            methods = choose((method,), read_seed(seed))
            if methods[method].inside:
                reason = self.model.reason_against(methods[method])
                ending = f"It cannot run here: {reason}." if reason else _CALL_COMPARE
                raise ValueError(
                    f"{methods[method].title} has no single token set: it chooses inside the "
                    f"language model, layer by layer. {ending}"
                )
            view = self._view(line, image, question, guidance_text)
            k = read_budget(budget, view.tokens.n)
            exploration = explore(view, methods, k)
            ran = exploration.methods[method]  # in its text-free form where there is no question
            selection, weight = exploration.selections(k)[method], exploration.weights[method]
            return {
                "method": ran.name,
                "visual_tokens": exploration.n,
                "rows": view.grid.rows,
                "columns": view.grid.cols,
                "order": selection.order.tolist(),
                "gain": None if selection.gain is None else selection.gain.tolist(),
                "weight": None if weight is None else weight.tolist(),
                "boxes": view.grid.boxes.tolist(),
                "notes": list(exploration.notes),
            }

    def relevance(
        self, image: str, question: str, words: bool = False, guidance_text: GuidanceText = "clip"
    ) -> dict[str, Any]:
        """How like the question each patch is: raw cosine, high means similar.

        Args:
            image: the picture: a file, or from MCP clients data:image/png;base64,… (or jpeg).
            question: the text to compare with.
            words: whether to give a map for every word of the question as well.
            guidance_text: clip for CLIP's space, or words for those of the language model.

        Returns:
            visual_tokens, rows and columns of the grid, cosine (one per patch, row by row)
            and with words a list of {word, cosine}.
        """
        with logged_turn("relevance", self.model.name) as line:
            if not (question or "").strip():
                raise ValueError("There is no question to compare the patches with. Send one.")
            view = self._view(line, image, question, guidance_text)
            cosine = view.relevance
            if cosine is None:
                reason = missing_reason("clip_text", self.model.supplies)
                raise ValueError(f"There is no relevance: {reason}.")
            data = {
                "visual_tokens": view.tokens.n,
                "rows": view.grid.rows,
                "columns": view.grid.cols,
                "cosine": cosine.tolist(),
            }
            if words:
                options = RelevanceOptions(text="tokens", guidance_text=guidance_text)
                names, maps = word_maps(self.model.ask(view.picture, view.question, options))
                data["words"] = [
                    {"word": name, "cosine": column.tolist()}
                    for name, column in zip(names, maps.T, strict=True)
                ]
            return data

    def answer(
        self, image: str, question: str, tokens: str = "", positions: str = ""
    ) -> dict[str, Any]:
        """The model's answer from chosen visual tokens, and how far it is from the unpruned one.

        Args:
            image: the picture: a file, or from MCP clients data:image/png;base64,… (or jpeg).
            question: what to ask.
            tokens: patch indices to keep as a JSON list, such as "[3, 17, 240]"; empty for all.
            positions: of kept tokens, compact (without gaps) or original; empty for the usual ones.

        Returns:
            text, visual_tokens, prompt_tokens, prefill_seconds, decode_seconds, kv_cache_bytes
            and with chosen tokens unpruned (its text), kl (of the first token, in nats)
            probability (of the unpruned answer's words with only these tokens).
        """
        with logged_turn("answer", self.model.name) as line:
            places = self._positions(positions)
            picks = read_pick_list(tokens, "mine") if (tokens or "").strip() else None
            view, longest = self._view(line, image, question), self.settings.max_new_tokens
            if picks is not None:
                picks.check(view.tokens.n)
            answer = self.model.answer(view, picks, longest, places)
            answers = {UNPRUNED if picks is None else "mine": answer}
            data = {
                "text": answer.text,
                "visual_tokens": answer.visual_tokens,
                "prompt_tokens": answer.prompt_tokens,
                "prefill_seconds": answer.prefill_seconds,
                "decode_seconds": answer.decode_seconds,
                "kv_cache_bytes": answer.kv_cache_bytes,
            }
            if picks is not None:
                whole = answers[UNPRUNED] = self.model.answer(view, None, longest, places)
                change = measure_change(self.model, view, picks, whole, places)
                data |= {
                    "unpruned": whole.text,
                    "kl": None if change is None else change.kl,
                    "probability": None if change is None else change.probability,
                }
            line["seconds"] |= seconds_of_answers(answers)
            return data

    def _positions(self, positions: str) -> Positions:
        """Those that a caller named; ValueError, with a sentence to show, for others."""
        named: Any = (positions or "").strip() or None
        return self.model.position_option(named)

    def _open(self, image: str) -> Image.Image:
        if not image:
            raise PictureError("There is no picture. Send one.")
        return open_upload(image, self.settings)

    def _view(
        self, line: dict[str, Any], image: str, question: str, guidance_text: GuidanceText = "clip"
    ) -> View:
        text = self.settings.check_question(question)
        relevance = RelevanceOptions(guidance_text=guidance_text)
        view = self.model.ask(self.model.look(self._open(image)), text, relevance)
        line.update(fields_of_view(view))
        return view


def offer(api: Api, gpu: Here) -> None:
    """Adds the endpoints to the current `gr.Blocks`. gpu: where they run the model."""
    for operation in (api.compare, api.select, api.relevance, api.answer):
        name = operation.__name__
        inputs = [_input(parameter) for parameter in signature(operation).parameters.values()]
        button = gr.Button(visible=False)
        result = gr.JSON(label=name, visible=False)
        describe_endpoint(operation, inputs, result)
        button.click(with_toast(gpu.call(operation)), inputs, result, api_name=name, **ANSWERING)


def _input(parameter: Parameter) -> Any:
    """The hidden component through which an input of an operation comes."""
    label = parameter.name
    value = "" if parameter.default is Parameter.empty else parameter.default
    if label == "image":
        component: Any = photo_input(label=label, visible=False)
        # Gradio's own example lies at an address, from which this page fetches nothing.
        file = {"path": "photo.png", "url": "photo.png", "orig_name": "photo.png"}
        describe(component, file | {"meta": {"_type": "gradio.FileData"}})
    elif isinstance(value, bool):
        component = TickAsSent(value, label=label, visible=False)
    elif isinstance(value, int):
        component = NumberAsSent(value, label=label, visible=False)
    elif label == "tokens":  # a list of numbers will do as well
        component = gr.Textbox(value, label=label, visible=False)
    else:
        component = TextAsSent(value, label=label, visible=False)
    if label == "budget":
        describe(component, anyOf=[{"type": "number"}, {"type": "string"}])  # "10%"
    # These came later: programs that do not know them go on working.
    return make_optional(component) if label in ("positions", "guidance_text") else component
