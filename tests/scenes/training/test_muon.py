"""Muon against torch's own, which does the same in bfloat16."""

import pytest
import torch

from spare_demo.scenes.training.muon import Muon, near_orthogonal


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (48, 48)])
def test_an_update_is_near_orthogonal(shape):
    matrices = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    matrices[1] *= 30
    left, _, right = torch.linalg.svd(matrices.double(), full_matrices=False)
    updates = near_orthogonal(matrices).double()
    # The same singular vectors, and singular values around 1.
    for inner in left.mT @ updates @ right.mT:
        stretch = inner.diagonal()
        assert stretch.min() > 0.3 and stretch.max() < 1.5
        assert (inner - stretch.diag()).abs().max() < 1e-4


def test_no_gradient_gives_no_update_and_a_zero_one_no_nan():
    still, zero = torch.nn.Parameter(torch.ones(3, 4)), torch.nn.Parameter(torch.ones(3, 4))
    zero.grad = torch.zeros(3, 4)
    Muon([still, zero], lr=0.5).step()
    assert torch.equal(still, torch.ones(3, 4))
    assert torch.allclose(zero, torch.full((3, 4), 1 - 0.5 * 0.01))


def test_matrices_of_one_shape_are_updated_each_by_itself():
    generator = torch.Generator().manual_seed(2)
    starts = [torch.randn(6, 4, generator=generator) for _ in range(3)]
    gradients = [torch.randn(6, 4, generator=generator) for _ in range(3)]
    together = [torch.nn.Parameter(start.clone()) for start in starts]
    alone = [torch.nn.Parameter(start.clone()) for start in starts]
    optimisers = [Muon(together, lr=0.1), *(Muon([matrix], lr=0.1) for matrix in alone)]
    for _ in range(3):
        for matrix, gradient in zip((*together, *alone), 2 * gradients, strict=True):
            matrix.grad = gradient.clone()
        for optimiser in optimisers:
            optimiser.step()
    for ours, expected in zip(together, alone, strict=True):
        assert torch.allclose(ours, expected, atol=1e-6)


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
