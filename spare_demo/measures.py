"""What a selection keeps, loses and costs: reconstruction, overlap, KL.

Reconstruction errors are in float64, as ||X - X P||_F / ||X||_F with P the projector on the row
span of the kept rows of X: Frobenius norms, not squared. The numerator is the natural reading of
SPARE's Table 6 (arXiv 2606.18681), which does not define it.

Features that are no matrix, indices and budgets that do not fit, no seeds, and logits of two shapes
raise ValueError.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.tokens import as_indices
from spare_demo.tokens.arrays import FloatArray
from spare_demo.tokens.checks import Indices, check_matrix, check_tensor

# A kept row this small, in norm, against its own length once the span of the rows before it is
# taken away adds rounding, not a direction.
DEPENDENT = 1e-10


def compact(features: Tensor) -> Tensor:
    """(n, d) -> (n, min(n, d)) float64 with the same inner products between rows.

    Every measure of this module that takes features gives the same answer for these. They all
    do this step themselves; doing it once before several calls saves the time of the others.
    """
    check_matrix("features", features, "(n, d)")
    x = features.detach().double()
    if x.shape[1] <= x.shape[0]:
        return x
    return torch.linalg.qr(x.T, mode="r").R.T


def leftover_share(features: Tensor, kept: Indices) -> Tensor:
    """(n,) share of each token's squared norm that the kept tokens cannot reconstruct, 0 to 1.

    This is also the novelty u of the greedy methods: the squared sine of the angle between the
    token and the span of `kept`. Nothing kept: 1. A zero token and a kept one have nothing left
    over: 0, whatever rounding leaves of it.
    """
    x = compact(features)
    kept = _check_indices(kept, len(x))
    total = x.square().sum(dim=1)
    left = _deflate(x, x, kept).square().sum(dim=1)
    left[kept] = 0
    return torch.where(total > 0, left / total, 0.0).clamp(0, 1)


def reconstruction_error(features: Tensor, kept: Indices) -> float:
    """||X - X P||_F / ||X||_F for the kept tokens.

    features: (n, d). kept: (k,) indices in any order; repeats and none at all are allowed.
    """
    check_matrix("features", features, "(n, d)")
    kept = _check_indices(kept, len(features))
    if len(kept.unique()) == len(features):  # then nothing is left, which takes long to work out
        return 0.0
    return float(reconstruction_curve(features, kept, [len(kept)])[0])


def merged_error(features: Tensor, rows: Tensor) -> float:
    """||X - X P||_F / ||X||_F, P the projector on the span of rows that need not be rows of X.

    features: (n, d). rows: (r, d), what a method that merges gives to the language model.
    """
    check_matrix("features", features, "(n, d)")
    check_matrix("rows", rows, "(r, d)")
    if rows.shape[1] != features.shape[1]:
        raise ValueError(
            f"rows is {rows.shape[1]} wide but features is {features.shape[1]} wide. Pass both as "
            "the language model gets them."
        )
    x, rows = features.detach().double(), rows.detach().double()
    left = _take_out(x, rows, torch.linalg.vector_norm(rows, dim=1))
    return float(_relative(torch.linalg.vector_norm(left), x))


def reconstruction_curve(features: Tensor, order: Indices, budgets: Sequence[int]) -> Tensor:
    """The reconstruction error of the first k of `order`, for every k of `budgets`, in one pass.

    features: (n, d). order: (>= max(budgets),) indices in the order picked; for a nested method
    its selection for the largest budget. budgets: any order, 0 allowed.
    Returns (len(budgets),) float64 on the CPU.
    """
    x = compact(features)
    picks = _check_indices(order, len(x))
    budgets = [operator.index(k) for k in budgets]  # of a tensor, each would be its own key
    ascending = sorted(set(budgets))
    if ascending and not 0 <= ascending[0] <= ascending[-1] <= len(picks):
        raise ValueError(
            f"Budgets {ascending[0]} to {ascending[-1]} do not fit an order of {len(picks)} picks. "
            f"Choose budgets from 0 to {len(picks)}, or select with a larger budget."
        )
    error = _errors_by_one_qr(x, picks, ascending) if len(ascending) > 1 else None
    if error is None:
        error, residual, done = {}, x, 0
        for k in ascending:
            residual, done = _deflate(residual, x, picks[done:k]), k
            error[k] = float(torch.linalg.vector_norm(residual))
    return _relative(
        torch.tensor([error[k] for k in budgets], dtype=torch.float64, device="cpu"), x
    )


def singular_squares(features: Tensor) -> Tensor:
    """(min(n, d),) squared singular values of the features, ascending, float64 on the CPU."""
    x = compact(features)
    gram = x @ x.T if len(x) <= x.shape[1] else x.T @ x
    return torch.linalg.eigvalsh(gram).clamp_min(0).cpu()


def rank(squares: Tensor) -> int:
    """The rank of features from their `singular_squares`, up to the rounding of float32.

    Features come in float32 at best: what is smaller than its rounding of the largest value is
    noise, not a direction.
    """
    rounding = torch.finfo(torch.float32).eps
    return int((squares > rounding**2 * squares[-1]).sum())


def svd_bound(squares: Tensor, budgets: Sequence[int]) -> Tensor:
    """The smallest error any k directions can leave (Eckart-Young), for every k of `budgets`.

    No choice of k tokens gets below it. Returns (len(budgets),) float64 on the CPU.

    squares: the features' `singular_squares`.
    """
    check_tensor("squares", squares, "(m,)")
    if min(budgets, default=0) < 0:
        raise ValueError(f"A budget of {min(budgets)} is not possible. Choose budgets from 0 on.")
    # What rounding makes of zero would leave a bound above the error of tokens that span all.
    rounding = len(squares) * torch.finfo(squares.dtype).eps * squares[-1:]
    left = squares.where(squares > rounding, 0.0)
    tail = torch.cat([left.cumsum(0).flip(0), squares.new_zeros(1)])  # (min(n, d) + 1,)
    picks = [min(k, len(squares)) for k in budgets]
    return _relative(tail[picks].sqrt(), squares.sqrt())


RANDOM_SEEDS = tuple(range(8))
"""The random control of the curves: one draw says little, eight show the spread."""

_CURVE_BUDGETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)


def curve_budgets(n: int) -> tuple[int, ...]:
    """The budgets at which curves are drawn: dense where few tokens are kept, and n itself."""
    return (*(k for k in _CURVE_BUDGETS if k < n), n)


@dataclass(frozen=True, eq=False)
class Spread:
    """A measure over several seeds: mean, lowest and highest, each (len(budgets),) float64."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


