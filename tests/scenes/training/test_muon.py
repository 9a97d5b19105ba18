"""Muon against torch's own, which does the same in bfloat16."""

import pytest
import torch

from spare_demo.scenes.training.muon import Muon, near_orthogonal


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (48, 48)])
def test_an_update_is_near_orthogonal(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    update = near_orthogonal(matrix).double()
    # The same singular vectors, and singular values around 1.
    inner = left.T @ update @ right.T
    stretch = inner.diagonal()
    assert stretch.min() > 0.3 and stretch.max() < 1.5
    assert (inner - stretch.diag()).abs().max() < 1e-4


def test_no_gradient_gives_no_update_and_a_zero_one_no_nan():
    still, zero = torch.nn.Parameter(torch.ones(3, 4)), torch.nn.Parameter(torch.ones(3, 4))
    zero.grad = torch.zeros(3, 4)
    Muon([still, zero], lr=0.5).step()
    assert torch.equal(still, torch.ones(3, 4))
    assert torch.allclose(zero, torch.full((3, 4), 1 - 0.5 * 0.01))


def test_steps_equal_those_of_torch_but_for_its_bfloat16():
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(12, 40, generator=generator)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimisers = [
        Muon([ours], lr=0.01),
        torch.optim.Muon([theirs], lr=0.01, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(5):
        gradient = torch.randn(12, 40, generator=generator)
        for parameter, optimiser in zip((ours, theirs), optimisers, strict=True):
            parameter.grad = gradient.clone()
            optimiser.step()
    moved = (theirs - start).norm()
    assert (ours - theirs).norm() < 0.02 * moved
