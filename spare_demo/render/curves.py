"""What is lost, and what changes, against the number of tokens kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from spare_demo.render.base import BLUE, VERMILION, Colour, Rendered, number, tokens_word

# Read on a white and on a black page alike; the ground stays the page's own.
_INK = "#808080"
_GRID = "rgba(128,128,128,0.25)"
_BAND = "rgba(128,128,128,0.22)"
# Further methods after A and B, again Okabe and Ito's, in an order that keeps neighbours apart.
_MORE: tuple[Colour, ...] = ((0x00, 0x9E, 0x73), (0xCC, 0x79, 0xA7), (0xE6, 0x9F, 0x00))

Curve = Sequence[float]


def reconstruction_figure(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: tuple[Curve, Curve, Curve],
    svd_bound: Curve,
    budget: int,
    log_x: bool = True,
) -> Rendered:
    """Relative error of rebuilding all tokens from the k kept ones, against k.

    Args:
        budgets: (m,) ascending numbers of tokens kept.
        series: method label -> (m,) relative errors; the first is drawn blue, the second vermilion.
        random_band: (m,) mean, lowest and highest error of random picks.
        svd_bound: (m,) error of the best k directions, which no choice of k tokens can beat.
        budget: the budget set now, marked by a vertical line.
        log_x: whether k is on a logarithmic axis.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    ks = [int(k) for k in budgets]
    curves = {**series, "SVD bound": svd_bound}
    for name, curve in [*curves.items(), *[("random", curve) for curve in random_band]]:
        if not ks or len(curve) != len(ks):
            raise ValueError(f"{name}: {len(curve)} errors for {len(ks)} budgets.")
    mean, low, high = (_plain(curve) for curve in random_band)

    figure = go.Figure()
    figure.add_trace(_band(ks, low, high))
    figure.add_trace(_line("random", ks, mean, _INK, "dot"))
    for index, (label, errors) in enumerate(series.items()):
        figure.add_trace(_line(label, ks, _plain(errors), _colour(index), "solid"))
    figure.add_trace(_line("SVD bound", ks, _plain(svd_bound), _INK, "dash"))
    _style(figure, budget, log_x, "relative error")
    return Rendered(figure, _sentence(ks, series, (mean, low, high), _plain(svd_bound), budget))


def kl_figure(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: tuple[Curve, Curve, Curve],
    budget: int,
    points: Mapping[str, tuple[int, float]] | None = None,
    log_x: bool = True,
) -> Rendered:
    """How far the first word's distribution moved from the unpruned model's, against k.

    Args:
        budgets: (m,) ascending numbers of tokens kept.
        series: method label -> (m,) KL(unpruned || pruned) in nats; colours as in the other curve.
        random_band: (m,) mean, lowest and highest of random picks.
        budget: the budget set now, marked by a vertical line.
        points: (k, KL) of sets made by hand, by label.
        log_x: whether k is on a logarithmic axis.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    ks = [int(k) for k in budgets]
    for name, curve in [*series.items(), *[("random", curve) for curve in random_band]]:
        if not ks or len(curve) != len(ks):
            raise ValueError(f"{name}: {len(curve)} values for {len(ks)} budgets.")
    mean, low, high = (_plain(curve) for curve in random_band)
    figure = go.Figure()
    figure.add_trace(_band(ks, low, high))
    figure.add_trace(_line("random", ks, mean, _INK, "dot"))
    for index, (label, values) in enumerate(series.items()):
        figure.add_trace(_line(label, ks, _plain(values), _colour(index), "solid"))
    for index, (label, (k, kl)) in enumerate((points or {}).items()):
        mark = {"color": _colour(len(series) + index), "size": 9, "symbol": "diamond"}
        figure.add_trace(go.Scatter(x=[k], y=[kl], name=label, mode="markers", marker=mark))
    _style(figure, budget, log_x, "KL to the unpruned model (nats)")
    at = min(range(len(ks)), key=lambda index: abs(ks[index] - budget))
    named = ", ".join(f"{label} {number(float(kl[at]))}" for label, kl in series.items())
    spread = " ".join((number(mean[at]), f"({number(low[at])} to {number(high[at])})"))
    return Rendered(
        figure,
        f"KL of the first word to the unpruned model, in nats, with {tokens_word(ks[at])}: "
        f"{named}, random picks {spread}. 0 means that nothing changed.",
    )


def _colour(index: int) -> str:
    palette = (BLUE, VERMILION, *_MORE)
    r, g, b = palette[index % len(palette)]
    return f"rgb({r},{g},{b})"


def _band(x: list[int], low: list[float], high: list[float]) -> go.Scatter:
    return go.Scatter(
        x=x + x[::-1],
        y=high + low[::-1],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
    )


def _line(name: str, x: list[int], y: list[float], colour: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        line={"color": colour, "width": 2.5 if dash == "solid" else 1.5, "dash": dash},
        hovertemplate="%{y:.3f}",
    )


def _style(figure: go.Figure, budget: int, log_x: bool, value: str) -> None:
    axis = {
        "gridcolor": _GRID,
        "linecolor": _INK,
        "tickcolor": _INK,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "automargin": True,
    }
    powers = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    ticks = {"type": "log", "tickangle": 0, "tickvals": powers} if log_x else {}
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _INK, "size": 13, "family": "system-ui, sans-serif"},
        hovermode="x unified",
        hoverlabel={"bgcolor": "#ffffff", "font": {"color": "#20242a"}},
        modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": _INK},
        margin={"l": 56, "r": 36, "t": 16, "b": 48},
        height=320,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis={**axis, **ticks, "title": {"text": "tokens kept (k)"}},
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
                "line": {"color": _INK, "width": 1.5},
            }
        ],
    )


def _sentence(
    ks: list[int],
    series: Mapping[str, Curve],
    random_band: tuple[list[float], list[float], list[float]],
    bound: list[float],
    budget: int,
) -> str:
    """Numbers at the budget, or at the nearest one computed: none is interpolated."""
    at = min(range(len(ks)), key=lambda index: abs(ks[index] - budget))
    mean, low, high = (number(curve[at]) for curve in random_band)
    methods = ", ".join(f"{label} {number(float(errors[at]))}" for label, errors in series.items())
    return (
        f"Relative error of rebuilding all tokens from {tokens_word(ks[at])}: {methods}, "
        f"random picks {mean} ({low} to {high}). No choice can be below {number(bound[at])}, "
        "the SVD bound."
    )


def _plain(curve: Curve) -> list[float]:
    return [float(value) for value in curve]
