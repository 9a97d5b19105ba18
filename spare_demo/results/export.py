"""A comparison as files: in a folder, or in one archive to cite it by and to repeat it."""

from __future__ import annotations

import io
import re
import shlex
import zipfile
from collections.abc import Collection
from html import escape
from pathlib import Path

from PIL.PngImagePlugin import PngInfo

from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.request import UNPRUNED, choose, name_of
from spare_demo.comparison.result import Result
from spare_demo.models import CATALOGUE, bits_of
from spare_demo.pruners import PRUNERS
from spare_demo.render.base import png_bytes
from spare_demo.render.display import Display
from spare_demo.results.drawings import PANELS, USUAL, drawings, error_curve
from spare_demo.results.io import versions, write_result
from spare_demo.results.references import references
from spare_demo.tokens import cpu_by_default


@cpu_by_default()
def write_files(
    result: Result, folder: Path, panels: Collection[str] = USUAL, text: str | None = None
) -> list[str]:
    """Write everything into `folder`, which is made if need be.

    text: of result.json where the result was read from one; None makes it.

    Returns the names of the files: the pictures of `drawings.drawings`, the curve to hover over in
    reconstruction.html, and result.json. Raises OSError if the folder cannot be written,
    ValueError for a panel that is not one of `drawings.PANELS`.
    """
    files = {f"{d.name}.png": png(d.display, result) for d in drawings(result, panels)}
    if "reconstruction" in panels:
        files["reconstruction.html"] = _curve_page(result).encode()
    files["result.json"] = (text or write_result(result)).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return list(files)


def png(display: Display, result: Result) -> bytes:
    """PNG that is printed at 200 dots an inch, where 672 pixels are a paper's column (8.5 cm), and
    at more where it would be wider than both columns (7 inches)."""
    dots = max(200.0, display.image.width / 7)
    words = PngInfo()
    words.add_itxt("Description", f"{display.sentence} {_origin(result)}")
    return png_bytes(display.image, dpi=(dots, dots), pnginfo=words)


def svg(display: Display, result: Result) -> bytes:
    """The SVG file, which says as the PNG does what it was made of."""
    origin = f"</title><desc>{escape(_origin(result))}</desc>"
    text = display.svg.replace("</title>", origin, 1)
    # What is pasted from a PDF may hold characters that no XML file may.
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "?", text).encode()


def _origin(result: Result) -> str:
    """What a picture that is found by itself does not show."""
    return (
        f"Question: {result.question or '(none)'} Model: {result.model} {result.revision}. Budget: "
        f"{result.budget} of {result.visual_tokens} tokens. Seed: {result.settings.seed}. SPARE "
        "demo; result.json has the rest."
    )


def _curve_page(result: Result) -> str:
    curves = result.reconstruction
    assert curves is not None  # every finished result has them
    chart = error_curve(curves, result.methods, result.titles, result.budget)
    # The whole of plotly.js goes into the page, so that it opens without a network; its button
    # that uploads the chart does not.
    plot = chart.figure.to_html(
        include_plotlyjs=True,
        full_html=False,
        config={"displayModeBar": False},
        div_id="reconstruction",  # plotly's own would be another one each time
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Reconstruction</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<body style="font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto">'
        f"{plot}<p>{escape(chart.sentence)}</p></body></html>\n"
    )


_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # for every file, so that a result always gives the same bytes


def cite(result: Result, panels: Collection[str] = USUAL, link: str | None = None) -> bytes:
    """A zip: result.json, each panel as PNG and SVG, the picture, the commands and the BibTeX.

    Args:
        panels: names of `drawings.PANELS`; one that this result lacks is left out.
        link: an address that reopens the settings, to stand in the README.

    Raises ValueError for an unknown panel, or none at all.
    """
    if not panels:
        raise ValueError(f"Choose at least one picture: {', '.join(PANELS)}.")
    files: dict[str, bytes] = {"result.json": write_result(result).encode()}
    sentences: dict[str, str] = {}
    for drawing in drawings(result, panels):
        files[f"{drawing.name}.png"] = png(drawing.display, result)
        sentences[drawing.name] = drawing.display.sentence
        files[f"{drawing.name}.svg"] = svg(drawing.display, result)
    files["picture.png"] = png_bytes(result.photo)
    files["references.bib"] = references(result).encode()
    files["README.txt"] = _readme(result, sentences, link).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for name, data in files.items():
            # PNG is compressed already: once more is seconds of work on a large photo for nothing.
            kind = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            zip_file.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), data, kind)
    return archive.getvalue()


