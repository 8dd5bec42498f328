"""The decoder: score maps against SciPy, bandwidths, gradients and images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import nn

from trigpoint.core.config.presets import preset
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.decoder import Decoder, score_maps
from trigpoint.learning.tensors import grid

CELLS = grid(16, 64, 64).double()
VARIANCES = torch.tensor([(0.0625 * math.sqrt(2) ** i) ** 2 for i in range(5)], dtype=torch.float64)


def landmarks(batch: int = 2, count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(batch + count)
    return torch.rand(batch, count, 2, generator=generator, dtype=torch.float64)


def test_score_maps_agree_with_scipy() -> None:
    """Densities against a background of 1, divided by their sum over the channels."""
    points = landmarks()
    maps = score_maps(points, CELLS, VARIANCES)
    assert maps.shape == (2, 5, 4, 256)
    for b in range(2):
        for m, variance in enumerate(VARIANCES.tolist()):
            rows = [
                multivariate_normal(points[b, k].numpy(), variance * np.eye(2)).pdf(CELLS.numpy())
                for k in range(3)
            ]
            raw = np.stack([*rows, np.ones(256)])
            np.testing.assert_allclose(maps[b, m].numpy(), raw / raw.sum(0), rtol=1e-9)


def test_score_maps_sum_to_one_even_far_away() -> None:
    """Where no landmark is near, all is background."""
    far = torch.full((1, 3, 2), 50.0, dtype=torch.float64)
    for points in (landmarks(), far):
        maps = score_maps(points, CELLS, VARIANCES)
        torch.testing.assert_close(maps.sum(2), torch.ones(len(points), 5, 256).double())
    assert score_maps(far, CELLS, VARIANCES)[:, :, -1].min() == 1


def test_five_bandwidths_of_ratio_sqrt_two() -> None:
    for smallest in (1 / 16, 1 / 8):
        config = replace(preset("tiny-3").model, decoder_sigma=smallest)
        assert config.decoder_levels == 5
        expected = [smallest, smallest * 2**0.5, smallest * 2, smallest * 2**1.5, smallest * 4]
        np.testing.assert_allclose(Decoder(config).variances.sqrt().numpy(), expected, rtol=1e-6)


def test_gradient_of_score_maps() -> None:
    cells = grid(4, 4, 4).double()
    points = landmarks().requires_grad_()
    assert torch.autograd.gradcheck(lambda p: score_maps(p, cells, VARIANCES), points)


@pytest.mark.parametrize("descriptor_size", [0, 3])
def test_gradient_of_the_image_by_finite_differences(descriptor_size: int) -> None:
    """Through a network in double precision, without kinks: tanh for LeakyReLU, no pooling."""
    config = replace(
        preset("tiny-3").model,
        descriptor_size=descriptor_size,
        feature_channels=4,
        decoder="| 12/12 8 | U 8 out",
    )
    decoder = Autoencoder(config, seed=1).decoder.double().eval()
    for block in decoder.modules():
        if isinstance(block, nn.Sequential) and len(block) and isinstance(block[-1], nn.LeakyReLU):
            block[-1] = nn.Tanh()
    generator = torch.Generator().manual_seed(2)
    descriptors = None
    if descriptor_size:
        descriptors = torch.randn(1, 4, descriptor_size, generator=generator, dtype=torch.float64)
    weights = torch.randn(1, 1, 28, 28, generator=generator, dtype=torch.float64)

    def value(points: torch.Tensor) -> torch.Tensor:
        return (decoder(points, descriptors) * weights).sum()

    points = landmarks(1).requires_grad_()
    (gradient,) = torch.autograd.grad(value(points), points)
    step = 1e-6
    numeric = torch.zeros_like(gradient)
    with torch.no_grad():
        for k in range(3):
            for d in range(2):
                move = torch.zeros_like(points)
                move[0, k, d] = step
                numeric[0, k, d] = (value(points + move) - value(points - move)) / (2 * step)
    assert (gradient.abs() > 1e-3).all()
    torch.testing.assert_close(gradient, numeric, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(("name", "shape"), [("compact-10", (3, 64, 64)), ("tiny-7", (1, 28, 28))])
def test_image_has_its_shape_and_range(name: str, shape: tuple[int, ...]) -> None:
    config = preset(name).model
    decoder = Autoencoder(config).decoder.train()
    generator = torch.Generator().manual_seed(3)
    points = torch.rand(4, config.landmarks, 2, generator=generator)
    descriptors = None
    if config.descriptor_size:
        descriptors = torch.randn(4, config.landmarks + 1, config.descriptor_size, generator=generator)
    image = decoder(points, descriptors)
    assert image.shape == (4, *shape)
    assert image.min() > 0
    assert image.max() < 1
    assert image.std() > 0.05


def test_model_without_descriptors_has_no_operators() -> None:
    model = Autoencoder(preset("tiny-7").model)
    assert model.descriptors is None
    assert not any(name.endswith(("expand", "project")) for name, _ in model.named_parameters())


def test_network_sees_maps_and_spread_descriptors() -> None:
    """Its input by explicit sums: per bandwidth K + 1 maps, then S channels of unpooled features."""
    config = replace(
        preset("compact-2").model, feature_channels=6, descriptor_size=3, decoder="| 8/8 P 8 | U U out"
    )
    decoder = Autoencoder(config, seed=4).decoder.double().eval()
    points = landmarks(2, 2)
    descriptors = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    seen: list[torch.Tensor] = []
    decoder.net.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    decoder(points, descriptors)
    assert seen[0].shape == (2, 5 * (3 + 6), 16, 16)

    inputs = seen[0].reshape(2, 5, 9, 256)
    maps = score_maps(points, CELLS, decoder.variances)
    torch.testing.assert_close(inputs[:, :, :3], maps, atol=1e-6, rtol=1e-6)
    weights = decoder.expand.detach().numpy()
    for b in range(2):
        spread = np.zeros((5, 6, 256))
        for k in range(3):
            feature = descriptors[b, k].numpy() @ weights[k]
            feature = np.where(feature > 0, feature, 0.2 * feature)
            spread += maps[b, :, k].numpy()[:, None] * feature[:, None]
        np.testing.assert_allclose(inputs[b, :, 3:].numpy(), spread, atol=1e-6)


def test_each_landmark_has_its_own_operator() -> None:
    """Exchanging two descriptors changes the image even if the landmarks coincide."""
    config = preset("compact-4").model
    decoder = Autoencoder(config).decoder.eval()
    points = torch.full((1, 4, 2), 0.5)
    descriptors = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        change = decoder(points, descriptors) - decoder(points, descriptors[:, [1, 0, 2, 3, 4]])
    assert change.abs().max() > 1e-3


def test_a_colour_margin_is_the_paper_s_scaling_of_colours() -> None:
    """The sigmoid gives colours in [0.1, 0.9]; scaled back, 0.1 is black and 0.9 white."""
    config = preset("tiny-3").model
    plain, margined = (Autoencoder(replace(config, colour_margin=m)).eval() for m in (0.0, 0.1))
    points = landmarks().float()
    with torch.no_grad():
        inner, image = plain.decode(points, None), margined.decode(points, None)
    torch.testing.assert_close(image * 0.8 + 0.1, inner)
