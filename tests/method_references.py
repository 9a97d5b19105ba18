"""Independent float64 references for the methods of other papers, step by step in numpy.

As `references.py`: nothing is shared with `spare_demo`, nothing is fast, one view only, and ties
are whatever rounding makes of them. Each returns what the method's released code would, with its
own numbers (`dominant`, `ratio`, …) where that code knows no budget.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from references import projection_error

Array = NDArray[np.floating]
Rows = tuple[list[int], Array, Array]
"""Picked patches in the order picked, (r, w) rows before the projector, (r, n) sources."""


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / (np.sqrt(a @ a) * np.sqrt(b @ b)))


def divprune(x: Array, k: int) -> list[int]:
    """Second smallest entry of each column, then max-min, every distance from its definition."""
    n = len(x)
    distance = np.array([[1 - cosine(x[i], x[j]) for j in range(n)] for i in range(n)])
    picked = [int(np.argmax([np.sort(distance[:, i])[1] for i in range(n)]))]
    while len(picked) < k:
        value = [-np.inf if i in picked else min(distance[i, j] for j in picked) for i in range(n)]
        picked.append(int(np.argmax(value)))
    return picked


def dart_diversity(x: Array, k: int, pivots: int, order: int) -> list[int]:
    """Pivots by norm; each takes its share of the tokens with the lowest cosine to it."""
    n = len(x)
    length = [float((np.abs(row) ** order).sum() ** (1 / order)) for row in x]
    chosen = sorted(range(n), key=lambda i: -length[i])[: min(pivots, k)]
    result, candidates = list(chosen), [i for i in range(n) if i not in chosen]
    for turn, pivot in enumerate(chosen):
        share = (k - len(chosen)) // len(chosen) + (
            1 if turn < (k - len(chosen)) % len(chosen) else 0
        )
        taken = sorted(candidates, key=lambda i, p=pivot: cosine(x[i], x[p]))[:share]
        result += taken
        candidates = [i for i in candidates if i not in taken]
    return result


def zoo_prune(
    h: Array, x: Array, f: Callable[[Array], Array], u: Array, step: float, k: int
) -> list[int]:
    """u: (m, w) directions of any length. f: (w,) -> (d,)."""
    n = len(h)
    s = np.zeros(n)
    for i in range(n):
        for direction in u:
            shift = step * direction / np.sqrt(direction @ direction)
            moved = f(h[i] + shift) - f(h[i] - shift)
            s[i] += np.sqrt(moved @ moved) / (2 * step) / len(u)
    w = (s - s.min()) / (s.max() - s.min() + 1e-8)
    picked = [int(np.argmax(w))]
    while len(picked) < k:
        value = [
            -np.inf if i in picked else w[i] * min(1 - cosine(x[i], x[j]) for j in picked)
            for i in range(n)
        ]
        picked.append(int(np.argmax(value)))
    return picked


def leverage(x: Array, r: int) -> Array:
    """(n,) scores: each token's squared coordinates along r singular vectors of the features."""
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return np.array(
        [sum(u[i, j] ** 2 for j in range(min(r, len(s))) if s[j] > 0) for i in range(len(x))]
    )


def column_subset(x: Array, k: int) -> list[int]:
    """Every token is tried at every step, and the error left by least squares is compared."""
    picked: list[int] = []
    while len(picked) < k:
        open_ = [i for i in range(len(x)) if i not in picked]
        picked.append(min(open_, key=lambda i: projection_error(x, [*picked, i])))
    return picked


def outlier_ratio(values: Array) -> float:
    q1, q3 = np.percentile(values, 25), np.percentile(values, 75)
    return float((values > q3 + 1.5 * (q3 - q1)).mean())


def prumerge(h: Array, q_cls: Array, keys: Array, k_cls: Array, kept: list[int] | int) -> Rows:
    """kept: the kept patches in their order, or how many to keep by attention.

    q_cls, k_cls: (w,) of the class token, keys: (n, w), all heads side by side.
    """
    n, w = keys.shape
    scores = np.array([q_cls @ k_cls, *(q_cls @ key for key in keys)]) / np.sqrt(w)
    attention = (np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum())[1:]
    if isinstance(kept, int):
        kept = list(np.argsort(-attention)[:kept])
    rows, sources = [], []
    for i in kept:
        others = sorted(
            (j for j in range(n) if j != i), key=lambda j, i=i: -cosine(keys[i], keys[j])
        )
        row, source = h[i].copy(), np.zeros(n)
        source[i] = 1
        for j in others[:32]:
            row += attention[j] * h[j]
            source[j] += attention[j]
        rows.append(row)
        sources.append(source)
    extra, source = np.zeros_like(h[0]), np.zeros(n)
    for j in range(n):
        if j not in kept:
            extra += attention[j] * h[j]
            source[j] = attention[j]
    return [int(i) for i in kept], np.array([*rows, extra]), np.array([*sources, source])


def prumerge_plus_kept(attention: Array) -> list[int]:
    """The adaptive branch's patches: outliers by attention, then the grid's that are not kept."""
    n = len(attention)
    ratio = outlier_ratio(attention)
    kept = [int(i) for i in np.argsort(-attention)[: round(n * ratio)]]
    stride = int(int(1 / ratio) / 3)
    return kept + [i for i in range(0, n - 1, stride) if i not in kept]


