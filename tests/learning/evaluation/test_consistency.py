"""Consistency under warps, with detectors whose error is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from trigpoint.core.config.tree import Config, ModelConfig, WarpConfig
from trigpoint.learning import tensors
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection

STILL = WarpConfig(translation=0.0, rotation=0.0, scaling=1.0, grid_jitter=0.0)


def detection_at(landmarks: torch.Tensor) -> Detection:
    return Detection(torch.zeros(len(landmarks), 2, 1, 1), landmarks, torch.zeros_like(landmarks))


class SpotDetector:
    """Finds the one bright spot of an image exactly: its centre of mass."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.cells = tensors.grid(config.padded_size, config.image_size, config.padded_size)

    def detect(self, images: torch.Tensor) -> Detection:
        return self.detector(tensors.pad(images, self.config.padded_size))

    def detector(self, padded: torch.Tensor) -> Detection:
        weight = padded.flatten(2)  # (B, 1, n*n)
        return detection_at(weight @ self.cells / weight.sum(-1, keepdim=True))


class CentreDetector(SpotDetector):
    """Always says the centre, five times over."""

    def detector(self, padded: torch.Tensor) -> Detection:
        return detection_at(torch.full((len(padded), 5, 2), 0.5))


@pytest.fixture(scope="module")
def model() -> ModelConfig:
    return ModelConfig(landmarks=1, channels=1, image_size=64, padded_size=96)


def spots(model: ModelConfig, count: int) -> torch.Tensor:
    """Images with one small round spot in their middle half, black elsewhere."""
    random = np.random.default_rng(1)
    cells = tensors.grid(model.image_size, model.image_size, model.image_size).reshape(64, 64, 2)
    places = torch.tensor(random.uniform(0.3, 0.7, (count, 1, 1, 2)), dtype=torch.float32)
    return torch.exp(-(cells - places).square().sum(-1) / (2 * 0.02**2))[:, None]


def test_a_detector_that_is_always_right_has_nearly_no_error(model: ModelConfig) -> None:
    images = spots(model, 100)
    errors = warp_errors(SpotDetector(model), images, WarpConfig())  # type: ignore[arg-type]
    assert errors.shape == (100, 1)
    assert errors.mean() < 0.005
    shifted = SpotDetector(model)
    shifted.detect = lambda batch: detection_at(SpotDetector(model).detect(batch).landmarks + 0.1)  # type: ignore[method-assign]
    assert warp_errors(shifted, images, WarpConfig()).mean() > 0.1  # type: ignore[arg-type]


def test_saying_the_centre_is_as_wrong_as_the_warp_is_strong(model: ModelConfig) -> None:
    """Under a translation alone the error is its length: (sqrt 2 + ln(1 + sqrt 2)) / 3 of the largest."""
    model = replace(model, image_size=8, padded_size=12)
    images = torch.zeros(3000, 1, 8, 8)
    errors = warp_errors(CentreDetector(model), images, replace(STILL, translation=0.15))  # type: ignore[arg-type]
    assert errors.shape == (3000, 5)
    expected = 0.15 * (math.sqrt(2) + math.log(1 + math.sqrt(2))) / 3
    assert errors.mean() == pytest.approx(expected, rel=0.03)
    assert errors.max() <= 0.15 * math.sqrt(2) + 1e-5


def test_without_a_warp_there_is_no_error(model: ModelConfig) -> None:
    for detector in (SpotDetector(model), CentreDetector(model)):
        assert warp_errors(detector, spots(model, 4), STILL).max() < 1e-5  # type: ignore[arg-type]


def test_the_seed_decides_the_warps(model: ModelConfig) -> None:
    images, detector = spots(model, 6), CentreDetector(model)
    first = warp_errors(detector, images, WarpConfig(), seed=1)  # type: ignore[arg-type]
    np.testing.assert_array_equal(first, warp_errors(detector, images, WarpConfig(), seed=1))  # type: ignore[arg-type]
    assert not np.array_equal(first, warp_errors(detector, images, WarpConfig(), seed=2))  # type: ignore[arg-type]


def test_it_works_with_the_true_model_and_keeps_no_gradient(micro: Config) -> None:
    net = Autoencoder(micro.model, seed=0).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    errors = warp_errors(net, torch.rand(70, 1, 28, 28), micro.warp)
    assert errors.shape == (70, 4)
    assert np.isfinite(errors).all()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
