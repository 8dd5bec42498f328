"""Detection maps to landmarks: moments, softmax and confidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import center_of_mass

from trigpoint.core.config.presets import preset
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection, confidence, moments
from trigpoint.learning.tensors import axis, grid


def gaussian(cells: int, image: int, covered: int, x: float, y: float, sx: float, sy: float) -> torch.Tensor:
    """A map (cells, cells) of an axis-aligned Gaussian in unit coordinates."""
    along = axis(cells, image, covered).double()
    across = torch.exp(-((along - x) ** 2) / (2 * sx**2))
    down = torch.exp(-((along - y) ** 2) / (2 * sy**2))
    return down[:, None] * across


@pytest.mark.parametrize(("cells", "image", "covered"), [(64, 64, 64), (40, 64, 80), (96, 80, 96)])
def test_mean_agrees_with_scipy(cells: int, image: int, covered: int) -> None:
    """The centre of mass in cells, taken to unit coordinates by hand."""
    maps = torch.rand(2, 3, cells, cells, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, _ = moments(maps, grid(cells, image, covered).double())
    for b in range(2):
        for k in range(3):
            row, column = center_of_mass(maps[b, k].numpy())
            margin = (covered - image) / 2
            x = ((column + 0.5) * covered / cells - margin) / image
            y = ((row + 0.5) * covered / cells - margin) / image
            np.testing.assert_allclose(mean[b, k].numpy(), (x, y), atol=1e-6)


def test_variance_by_explicit_sums() -> None:
    maps = torch.rand(1, 2, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    cells = grid(6, 4, 6).double()
    _, variance = moments(maps, cells)
    for k in range(2):
        weights: NDArray[np.float64] = (maps[0, k] / maps[0, k].sum()).numpy().reshape(-1)
        for d in range(2):
            values = cells[:, d].numpy()
            mean = sum(w * v for w, v in zip(weights, values, strict=True))
            expected = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True))
            assert variance[0, k, d].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("padded", [64, 80])
def test_moments_of_gaussians(padded: int) -> None:
    """Position and spread of known Gaussians, whatever the padding; x and y are not mixed up."""
    places = [(0.3, 0.6, 0.04, 0.08), (0.55, 0.45, 0.1, 0.05)]
    maps = torch.stack([gaussian(padded, 64, padded, *place) for place in places])[None].float()
    mean, variance = moments(maps, grid(padded, 64, padded))
    for k, (x, y, sx, sy) in enumerate(places):
        np.testing.assert_allclose(mean[0, k].numpy(), (x, y), atol=2e-4)
        np.testing.assert_allclose(variance[0, k].numpy(), (sx**2, sy**2), rtol=0.01)


def test_landmark_may_lie_in_the_padding() -> None:
    maps = torch.zeros(1, 1, 8, 8)
    maps[0, 0, 1, 7] = 0.5
    mean, variance = moments(maps, grid(8, 4, 8))
    torch.testing.assert_close(mean[0, 0], torch.tensor([1.375, -0.125]))
    assert variance.abs().max() < 1e-6


def test_moments_do_not_depend_on_the_mass() -> None:
    maps = torch.rand(1, 2, 8, 8, generator=torch.Generator().manual_seed(2))
    for a, b in zip(moments(maps, grid(8, 8, 8)), moments(maps * 1e-6, grid(8, 8, 8)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_moments_of_an_empty_map_are_finite() -> None:
    mean, variance = moments(torch.zeros(1, 1, 4, 4), grid(4, 4, 4))
    assert mean.isfinite().all()
    assert variance.isfinite().all()


def test_variance_keeps_its_digits_in_single_precision() -> None:
    """A spot one cell wide, far from the middle, over 96 x 96 cells."""
    maps = torch.zeros(1, 1, 96, 96)
    maps[0, 0, 3, 90:92] = 1  # two neighbours: variance a quarter of a squared cell in x
    _, variance = moments(maps, grid(96, 80, 96))
    np.testing.assert_allclose(variance[0, 0].numpy(), ((0.5 / 80) ** 2, 0), atol=2e-7)


def test_gradients_of_moments() -> None:
    maps = torch.rand(2, 2, 3, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.1
    cells = grid(3, 2, 3).double()
    assert torch.autograd.gradcheck(lambda m: moments(m, cells), maps.requires_grad_())


def test_detector_gives_probabilities_and_their_moments() -> None:
    """Softmax over K + 1 channels of the scores times the gain; landmarks are moments of the first K."""
    config = replace(preset("tiny-7").model, detector="D8 | 8/8 S1 P 8 | out1", detector_gain=2.5)
    detector = Autoencoder(config).detector.eval()
    images = torch.rand(3, 1, 40, 40, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        detection, scores = detector(images), detector.net(images)
    assert detection.maps.shape == (3, 8, 20, 20)
    torch.testing.assert_close(detection.maps.sum(1), torch.ones(3, 20, 20))
    raised = (2.5 * scores).exp()
    explicit = raised / raised.sum(1, keepdim=True)
    torch.testing.assert_close(detection.maps, explicit)
    mean, variance = moments(explicit[:, :7], grid(20, 28, 40))
    torch.testing.assert_close(detection.landmarks, mean)
    torch.testing.assert_close(detection.variances, variance, atol=1e-6, rtol=1e-5)
    assert detection.landmarks.shape == detection.variances.shape == (3, 7, 2)


CELLS = grid(40, 64, 80)


def score(probability: torch.Tensor) -> float:
    """Confidence of one landmark of this map (40, 40), the rest of each cell being background."""
    maps = torch.stack((probability, 1 - probability))[None].float()
    return confidence(Detection(maps, *moments(maps[:, :1], CELLS)), CELLS).item()


def spot(x: float, y: float, sigma: float = 0.03) -> torch.Tensor:
    return gaussian(40, 64, 80, x, y, sigma, sigma)


def test_sharp_and_massive_map_is_trusted() -> None:
    """A spot about as wide as a cell, centred on one."""
    x, y = CELLS[24 * 40 + 20].tolist()
    assert 0.95 < score(0.99 * spot(x, y)) <= 0.99 + 1e-6


@pytest.mark.parametrize("level", [0.09, 0.5, 1.0])
def test_uniform_map_is_not_trusted(level: float) -> None:
    assert score(torch.full((40, 40), level)) < 0.04


def test_split_map_is_not_trusted() -> None:
    """Two far places: the landmark lies between them, where there is nothing."""
    assert score(0.99 * (spot(0.2, 0.5) + spot(0.8, 0.5))) < 0.01
    assert score(0.99 * (spot(0.2, 0.5) + 0.3 * spot(0.8, 0.5))) < 0.3


def test_faint_map_is_not_trusted() -> None:
    assert score(0.02 * spot(0.4, 0.6)) < 0.03


def test_wider_and_fainter_maps_are_trusted_less() -> None:
    widths = [score(0.9 * spot(0.5, 0.5, sigma)) for sigma in (0.03, 0.06, 0.12, 0.24)]
    levels = [score(level * spot(0.5, 0.5)) for level in (0.9, 0.6, 0.3)]
    assert widths == sorted(widths, reverse=True)
    assert levels == sorted(levels, reverse=True)
    assert widths[0] - widths[-1] > 0.5


def test_confidence_is_highest_probability_times_share_nearby() -> None:
    """Random maps, by explicit sums over the cells within a tenth of the edge."""
    generator = torch.Generator().manual_seed(5)
    maps = torch.softmax(3 * torch.randn(2, 4, 40, 40, generator=generator), 1)
    landmarks, variances = moments(maps[:, :3], CELLS)
    found = confidence(Detection(maps, landmarks, variances), CELLS)
    assert found.shape == (2, 3)
    for b in range(2):
        for k in range(3):
            near = ((CELLS - landmarks[b, k]) ** 2).sum(-1).sqrt() <= 0.1
            weights = maps[b, k].reshape(-1)
            expected = weights.max() * weights[near].sum() / weights.sum()
            assert found[b, k].item() == pytest.approx(expected.item(), rel=1e-4)


def test_confidence_of_an_empty_map_is_zero() -> None:
    assert score(torch.zeros(40, 40)) == 0


@pytest.mark.parametrize(
    ("name", "size"), [("compact-10", 48), ("tiny-7", 24), ("celeba-10", 56), ("human-16", 128)]
)
def test_a_smaller_image_has_its_landmarks_in_the_same_coordinates(name: str, size: int) -> None:
    """Maps of fewer cells cover the same ground."""
    model = Autoencoder(preset(name).model).eval()
    detector = model.detector
    assert detector.afar == size
    with torch.no_grad():
        found = detector(torch.rand(1, model.config.channels, size, size))
    cells = grid(found.maps.shape[-1], model.config.image_size, model.config.padded_size)
    expected, _ = moments(found.maps[:, :-1], cells)
    torch.testing.assert_close(found.landmarks, expected)
    assert found.maps.shape[-1] * model.config.padded_size == detector.map_size * size


def test_an_image_without_a_margin_is_not_looked_at_from_too_far() -> None:
    """Half of its edge, the size nearest to what suits others, was measured to be too small."""
    assert Autoencoder(replace(preset("compact-10").model, padded_size=64)).detector.afar == 48