def visionzip(
    h: Array, h_cls: Array, attention: Array, keys: Array, dominant: int, contextual: int
) -> Rows:
    """attention: (h, n), class token to patch. keys: (h, n, c). dominant counts the class token."""
    score, metric = attention.sum(axis=0), keys.mean(axis=0)
    n = len(score)
    top = [int(i) for i in np.argsort(-score)[: dominant - 1]]
    rest = [i for i in range(n) if i not in top]
    stride = max(1, len(rest) // contextual)
    targets = rest[::stride][:contextual]
    groups: dict[int, list[int]] = {t: [] for t in targets}
    for i in rest:
        if i not in targets:
            groups[max(targets, key=lambda t, i=i: cosine(metric[i], metric[t]))].append(i)
    rows, sources = [h_cls], [np.zeros(n)]
    for i in sorted(top):
        rows.append(h[i])
        sources.append(np.eye(n)[i])
    for target, group in groups.items():
        mean = np.mean([h[i] for i in group], axis=0) if group else 0 * h[target]
        rows.append(h[target] + mean)
        sources.append(np.eye(n)[target] + sum(np.eye(n)[i] / len(group) for i in group))
    return top + targets, np.array(rows), np.array(sources)


def trim(h: Array, image: Array, text: Array, kept: int | None, sign: float) -> Rows:
    """kept: how many besides the mean token; None for as many as stand out, at least one."""
    s = np.array([sign * (e @ text) for e in image])
    p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
    n = len(s)
    count = max(1, round(n * outlier_ratio(p))) if kept is None else kept
    picked = [int(i) for i in np.argsort(-p)[:count]]
    dropped = [i for i in range(n) if i not in picked]
    rows = [h[i] for i in sorted(picked)] + [np.mean([h[i] for i in dropped], axis=0)]
    sources = [np.eye(n)[i] for i in sorted(picked)]
    sources.append(np.array([1 / len(dropped) if i in dropped else 0 for i in range(n)]))
    return picked, np.array(rows), np.array(sources)


def scope(h: Array, attention: Array, alpha: float, k: int) -> list[int]:
    """attention: (h, n), class token to patch. Every gain is summed anew at every step."""
    n = len(h)
    picked: list[int] = []
    while len(picked) < k:
        value = []
        for i in range(n):
            gain = 0.0
            for j in range(n):
                covered = max([0.0, *(cosine(h[j], h[p]) for p in picked)])
                gain += max(0.0, cosine(h[j], h[i]) - covered)
            value.append(-np.inf if i in picked else attention[:, i].sum() ** alpha * gain)
        picked.append(int(np.argmax(value)))
    return picked


def vispruner(h: Array, attention: Array, important: int, k: int) -> list[int]:
    """attention: (h, n), class token to patch."""
    a = attention.mean(axis=0)
    ranked = sorted(range(len(h)), key=lambda i: -a[i])
    left = ranked[important:]
    while (too_many := len(left) - (k - important)) > 0:
        even = [i for place, i in enumerate(left) if place % 2 == 0]
        odd = [i for place, i in enumerate(left) if place % 2 == 1]
        alike = {i: max((cosine(h[i], h[j]) for j in odd), default=0.0) for i in even}
        left = sorted(even, key=lambda i: -alike[i])[min(8, too_many) :] + odd
    return ranked[:important] + left


def hiprune(early: Array, late: Array, alpha: float, k: int, columns: int) -> set[int]:
    """early, late: (n,) attention that each patch gets. The released code keeps no order."""
    n = len(early)
    chosen: set[int] = set()
    for anchor in sorted(range(n), key=lambda i: -early[i])[: round(k * alpha / 5)]:
        for step in (0, -1, 1, -columns, columns):
            chosen.add(min(max(anchor + step, 0), n - 1))
    for i in sorted(range(n), key=lambda i: -late[i]):
        if len(chosen) < k:
            chosen.add(i)
    return chosen


def mmtok(words: Array, x: Array, h: Array, alpha: float, temperature: float, k: int) -> list[int]:
    """Every softmax and every gain written out."""
    n = len(x)
    table = []
    for rows, others, t, share in ((words, x, temperature, 1.0), (h, h, 0.2, alpha)):
        for row in rows:
            weight = [np.exp((cosine(row, other) - 1) / t) for other in others]
            table.append([share * w / sum(weight) / len(rows) for w in weight])
    picked: list[int] = []
    while len(picked) < k:
        gain = []
        for i in range(n):
            more = [max(0.0, row[i] - max([0.0, *(row[p] for p in picked)])) for row in table]
            gain.append(-np.inf if i in picked else sum(more))
        picked.append(int(np.argmax(gain)))
    return picked


def vscan(x: Array, early: Array, late: Array, side: int, k: int) -> tuple[list[int], Array, Array]:
    """Picks, rows in raster order, and which tokens are in each, of one view cut 4 x 4."""
    n, size = side * side, side // 4
    shallow = [sum(head[i] for head in early) / len(early) for i in range(n)]
    deep = [sum(head[i] for head in late) / len(late) for i in range(n)]
    local: list[int] = []
    for top in range(0, side, size):
        for left in range(0, side, size):
            inside = [
                row * side + column
                for row in range(top, top + size)
                for column in range(left, left + size)
            ]
            local += sorted(inside, key=lambda i: -shallow[i])[: k // 2 // 16]
    zeroed = [0.0 if i in local else deep[i] for i in range(n)]
    picks = local + sorted(range(n), key=lambda i: -zeroed[i])[: k - len(local)]
    kept = sorted(picks)
    groups = {i: [i] for i in kept}
    for j in range(n):
        if j not in groups:
            cosine = [x[i] @ x[j] / np.sqrt((x[i] @ x[i]) * (x[j] @ x[j])) for i in kept]
            groups[kept[int(np.argmax(cosine))]].append(j)
    rows = np.array([sum(x[j] for j in groups[i]) / len(groups[i]) for i in kept])
    parts = np.array([[float(j in groups[i]) for j in range(n)] for i in kept])
    return picks, rows, parts
