"""Which optimiser is taken; Muon: its polar factor against SVD, the length of a step, Adam for the rest."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from scipy.linalg import polar
from torch import nn

from trigpoint.core.config.tree import TrainConfig
from trigpoint.learning.training.optimiser import LIKE_ADAM, Muon, optimiser_of, orthogonal


def with_gradient(*shape: int, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    parameter = nn.Parameter(torch.randn(shape, generator=generator))
    parameter.grad = torch.randn(shape, generator=generator)
    return parameter


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("muon", Muon)])
def test_a_training_gets_the_optimiser_of_its_settings(
    name: Literal["adam", "muon"], kind: type[torch.optim.Optimizer]
) -> None:
    settings = TrainConfig(optimiser=name, learning_rate=0.3, beta2=0.9, weight_decay=0.01)
    found = optimiser_of(settings, [with_gradient(4, 3, 3, 3), with_gradient(4)])
    assert type(found) is kind
    for group in found.param_groups:
        assert (group["lr"], group["betas"], group["weight_decay"]) == (0.3, (0.9, 0.9), 0.01)


@pytest.mark.parametrize("shape", [(16, 27), (40, 12), (20, 20), (1, 9)])
def test_orthogonal_is_near_the_polar_factor(shape: tuple[int, int]) -> None:
    """Each singular value comes near one, and no singular vector turns."""
    matrices = list(torch.randn(3, *shape, generator=torch.Generator().manual_seed(1)).double())
    for before, after in zip(matrices, orthogonal(matrices), strict=True):
        nearest, _ = polar(before.numpy())
        left, _, right = torch.linalg.svd(before, full_matrices=False)
        inside = left.T @ after @ right.T
        values = inside.diagonal()
        assert values.min() > 0.5
        assert values.max() < 1.3
        assert torch.allclose(inside, torch.diag(values), atol=1e-8)
        assert np.linalg.norm(after.numpy() - nearest) < 0.35 * np.linalg.norm(nearest)


def test_the_length_of_the_gradient_does_not_matter() -> None:
    matrix = torch.randn(8, 30, generator=torch.Generator().manual_seed(2))
    (large,), (small,) = orthogonal([1e6 * matrix]), orthogonal([1e-6 * matrix])
    torch.testing.assert_close(large, small, atol=1e-4, rtol=0)
    (nothing,) = orthogonal([torch.zeros(4, 9)])
    assert torch.equal(nothing, torch.zeros(4, 9))


@pytest.mark.parametrize("shape", [(48, 32, 3, 3), (11, 64, 1, 1), (16, 3, 3, 3)])
def test_a_step_is_as_long_as_one_of_adam(shape: tuple[int, ...]) -> None:
    kernel = with_gradient(*shape)
    before = kernel.detach().clone()
    Muon([kernel], lr=0.01).step()
    moved = (kernel.detach() - before).square().mean().sqrt().item()
    assert moved == pytest.approx(LIKE_ADAM * 0.01, rel=0.3)


def test_kernels_do_not_mix() -> None:
    """Of one shape, of shapes that are iterated together, of others."""
    shapes = [(6, 4, 3, 3), (6, 4, 3, 3), (3, 32, 3, 3), (32, 3, 3, 3), (40, 8, 3, 3), (50, 2, 1, 1)]
    together, alone = ([with_gradient(*shape, seed=i) for i, shape in enumerate(shapes)] for _ in range(2))
    Muon(together, lr=0.1).step()
    for kernel in alone:
        Muon([kernel], lr=0.1).step()
    for one, two in zip(together, alone, strict=True):
        assert torch.allclose(one, two, atol=1e-6)


def test_everything_but_kernels_moves_as_with_adam() -> None:
    ours = [with_gradient(7, seed=3), with_gradient(5, 4, 3, seed=4), with_gradient(6, 4, 3, 3, seed=5)]
    theirs = [with_gradient(7, seed=3), with_gradient(5, 4, 3, seed=4)]
    betas = (0.9, 0.98)
    muon, adam = Muon(ours, betas=betas, weight_decay=0.1), torch.optim.Adam(theirs, betas=betas)
    for step in range(4):
        for optimiser in (muon, adam):
            for group in optimiser.param_groups:
                group["lr"] = 0.1 / (step + 1)
            optimiser.step()
    for one, two in zip(ours, theirs, strict=False):
        torch.testing.assert_close(one, two)


def test_weight_decay_shrinks_kernels_and_leaves_the_direction_of_their_step_alone() -> None:
    plain, shrunk = with_gradient(6, 4, 3, 3), with_gradient(6, 4, 3, 3)
    before = plain.detach().clone()
    Muon([plain], lr=0.1).step()
    Muon([shrunk], lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(shrunk.detach(), plain.detach() - 0.1 * 0.5 * before)


def test_weight_decay_keeps_a_kernel_before_a_batch_norm_from_outgrowing_its_steps() -> None:
    """Batch norm takes out its length, so gradients are at right angles to it and every step lengthens it."""
    lengths = []
    for decay in (0.0, 1.0):
        generator = torch.Generator().manual_seed(0)
        kernel = nn.Parameter(torch.randn(8, 3, 3, 3, generator=generator) / 5)
        optimiser = Muon([kernel], lr=0.05, weight_decay=decay)
        for _ in range(200):
            images = torch.randn(8, 3, 6, 6, generator=generator)
            seen = nn.functional.batch_norm(nn.functional.conv2d(images, kernel), None, None, training=True)
            optimiser.zero_grad()
            (seen - torch.randn(seen.shape, generator=generator)).square().mean().backward()
            optimiser.step()
        lengths.append(kernel.norm().item())
    assert lengths[1] < lengths[0] / 2


def test_a_parameter_without_gradient_stays() -> None:
    kernel, moved = nn.Parameter(torch.ones(2, 2, 3, 3)), with_gradient(2, 2, 3, 3)
    before = moved.detach().clone()
    Muon([kernel, moved], lr=0.1).step()
    assert torch.equal(kernel, torch.ones(2, 2, 3, 3))
    assert not torch.equal(moved, before)


def test_it_learns_along_faint_directions_too() -> None:
    """A layer is to copy another; the inputs vary a hundred times more along some directions than others."""
    generator = torch.Generator().manual_seed(0)
    goal = torch.randn(16, 16, 3, 3, generator=generator) / 12
    mixed = torch.randn(16, 16, generator=generator) * torch.logspace(0, -2, 16)
    kernel = nn.Parameter(torch.zeros(16, 16, 3, 3))
    optimiser = Muon([kernel], lr=0.03)
    errors = []
    for step in range(100):
        images = torch.einsum("bchw,dc->bdhw", torch.randn(8, 16, 8, 8, generator=generator), mixed.T)
        error = nn.functional.conv2d(images, kernel - goal).square().mean()
        optimiser.param_groups[0]["lr"] = 0.03 * (1 - step / 100)
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        errors.append(error.item())
    assert errors[-1] < 0.01 * errors[0]
