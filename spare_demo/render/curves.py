"""What is lost, and what changes, against the number of tokens kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from spare_demo.render.axes import INK, PLOTLY_AXIS, PLOTLY_LAYOUT, Band, Curve, check_curves
from spare_demo.render.base import Rendered, colours_of, number, tokens_word

_BAND = "rgba(128,128,128,0.22)"
_EQUAL = 1e-9  # relative errors this close differ by rounding alone


def reconstruction_figure(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: Band,
    svd_bound: Sequence[float],
    budget: int,
) -> Rendered:
    """Relative error of rebuilding all tokens from the k kept ones, against k.

    Args:
        budgets: (m,) ascending numbers of tokens kept.
        series: method label -> (m,) relative errors; the first is drawn blue, the second vermilion.
            Where one is None there is a gap.
        random_band: (m,) mean, lowest and highest error of random picks.
        svd_bound: (m,) error of the best k directions, which no choice of k tokens can beat.
        budget: the budget set now, marked by a vertical line.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    check_curves(budgets, {**series, "SVD bound": svd_bound}, random_band)
    figure = _figure(budgets, series, random_band, budget, "relative error")
    figure.add_trace(_line("SVD bound", budgets, svd_bound, INK, "dash"))
    at = nearest_place(budgets, budget)
    return Rendered(
        figure,
        f"Relative error of rebuilding all tokens from {tokens_word(int(budgets[at]))}: "
        f"{_at(at, series, random_band)}. No choice can be below {number(float(svd_bound[at]))}, "
        f"the SVD bound.{_worse_than_random(budgets, at, budget, series, random_band[0])}",
    )


def kl_figure(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: Band,
    budget: int,
) -> Rendered:
    """How far the first word's distribution moved from the unpruned model's, against k.

    Arguments and what it raises as of `reconstruction_figure`; the values are KL(unpruned ||
    pruned) in nats.
    """
    check_curves(budgets, series, random_band)
    at = nearest_place(budgets, budget)
    return Rendered(
        _figure(budgets, series, random_band, budget, "KL (nats)"),
        "KL of the first word to the unpruned model, in nats, with "
        f"{tokens_word(int(budgets[at]))}: {_at(at, series, random_band)}. 0 means that nothing "
        "changed.",
    )


def _figure(
    budgets: Sequence[int], series: Mapping[str, Curve], random: Band, budget: int, value: str
) -> go.Figure:
    """The band and mean of random picks, and a line per method; k on a logarithmic axis."""
    mean, low, high = random
    band = go.Scatter(
        x=[*budgets, *budgets[::-1]],
        y=[*_plain(high), *_plain(low)[::-1]],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
    )
    traces = [band, _line("random", budgets, mean, INK, "dot")]
    for label, (r, g, b) in colours_of(series).items():
        traces.append(_line(label, budgets, series[label], f"rgb({r},{g},{b})", "solid"))
    return go.Figure(traces, _layout(budget, value))


def _line(name: str, budgets: Sequence[int], values: Curve, colour: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=list(budgets),
        y=_plain(values),
        name=name,
        mode="lines",
        line={"color": colour, "width": 2.5 if dash == "solid" else 1.5, "dash": dash},
        hovertemplate="%{y:.3f}",
    )


def _layout(budget: int, value: str) -> go.Layout:
    """Made at once: to update one that exists takes Plotly several times as long."""
    axis = PLOTLY_AXIS | {"tickcolor": INK, "ticks": "outside"}
    return go.Layout(
        **PLOTLY_LAYOUT,
        hovermode="x unified",
        margin={"l": 56, "r": 36, "t": 16, "b": 48},
        height=320,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis={
            **axis,
            "type": "log",
            "tickangle": 0,
            "tickvals": [2**e for e in range(12)],
            "title": {"text": "tokens kept (k)"},
        },
        yaxis={**axis, "rangemode": "tozero", "title": {"text": value}},
        shapes=[
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": budget,
                "x1": budget,
                "y0": 0,
                "y1": 1,
                "line": {"color": INK, "width": 1.5},
            }
        ],
    )


def nearest_place(budgets: Sequence[int], budget: int) -> int:
    """The place of the budget, or of the nearest one computed: no value is interpolated."""
    return min(range(len(budgets)), key=lambda index: abs(budgets[index] - budget))


def _at(place: int, series: Mapping[str, Curve], random: Band) -> str:
    """The numbers at one place, in words."""
    methods = "".join(
        f"{label} {number(float(value))}, "
        for label, curve in series.items()
        if (value := curve[place]) is not None
    )
    mean, low, high = (number(float(curve[place])) for curve in random)
    return f"{methods}random picks {mean} ({low} to {high})"


def _worse_than_random(
    budgets: Sequence[int],
    place: int,
    budget: int,
    series: Mapping[str, Curve],
    mean: Sequence[float],
) -> str:
    """A sentence that names the methods whose error is above the mean of random picks, or ""."""
    worse = [
        label
        for label, curve in series.items()
        if (error := curve[place]) is not None and float(error) - float(mean[place]) > _EQUAL
    ]
    if not worse:
        return ""
    names = "both" if len(worse) == len(series) == 2 else " and ".join(worse)
    where = "At this budget" if budgets[place] == budget else f"With {budgets[place]} tokens"
    return f" {where} {names} {'do' if len(worse) > 1 else 'does'} worse than random picks."


def _plain(values: Curve) -> list[float | None]:
    return [None if value is None else float(value) for value in values]
