"""Each term of the objective against explicit loops, and the weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.ndimage import uniform_filter
from scipy.special import pseudo_huber

from trigpoint.learning import losses


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_concentration_entropy_by_loops() -> None:
    """2 pi e times the mean of both variances, summed over landmarks, mean over images."""
    variances = rand(3, 4, 2)
    expected = 0.0
    for image in variances.numpy():
        for across, down in image:
            expected += 2 * math.pi * math.e * (across + down) / 2 / 3
    assert losses.concentration(variances).item() == pytest.approx(expected, rel=1e-12)


def test_concentration_printed_by_loops() -> None:
    variances = rand(3, 4, 2)
    expected = 0.0
    for image in variances.numpy():
        for across, down in image:
            expected += 2 * math.pi * math.e * (across + down) ** 2 / 3
    assert losses.concentration(variances, "printed").item() == pytest.approx(expected, rel=1e-12)


def test_concentration_by_hand() -> None:
    """Variances 0.01 and 0.03: the mean is 0.02, the square of the sum 0.0016; 2 pi e = 17.0795."""
    variances = torch.tensor([[[0.01, 0.03]]], dtype=torch.float64)
    assert losses.concentration(variances, "entropy").item() == pytest.approx(0.341589, abs=1e-6)
    assert losses.concentration(variances, "printed").item() == pytest.approx(0.0273271, abs=1e-7)


def test_concentration_is_the_exponential_of_the_entropy() -> None:
    """The entropy of an isotropic Gaussian in the plane is 1 + ln(2 pi sigma^2)."""
    variance = 0.02
    entropy = 1 + math.log(2 * math.pi * variance)
    found = losses.concentration(torch.full((1, 1, 2), variance, dtype=torch.float64)).item()
    assert found == pytest.approx(math.exp(entropy), rel=1e-12)


def test_separation_by_loops() -> None:
    landmarks, sigma = rand(3, 5, 2), 0.3
    expected = 0.0
    for image in landmarks.numpy():
        for i in range(5):
            for j in range(5):
                if i != j:
                    square = ((image[i] - image[j]) ** 2).sum()
                    expected += np.exp(-square / (2 * sigma**2)) / 3
    assert losses.separation(landmarks, sigma).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 10])
def test_separation_counts_ordered_pairs(count: int) -> None:
    """Landmarks in one place: each pair gives 1, and counts twice."""
    together = torch.full((2, count, 2), 0.5)
    assert losses.separation(together, 0.06).item() == pytest.approx(count * (count - 1))


def test_separation_by_hand() -> None:
    """Two landmarks one bandwidth apart: twice exp(-1/2)."""
    landmarks = torch.tensor([[[0.5, 0.5], [0.56, 0.5]]], dtype=torch.float64)
    assert losses.separation(landmarks, 0.06).item() == pytest.approx(2 * math.exp(-0.5), rel=1e-9)


def test_separation_pushes_apart() -> None:
    landmarks = torch.tensor([[[0.48, 0.5], [0.52, 0.5]]], requires_grad=True)
    losses.separation(landmarks, 0.06).backward()
    assert landmarks.grad is not None
    assert landmarks.grad[0, 0, 0] > 0 > landmarks.grad[0, 1, 0]  # descent moves the left one left


def test_equivariance_by_loops() -> None:
    back, landmarks = rand(3, 4, 2), rand(3, 4, 2, seed=1)
    expected = 0.0
    for b in range(3):
        for k in range(4):
            for d in range(2):
                expected += (back[b, k, d].item() - landmarks[b, k, d].item()) ** 2 / 3
    assert losses.equivariance(back, landmarks).item() == pytest.approx(expected, rel=1e-12)


def test_equivariance_that_becomes_linear_against_scipy() -> None:
    """Near by it is the squared distance, far away a straight line in the distance."""
    back, landmarks, delta = rand(3, 4, 2), rand(3, 4, 2, seed=1), 0.2
    distances = np.linalg.norm((back - landmarks).numpy(), axis=-1)
    expected = 2 * pseudo_huber(delta, distances).sum() / 3
    assert losses.equivariance(back, landmarks, delta).item() == pytest.approx(expected, rel=1e-12)

    near = landmarks + 1e-4 * back
    squared = losses.equivariance(near, landmarks).item()
    assert losses.equivariance(near, landmarks, delta).item() == pytest.approx(squared, rel=1e-6)


def test_reconstruction_by_loops() -> None:
    """The Gaussian negative log-likelihood, pixel by pixel and channel by channel."""
    decoded, images, sigma = rand(2, 3, 4, 4), rand(2, 3, 4, 4, seed=1), 0.05
    expected = 0.0
    for a, b in zip(decoded.flatten().tolist(), images.flatten().tolist(), strict=True):
        density = -((a - b) ** 2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
        expected -= density / 2
    assert losses.reconstruction(decoded, images, sigma).item() == pytest.approx(expected, rel=1e-12)


def test_reconstruction_of_the_image_itself() -> None:
    """Only the constant is left: n / 2 ln(2 pi sigma^2)."""
    images = rand(2, 3, 4, 4)
    expected = 24 * math.log(2 * math.pi * 0.05**2)
    assert losses.reconstruction(images, images, 0.05).item() == pytest.approx(expected, rel=1e-12)


TARGET = rand(2, 3, 2, seed=2)
TERMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "entropy": losses.concentration,
    "printed": lambda x: losses.concentration(x, "printed"),
    "separation": lambda x: losses.separation(x, 0.3),
    "equivariance": lambda x: losses.equivariance(x, TARGET),
    "equivariance, linear": lambda x: losses.equivariance(x, TARGET, 0.2),
    "reconstruction": lambda x: losses.reconstruction(x[:, None], TARGET[:, None], 0.3),
}


@pytest.mark.parametrize("name", TERMS)
def test_gradients(name: str) -> None:
    """Analytic against numeric in double precision."""
    assert torch.autograd.gradcheck(TERMS[name], rand(2, 3, 2).requires_grad_())


def test_gradient_of_equivariance_reaches_both_sides() -> None:
    back, landmarks = rand(2, 3, 2).requires_grad_(), rand(2, 3, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(losses.equivariance, (back, landmarks))
    losses.equivariance(back, landmarks).backward()
    assert back.grad is not None
    assert landmarks.grad is not None
    torch.testing.assert_close(back.grad, -landmarks.grad)


def test_total_is_the_weighted_sum() -> None:
    weights = {"recon": 0.5, "conc": 3.0, "sep": 5.0, "eqv": 7.0, "flow": 100.0}
    terms = {"recon": 2.0, "conc": 11.0, "sep": 13.0, "eqv": 17.0}
    found = losses.total({name: torch.tensor(value) for name, value in terms.items()}, weights)
    assert found.item() == pytest.approx(0.5 * 2 + 3 * 11 + 5 * 13 + 7 * 17)


def test_total_goes_by_name_not_by_order() -> None:
    terms = {"sep": torch.tensor(1.0), "conc": torch.tensor(10.0)}
    assert losses.total(terms, {"conc": 3.0, "sep": 5.0}).item() == pytest.approx(35.0)


def test_cycle_by_loops() -> None:
    """Steps to the right and down, summed; mean over landmarks and images."""
    found, wanted = rand(3, 4, 2), rand(3, 4, 2, seed=1)
    pairs = zip(found.reshape(-1, 2).tolist(), wanted.reshape(-1, 2).tolist(), strict=True)
    expected = sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in pairs) / 12
    assert losses.cycle(found, wanted).item() == pytest.approx(expected, rel=1e-12)


def test_locality_by_loops() -> None:
    edited, decoded, far = rand(2, 3, 4, 4), rand(2, 3, 4, 4, seed=1), rand(2, 1, 4, 4, seed=2)
    expected = 0.0
    for image, channel, row, column in np.ndindex(2, 3, 4, 4):
        change = abs(float(edited[image, channel, row, column] - decoded[image, channel, row, column]))
        expected += change * float(far[image, 0, row, column]) / 2
    assert losses.locality(edited, decoded, far).item() == pytest.approx(expected, rel=1e-12)


def test_dissimilarity_against_scipy() -> None:
    """Means, variances and covariance of windows by scipy's uniform filter, channel by channel."""
    decoded, images = rand(2, 3, 16, 16), rand(2, 3, 16, 16, seed=1)
    expected = 0.0
    for factor in (1, 2):
        size = 16 // factor
        for image, channel in np.ndindex(2, 3):
            a, b = (
                each[image, channel].numpy().reshape(size, factor, size, factor).mean((1, 3))
                for each in (decoded, images)
            )
            inner = slice(3, size - 3)  # windows that lie within the image
            means = {
                name: uniform_filter(value, 7)[inner, inner]
                for name, value in {"a": a, "b": b, "aa": a * a, "bb": b * b, "ab": a * b}.items()
            }
            covariance = means["ab"] - means["a"] * means["b"]
            variances = means["aa"] - means["a"] ** 2 + means["bb"] - means["b"] ** 2
            ssim = (2 * covariance + losses.SSIM_FLOOR) / (variances + losses.SSIM_FLOOR)
            expected += (1 - ssim).mean() / 6 / 2
    assert losses.dissimilarity(decoded, images).item() == pytest.approx(3 * 16 * 16 * expected, rel=1e-9)


def test_dissimilarity_of_an_image_with_itself_brighter_is_nothing() -> None:
    images = rand(2, 3, 16, 16)
    assert losses.dissimilarity(images + 0.2, images).item() == pytest.approx(0, abs=1e-6)
    assert losses.dissimilarity(1 - images, images).item() > 3 * 16 * 16  # the negative: worse than nothing


def test_dissimilarity_of_images_smaller_than_a_window() -> None:
    images = rand(2, 1, 8, 8)
    assert math.isfinite(losses.dissimilarity(rand(2, 1, 8, 8, seed=1), images).item())


def test_gradient_of_dissimilarity() -> None:
    target = rand(1, 1, 8, 8, seed=1)
    assert torch.autograd.gradcheck(
        lambda x: losses.dissimilarity(x, target), rand(1, 1, 8, 8).requires_grad_()
    )
