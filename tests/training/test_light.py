"""Brightness, contrast and tint: their bounds, and when they change nothing."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from cairns.config import TrainConfig
from cairns.training.light import jitter, relit, tint
from cairns.training.step import generator_of


def test_brightness_moves_an_image_by_no_more_than_its_bound() -> None:
    images = torch.full((500, 3, 4, 4), 0.5)
    moved = jitter(images, 0.1, 0.0, generator_of(0, 0)) - images
    assert moved.abs().max() <= 0.1 + 1e-6
    assert moved.amin() < -0.09
    assert moved.amax() > 0.09
    assert (moved.amax((1, 2, 3)) - moved.amin((1, 2, 3))).max() < 1e-6  # one draw for an image


def test_contrast_scales_about_the_mean_by_no_more_than_its_bound() -> None:
    images = torch.full((500, 3, 4, 4), 0.4)
    images[:, :, :2] = 0.6
    spread = jitter(images, 0.0, 0.2, generator_of(0, 0))
    gain = (spread.amax((1, 2, 3)) - spread.amin((1, 2, 3))) / 0.2
    assert 0.8 - 1e-5 <= gain.min() < 0.82
    assert 1.18 < gain.max() <= 1.2 + 1e-5
    torch.testing.assert_close(spread.mean((1, 2, 3)), images.mean((1, 2, 3)))


def test_jitter_stays_within_the_colour_range() -> None:
    images = torch.rand(50, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    found = jitter(images, 0.5, 0.9, generator_of(0, 0))
    assert found.min() == 0
    assert found.max() == 1


def test_no_jitter_changes_nothing() -> None:
    images = torch.rand(5, 3, 6, 6)
    torch.testing.assert_close(jitter(images, 0.0, 0.0, generator_of(0, 0)), images)


def test_faded_colours_keep_their_grey_and_their_hue() -> None:
    images = 0.3 + 0.4 * torch.rand(40, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    found = tint(images, 0.0, generator_of(0, 0))
    torch.testing.assert_close(found.mean(1), images.mean(1))
    hue = [
        np.stack([cv2.cvtColor(one.permute(1, 2, 0).numpy(), cv2.COLOR_RGB2HSV)[..., 0] for one in batch])
        for batch in (images, found)
    ]
    turned = np.abs(hue[0] - hue[1])
    coloured = ((found - found.mean(1, keepdim=True)).abs().amax((1, 2, 3)) > 0.02).numpy()
    assert np.minimum(turned, 360 - turned)[coloured].max() < 1
    spread = [(batch - batch.mean(1, keepdim=True)).flatten(1).norm(dim=1) for batch in (found, images)]
    kept = spread[0] / spread[1]
    assert kept.min() < 0.1  # nearly grey
    assert 0.1 < (kept > 1 - 1e-5).float().mean() < 0.35  # a fifth keep all


def test_a_tint_is_a_factor_for_each_channel_within_its_bound() -> None:
    grey = torch.full((500, 3, 4, 4), 0.5)
    factors = tint(grey, 0.25, generator_of(0, 0)) / 0.5
    assert 0.75 - 1e-5 <= factors.min() < 0.77
    assert 1.23 < factors.max() <= 1.25 + 1e-5
    assert factors[:, :, 0, 0].std(dim=1).mean() > 0.1  # the channels' own
    torch.testing.assert_close(factors, factors[:, :, :1, :1].expand_as(factors))


@pytest.mark.parametrize(
    ("settings", "channels", "changes"),
    [
        ({"tint": 0.0}, 3, False),
        ({"tint": 0.25}, 3, True),
        ({"tint": 0.25}, 1, False),  # grey images have no colours to fade
        ({"brightness": 0.1}, 1, True),
        ({"contrast": 0.3}, 3, True),
    ],
)
def test_images_are_relit_as_the_settings_say(
    settings: dict[str, float], channels: int, changes: bool
) -> None:
    images = torch.rand(6, channels, 5, 5, generator=torch.Generator().manual_seed(2))
    light = TrainConfig(**{"brightness": 0.0, "contrast": 0.0, **settings})  # type: ignore[arg-type]
    found = relit(images, light, generator_of(0, 0))
    assert torch.equal(found, images) is not changes
    assert 0 <= found.min() <= found.max() <= 1
