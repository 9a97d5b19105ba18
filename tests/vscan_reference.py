"""VScan's vision stage in plain loops, and tokens to try it on."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from spare_demo import VisualTokens

Array = NDArray[np.float64]


def drawn(
    side: int, seed: int, views: int = 1, width: int = 6
) -> tuple[VisualTokens, Array, tuple[Array, Array]]:
    """side x side random tokens in each view, 2 heads: tokens, features, (early, late)."""
    g = torch.Generator().manual_seed(seed)
    n = views * side * side

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    features, early, late = draw(n, width), draw(2, n).softmax(dim=1), draw(2, n).softmax(dim=1)
    tokens = VisualTokens(
        features,
        view=None if views == 1 else torch.arange(n) // side**2,
        cls_attention=lambda block, joined=False: {6: early, -2: late}[block],
    )
    return tokens, features.numpy(), (early.numpy(), late.numpy())


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
