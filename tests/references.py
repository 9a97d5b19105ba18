"""Independent float64 references for the pruning methods: the papers' lines, one by one, in numpy.

Nothing here is shared with `spare_demo`, nothing is fast, and ties are whatever rounding makes
of them: tests use data without ties, or with answers known by hand.
"""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.floating]


def as_array(x: torch.Tensor) -> Array:
    """The values of a tensor of any float dtype, exactly, in float64."""
    return x.double().numpy()


def cosines(clip_image: Array, clip_text: Array) -> Array:
    """(n, c), (m, c) -> (n, m), one pair at a time."""
    return np.array(
        [[e @ t / (np.sqrt(e @ e) * np.sqrt(t @ t)) for t in clip_text] for e in clip_image]
    )


def token_cosines(tokens: Any) -> Array:
    """(n, m) of VisualTokens with text."""
    return cosines(as_array(tokens.clip_image), as_array(tokens.clip_text))


def softplus_weight(a: Array) -> Array:
    """SPARE, Algorithm 1, lines 3-4, with the population's standard deviation."""
    z = (a - a.mean()) / np.sqrt(((a - a.mean()) ** 2).mean())
    return np.log(1 + np.exp(z))


def minmax_weight(a: Array) -> Array:
    """CDPruner's released normalisation."""
    return (a - a.min() + 1e-6) / (a.max() - a.min())


def spare(x: Array, rho: Array, k: int) -> list[int]:
    """SPARE, Algorithm 1, lines 5-13: greedy by modified Gram-Schmidt, residuals by subtraction."""
    r = (x * x).sum(axis=1)
    basis: list[Array] = []
    picked: list[int] = []
    for _ in range(k):
        score = r * rho
        score[picked] = -np.inf
        p = int(np.argmax(score))
        picked.append(p)
        v = x[p].copy()
        for q in basis:
            v -= (q @ v) * q
        q = v / np.sqrt(v @ v)
        basis.append(q)
        r = r - (x @ q) ** 2
    return picked


def greedy_to_the_end(x: Array, merit: Array, k: int, dependent: float) -> list[int]:
    """`spare` with merit rho ||x||^2 and a rule for features that run out, in extended precision.

    The residual rows are kept, not their squared lengths by subtraction, which is all rounding
    once a sine is near 1e-8. A token with a sine of `dependent` or less to the picked ones is
    picked only when no other is left, highest merit first.
    """
    rows = x.astype(np.longdouble)
    rows = rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    picked: list[int] = []
    for _ in range(k):
        sine = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        score = np.where(sine > dependent, merit * sine**2, -1 / merit)
        score[picked] = -np.inf
        p = int(np.argmax(score))
        picked.append(p)
        if sine[p] > dependent:
            q = rows[p] / sine[p]
            rows -= (rows @ q)[:, None] * q
    return picked


def cdpruner(x: Array, w: Array, k: int) -> list[int]:
    """CDPruner as released: incremental Cholesky on w_i cos_ij w_j, without its half precision."""
    unit = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    kernel = w[:, None] * (unit @ unit.T) * w
    d = np.diag(kernel).copy()
    rows: list[Array] = []
    picked: list[int] = []
    for _ in range(k):
        j = int(np.argmax(d))
        picked.append(j)
        e = kernel[j].copy()
        for c in rows:
            e -= c[j] * c
        e /= np.sqrt(d[j])
        rows.append(e)
        d = d - e * e
        d[j] = -np.inf
    return picked


def greedy_log_determinant(kernel: Array, k: int) -> list[int]:
    """Greedy MAP of a determinantal point process from its definition: try every token."""
    picked: list[int] = []
    for _ in range(k):
        value = [
            -np.inf
            if i in picked
            else np.linalg.slogdet(kernel[np.ix_([*picked, i], [*picked, i])])[1]
            for i in range(len(kernel))
        ]
        picked.append(int(np.argmax(value)))
    return picked


def projection_error(x: Array, kept: list[int]) -> float:
    """||X - X P||_F by least squares onto the kept rows."""
    coefficients = np.linalg.lstsq(x[kept].T, x.T, rcond=None)[0]
    return float(np.sqrt(((x.T - x[kept].T @ coefficients) ** 2).sum()))


def mean_jaccard(n: int, ka: int, kb: int) -> float:
    """Average Jaccard index of {0..ka-1} with every set of kb among n."""
    a = set(range(ka))
    values = [len(a & set(b)) / len(a | set(b)) for b in itertools.combinations(range(n), kb)]
    return sum(values) / len(values)


def gradients(width: int, height: int) -> Image.Image:
    """A photo that tells where: red rises along x, green along y, each from 0 to 255."""
    x = (np.arange(width) + 0.5) * 255 / width
    y = (np.arange(height) + 0.5) * 255 / height
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.rint(x)[None, :]
    pixels[..., 1] = np.rint(y)[:, None]
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The file that a picture is saved as."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
