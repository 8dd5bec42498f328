"""BEGAN's balance and the cyclic loss against values computed by hand."""

from __future__ import annotations

import pytest
import torch

from cairns.generation.losses import convergence, critic_loss, cycle, next_k

REAL = torch.tensor([0.2, 0.4])  # mean 0.3
MADE = torch.tensor([0.1, 0.7, 0.4])  # mean 0.4


def number(value: float) -> torch.Tensor:
    return torch.tensor(value)


@pytest.mark.parametrize(("k", "expected"), [(0.0, 0.3), (0.25, 0.2), (1.0, -0.1)])
def test_the_critic_lowers_real_energy_and_raises_that_of_samples(k: float, expected: float) -> None:
    assert critic_loss(REAL, MADE, number(k)).item() == pytest.approx(expected)


def test_the_critic_minds_samples_as_much_as_k_says() -> None:
    real, made = REAL.clone().requires_grad_(), MADE.clone().requires_grad_()
    critic_loss(real, made, number(0.6)).backward()
    assert real.grad is not None
    assert made.grad is not None
    assert real.grad.tolist() == pytest.approx([0.5, 0.5])
    assert made.grad.tolist() == pytest.approx([-0.2, -0.2, -0.2])


@pytest.mark.parametrize(
    ("k", "gamma", "gain", "expected"),
    [
        (0.5, 0.5, 0.1, 0.475),  # 0.5 + 0.1 (0.5 * 0.3 - 0.4): the samples have too much energy
        (0.5, 1.0, 0.1, 0.49),
        (0.5, 0.5, 0.0, 0.5),
        (0.01, 0.5, 1.0, 0.0),  # 0.01 - 0.25
        (0.0, 0.5, 0.001, 0.0),
    ],
)
def test_k_one_step_on(k: float, gamma: float, gain: float, expected: float) -> None:
    assert next_k(number(k), REAL, MADE, gamma, gain).item() == pytest.approx(expected)


def test_k_rises_while_samples_have_too_little_energy_and_ends_at_one() -> None:
    real, made = torch.tensor([0.9]), torch.tensor([0.1])
    assert next_k(number(0.5), real, made, 0.5, 0.1).item() == pytest.approx(0.535)  # 0.5 + 0.1 (0.45 - 0.1)
    assert next_k(number(0.99), real, made, 1.0, 1.0).item() == 1.0
    assert next_k(number(1.0), real, made, 1.0, 0.001).item() == 1.0


def test_in_the_equilibrium_k_stays_and_the_measure_is_the_real_energy() -> None:
    made = 0.5 * REAL
    assert next_k(number(0.3), REAL, made, 0.5, 0.7).item() == pytest.approx(0.3)
    assert convergence(REAL, made, 0.5).item() == pytest.approx(0.3)


def test_the_measure_grows_on_both_sides_of_the_equilibrium() -> None:
    assert convergence(REAL, MADE, 0.5).item() == pytest.approx(0.3 + 0.25)
    assert convergence(torch.tensor([0.8]), torch.tensor([0.1]), 0.5).item() == pytest.approx(0.8 + 0.3)


def test_the_cyclic_loss_sums_x_and_y_and_averages_landmarks_and_images() -> None:
    found = torch.tensor([[[0.1, 0.2], [0.5, 0.5]], [[0.0, 0.0], [1.0, 1.0]]])
    wanted = torch.tensor([[[0.2, 0.2], [0.4, 0.8]], [[0.0, 0.0], [1.0, 0.9]]])
    # 0.1 + 0, 0.1 + 0.3, 0, 0.1 over four landmarks
    assert cycle(found, wanted).item() == pytest.approx(0.15)
    assert cycle(wanted, found).item() == pytest.approx(0.15)
    assert cycle(found, found).item() == 0.0