def random_spread(features: Tensor, budgets: Sequence[int], seeds: Sequence[int]) -> Spread:
    """Reconstruction errors of random tokens: the permutation of each seed, as the method
    `random` draws it for a picture of one view.
    """
    if not seeds:
        raise ValueError("No seeds were given. Pass at least one whole number.")
    x = compact(features)
    curves = []
    for seed in seeds:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed), device="cpu")
        curves.append(reconstruction_curve(x, order, budgets))
    stack = torch.stack(curves)
    return Spread(stack.mean(dim=0), stack.amin(dim=0), stack.amax(dim=0))


def jaccard(a: Indices, b: Indices, n: int) -> float:
    """Tokens that two sets of distinct indices into n tokens share, over those that either has.

    Two empty sets: 1.
    """
    set_a, set_b = set(_check_indices(a, n).tolist()), set(_check_indices(b, n).tolist())
    union = len(set_a | set_b)
    return len(set_a & set_b) / union if union else 1.0


def expected_jaccard(n: int, ka: int, kb: int) -> float:
    """The mean Jaccard index of two independent random sets of ka and kb among n tokens.

    Exact: the number b in common is hypergeometric, and b / (ka + kb - b) is averaged over it.
    (The ratio of the expectations, a common shortcut, is lower: Jensen.)
    """
    if not (0 <= ka <= n and 0 <= kb <= n):
        raise ValueError(
            f"Sets of {ka} and {kb} do not fit {n} tokens. Choose sizes from 0 to {n}."
        )
    if ka + kb == 0:
        return 1.0
    ways = math.comb(n, kb)
    return sum(
        math.comb(ka, b) * math.comb(n - ka, kb - b) / ways * (b / (ka + kb - b))
        for b in range(max(0, ka + kb - n), min(ka, kb) + 1)
    )


