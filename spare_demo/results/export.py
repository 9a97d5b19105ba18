"""A comparison as files: its pictures, its curve and `result.json`, in one folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from PIL import Image

from spare_demo.comparison.result import Result
from spare_demo.render.png import png_bytes
from spare_demo.results.drawings import USUAL, drawings, error_curve
from spare_demo.results.io import write_result


def write(
    result: Result,
    folder: Path,
    panels: Collection[str] = USUAL,
    text: str | None = None,
) -> list[str]:
    """Write everything into `folder`, which is made if need be.

    text: of result.json where the result was read from one; None makes it.

    Returns the names of the files: the pictures of `drawings.drawings`, the curve to hover over in
    reconstruction.html, and result.json. Raises OSError if the folder cannot be written,
    ValueError for a panel that is not one of `drawings.PANELS`.
    """
    files = {f"{d.name}.png": png(d.display.image) for d in drawings(result, panels)}
    if "reconstruction" in panels:
        files["reconstruction.html"] = _curve_page(result).encode()
    files["result.json"] = (text or write_result(result)).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return list(files)


def png(image: Image.Image) -> bytes:
    """PNG at 300 dots an inch, at which a picture is about as wide as a column of a paper."""
    return png_bytes(image, optimize=True, dpi=(300, 300))


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
        f'<body style="font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto">'
        f"{plot}<p>{chart.sentence}</p></body></html>\n"
    )
