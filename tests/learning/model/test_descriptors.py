"""Descriptors: soft masks and the pooling of features under them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trigpoint.core.config.presets import preset
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.descriptors import DescriptorEncoder, squared_distances
from trigpoint.learning.model.detector import Detection
from trigpoint.learning.tensors import grid

CONFIG = replace(
    preset("compact-4").model,
    detector="8 P | 8/8 S1 P 8 | out1",  # maps of 40 x 40
    features="8 P 8 P | 12/12 S1 P 16 | out1",  # of 20 x 20
)
CELLS = grid(20, 64, 80)  # of the feature map, a quarter of the padded image
PITCH = 4 / 64


def encoder(pooling: str = "gaussian") -> DescriptorEncoder:
    config = replace(CONFIG, pooling=pooling)  # type: ignore[arg-type]
    found = Autoencoder(config, seed=3).descriptors
    assert found is not None
    return found.eval()


def detection(landmarks: torch.Tensor, variances: torch.Tensor) -> Detection:
    """Any maps with these landmarks: masks must look at the landmarks, not at their maps."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.softmax(2 * torch.randn(len(landmarks), 5, 40, 40, generator=generator), 1)
    return Detection(maps, landmarks, variances)


def random_detection(batch: int = 2) -> Detection:
    generator = torch.Generator().manual_seed(1)
    landmarks = 0.3 + 0.4 * torch.rand(batch, 4, 2, generator=generator)
    variances = (0.05 + 0.05 * torch.rand(batch, 4, 2, generator=generator)).square()
    return detection(landmarks, variances)


def pooled_maps(maps: torch.Tensor) -> np.ndarray:
    """Detection maps of 40 x 40 as means over 2 x 2 cells, each of sum 1."""
    means = maps.numpy().astype(np.float64).reshape(*maps.shape[:2], 20, 2, 20, 2).mean((3, 5))
    flat: np.ndarray = means.reshape(*maps.shape[:2], 400)
    return flat / flat.sum(-1, keepdims=True)


@pytest.mark.parametrize("pooling", ["gaussian", "map"])
def test_masks_sum_to_one(pooling: str) -> None:
    masks = encoder(pooling).masks(random_detection())
    assert masks.shape == (2, 5, 400)
    assert (masks >= 0).all()
    torch.testing.assert_close(masks.sum(-1), torch.ones(2, 5))


def test_gaussian_masks_are_centred_on_their_landmarks() -> None:
    """And as wide as the mean of both variances says."""
    found = random_detection()
    masks = encoder().masks(found)[:, :4]
    mean = masks @ CELLS
    torch.testing.assert_close(mean, found.landmarks, atol=2e-3, rtol=0)
    spread = masks @ CELLS.square() - mean.square()
    isotropic = found.variances.mean(-1, keepdim=True).expand(-1, -1, 2)
    torch.testing.assert_close(spread, isotropic, atol=0, rtol=0.05)


def test_gaussian_masks_by_explicit_sums() -> None:
    found = random_detection()
    masks = encoder().masks(found)
    cells = CELLS.double().numpy()
    for b in range(2):
        for k in range(4):
            variance = found.variances[b, k].double().mean().item()
            landmark = found.landmarks[b, k].double().numpy()
            values = np.array([np.exp(-((cell - landmark) ** 2).sum() / (2 * variance)) for cell in cells])
            np.testing.assert_allclose(masks[b, k].numpy(), values / values.sum(), rtol=1e-3, atol=1e-8)


def test_vanishing_variance_still_hits_the_nearest_cells() -> None:
    """No narrower than half a cell: a landmark at a corner of four cells looks at all four."""
    corner = torch.full((1, 4, 2), 0.5)  # cell centres lie at 0.5 plus or minus half a pitch
    masks = encoder().masks(detection(corner, torch.zeros(1, 4, 2)))[0, 0].reshape(20, 20)
    assert masks.isfinite().all()
    assert masks[9:11, 9:11].sum() > 0.9
    torch.testing.assert_close(masks[9, 9], masks[10, 10])
    on_cell = detection(torch.full((1, 4, 2), 0.5 + PITCH / 2), torch.zeros(1, 4, 2))
    weights = torch.exp(-squared_distances(on_cell.landmarks, CELLS) / (2 * (PITCH / 2) ** 2))[0, 0]
    torch.testing.assert_close(encoder().masks(on_cell)[0, 0], weights / weights.sum(), atol=1e-5, rtol=1e-3)


def test_background_mask_is_its_own_map() -> None:
    found = random_detection()
    masks = encoder().masks(found)
    np.testing.assert_allclose(masks[:, -1].numpy(), pooled_maps(found.maps)[:, -1], rtol=1e-4)


def test_pooling_by_the_map_itself() -> None:
    found = random_detection()
    masks = encoder("map").masks(found)
    np.testing.assert_allclose(masks.numpy(), pooled_maps(found.maps), rtol=1e-4)
    assert not torch.allclose(masks[:, :4], encoder().masks(found)[:, :4], atol=1e-3)


@pytest.mark.parametrize("pooling", ["gaussian", "map"])
def test_descriptors_by_an_explicit_loop(pooling: str) -> None:
    """Each landmark: features under its mask, then its own linear operator."""
    net = encoder(pooling)
    padded = torch.rand(2, 3, 80, 80, generator=torch.Generator().manual_seed(2))
    found = random_detection()
    with torch.no_grad():
        descriptors = net(padded, found)
        features = net.net(padded).double().numpy()
        masks = net.masks(found).double().numpy()
    weights = net.project.detach().double().numpy()
    assert descriptors.shape == (2, 5, 8)
    for b in range(2):
        for k in range(5):
            pooled = np.zeros(CONFIG.feature_channels)
            for row in range(20):
                for column in range(20):
                    pooled += masks[b, k, row * 20 + column] * features[b, :, row, column]
            np.testing.assert_allclose(descriptors[b, k].numpy(), pooled @ weights[k], atol=1e-4)


def test_gradients_reach_landmarks_and_maps() -> None:
    """Landmarks through their Gaussians, the background through its map."""
    found = random_detection()
    inputs = [found.maps, found.landmarks, found.variances]
    for tensor in inputs:
        tensor.requires_grad_()
    padded = torch.rand(2, 3, 80, 80, generator=torch.Generator().manual_seed(4))
    encoder()(padded, Detection(*inputs)).square().sum().backward()
    for tensor in inputs:
        assert tensor.grad is not None
        assert tensor.grad.any()
    assert found.maps.grad is not None
    assert not found.maps.grad[:, :4].any()


def test_squared_distances_by_hand() -> None:
    points = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]])
    cells = torch.tensor([[3.0, 4.0], [1.0, 2.0], [0.0, 1.0]])
    assert squared_distances(points, cells).tolist() == [[[25.0, 5.0, 1.0], [8.0, 0.0, 2.0]]]