def chance_above(a: Tensor, b: Tensor) -> float:
    """The chance that one of `a` exceeds one of `b`, ties half: the area under the ROC curve.

    a, b: (n,), (m,). NaN where either is empty.
    """
    check_tensor("a", a, "(n,)")
    check_tensor("b", b, "(m,)")
    higher = (a[:, None] > b).double() + (a[:, None] == b).double() / 2
    return float(higher.mean())


def kl_divergence(logits_p: Tensor, logits_q: Tensor) -> Tensor:
    """KL(p || q) in nats over the last dimension, float64: (..., vocabulary) -> (...).

    p is the model whose answer counts, usually the unpruned one. A word of probability 0 under p
    adds nothing; one that only q excludes makes the divergence infinite.
    """
    check_tensor("logits_p", logits_p, "(…, vocabulary)")
    check_tensor("logits_q", logits_q, "(…, vocabulary)")
    if logits_p.shape != logits_q.shape:
        raise ValueError(
            f"Logits of shapes {tuple(logits_p.shape)} and {tuple(logits_q.shape)} cannot be "
            "compared. Pass the same positions of the same vocabulary."
        )
    log_p = logits_p.detach().double().log_softmax(dim=-1)
    log_q = logits_q.detach().double().log_softmax(dim=-1)
    p = log_p.exp()
    terms = torch.where(p == 0, 0.0, p * (log_p - log_q))
    return terms.sum(dim=-1).clamp_min(0)


def _errors_by_one_qr(x: Tensor, picks: Tensor, budgets: Sequence[int]) -> dict[int, float] | None:
    """The error for each budget, from one QR of all rows with the picks first.

    With R of the rows in that order, the squared error of the first k picks is the squared norm of
    R's rows from k on. None where a pick depends on those before it: a QR then invents a direction.
    """
    others = picks.new_ones(len(x), dtype=torch.bool)
    others[picks] = False
    rows = torch.cat([picks, others.nonzero().flatten()]).to(x.device)
    if len(rows) != len(x):  # a pick more than once
        return None
    r = torch.linalg.qr(x[rows].T, mode="r").R
    count = min(len(picks), len(r))
    lengths = torch.linalg.vector_norm(x[rows[:count]], dim=1)
    if bool((r.diagonal()[:count].abs() <= DEPENDENT * lengths).any()):
        return None
    left = r.square().sum(dim=1).flip(0).cumsum(0).flip(0).sqrt().tolist()
    return {k: left[k] if k < len(left) else 0.0 for k in budgets}


def _deflate(residual: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """Take the span of some rows of x out of what is left of all rows.

    residual: (n, d), the rows of x outside the span of the rows taken out before.
    rows: (m,) indices. Blockwise modified Gram-Schmidt.
    """
    rows = rows.to(x.device)  # a mask on the GPU picks from nothing on the CPU
    return _take_out(residual, residual[rows], torch.linalg.vector_norm(x[rows], dim=1))


def _take_out(residual: Tensor, block: Tensor, length: Tensor) -> Tensor:
    """Take the span of the rows of a block, (m, d), out of other rows, (n, d).

    length: (m,), of the block's rows before anything was taken out of them. Directions by QR, or by
    SVD where rows depend on each other, since a QR would then invent directions.
    """
    block = block[length > 0] / length[length > 0, None]
    basis, triangle = torch.linalg.qr(block.T)
    basis = basis.T  # (r, d) orthonormal
    if len(block) > len(basis) or bool((triangle.diagonal().abs() <= DEPENDENT).any()):
        _, sigma, directions = torch.linalg.svd(block, full_matrices=False)
        basis = directions[sigma > DEPENDENT]
    return residual - (residual @ basis.T) @ basis


def _check_indices(indices: Indices, n: int) -> Tensor:
    indices = as_indices(indices)
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n:
        raise ValueError(f"A patch index is out of range. Use 0 to {n - 1}, one per visual token.")
    return indices


def _relative(error: Tensor, x: Tensor) -> Tensor:
    norm = float(torch.linalg.vector_norm(x))
    return error / norm if norm > 0 else error
