"""BEGAN's balance and the cyclic loss against values computed by hand."""

from __future__ import annotations

import pytest
import torch

from trigpoint.learning.generation.losses import apart, convergence, next_k
from trigpoint.learning.losses import cycle

REAL = torch.tensor([0.2, 0.4])  # mean 0.3
MADE = torch.tensor([0.1, 0.7, 0.4])  # mean 0.4


def number(value: float) -> torch.Tensor:
    return torch.tensor(value)


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


# Two samples of one structure


def images(*values: float) -> torch.Tensor:
    """One grey value for each image, 2 x 2 pixels."""
    return torch.tensor(values)[:, None, None, None].expand(-1, 3, 2, 2)


def test_samples_should_differ_by_a_share_of_what_real_images_differ_by() -> None:
    real = images(0.1, 0.9, 0.5, 0.5)  # |0.1 - 0.5| and |0.9 - 0.5|: 0.4 on average
    made = images(0.2, 0.7, 0.4, 0.7)  # 0.2 and 0 apart: 0.5 and 0 of the usual
    assert apart(made, real, 0.6).item() == pytest.approx((0.1 + 0.6) / 2)
    assert apart(made, real, 0.4).item() == pytest.approx((0 + 0.4) / 2)  # more than wanted is not rewarded
    assert apart(made, real, 0.0).item() == 0


def test_an_odd_image_is_left_out_and_equal_real_images_divide_by_no_zero() -> None:
    made = images(0.2, 0.3, 0.9)
    assert apart(made, images(0.0, 0.5, 0.7), 0.6).item() == pytest.approx(0.6 - 0.1 / 0.5)
    assert apart(made, images(0.5, 0.5, 0.5), 0.6).item() == 0


def test_what_keeps_samples_apart_pushes_both_of_a_pair() -> None:
    made = images(0.4, 0.5).clone().requires_grad_()
    apart(made, images(0.0, 0.5), 0.6).backward()
    assert made.grad is not None
    assert made.grad.sum((1, 2, 3)).tolist() == pytest.approx([2.0, -2.0])  # 1 / 0.5, downhill is outwards