def command_line(result: Result) -> str:
    """The command that asks the model again and gives the same result.

    Where a method was given settings that have no flag, or a set was made by hand, the command
    takes them from result.json.
    """
    settings = result.settings
    start = ["python", "-m", "spare_demo", "compare"]
    names = []
    for label, record in result.methods.items():
        if (name := _name(label, record, settings.seed)) is None:
            return " ".join([*start, "--from", "result.json", "--again", "--out", "again"])
        names.append(name)
    flags = {
        "--model": result.model,
        "--system": result.system,
        "--bits": bits_of(result.revision),
        "--budget": result.budget,
        "--seed": settings.seed,
        "--max-new-tokens": settings.max_new_tokens,
        "--aspect": settings.aspect,
        "--positions": settings.positions,
        "--relevance-layer": settings.relevance.layer,
        "--relevance-text": settings.relevance.text,
        "--guidance-text": settings.relevance.guidance_text,
        "--out": "again",
    }
    # Files of earlier versions say no positions.
    words = [f"{flag}={value}" for flag, value in flags.items() if value is not None]
    if settings.together:
        words.append("--together")
    if not result.language_model:
        words.append("--without-language-model")
    # After "--", so that a question may begin with a dash.
    arguments = ["--", "picture.png", result.question]
    return " ".join(map(_quoted, [*start, *words, "--methods", *names, *arguments]))


def _quoted(word: str) -> str:
    """In double quotes, which shells of Unix and Windows read alike, unless one of them would read
    something inside; then as Unix does."""
    if re.fullmatch(r"[\w@=:./-]+", word):
        return word
    return shlex.quote(word) if re.search(r'["$`\\!%\n]', word) else f'"{word}"'


def _name(label: str, record: MethodRecord, seed: int) -> str | None:
    """What --methods calls this one, or None if that would make another method or label."""
    if record.name not in PRUNERS:
        return None
    method = record.method()
    name = name_of(method)
    same = list(choose((name,), seed).values()) == [method]
    return name if same and (label == name or label.startswith(f"{name} (")) else None


def _readme(result: Result, sentences: dict[str, str], link: str | None) -> str:
    titles = {UNPRUNED: "All tokens", **result.titles}
    lines = [f"  {titles[label]}: {answer.text}" for label, answer in result.answers.items()]
    answers = "\n".join(lines) or "  none: the model was loaded without its language model"
    captions = "\n\n".join(f"{name}: {sentence}" for name, sentence in sentences.items())
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    panels = " ".join(dict.fromkeys(name.partition("-")[0] for name in sentences))
    flag = f" --panels {panels}" if panels else ""
    link_text = f"\nThe same settings on the page:\n  {link}\n" if link else ""
    model = result.model
    local = model not in CATALOGUE and "/" not in model  # its path is nobody else's business
    where = f"There --model needs the path of the folder {model}.\n" if local else ""
    return (
        f"Question: {result.question or '(none)'}\n"
        f"Model: {result.model} {result.revision}\n"
        f"Answers:\n{answers}\n\n"
        f"Draw this again, without a model, from result.json (it holds the picture):\n"
        f"  python -m spare_demo compare --from result.json --out again{flag}\n"
        f"Ask the model again:\n"
        f"  {command_line(result)}\n{where}{link_text}\n"
        f"To cite the methods and this program: references.bib.\n"
        f"Made with {packages}.\n\n"
        f"{captions}\n"
    )
