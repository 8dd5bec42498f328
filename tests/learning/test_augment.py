"""Brightness, contrast, tint, exposure, shade and blur: their bounds, and when they change nothing."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from trigpoint.core.config.tree import TrainConfig
from trigpoint.learning.augment import augmented, blur, expose, jitter, shade, tint
from trigpoint.learning.devices import generator_of


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


def test_exposure_is_one_power_for_an_image_within_its_bound() -> None:
    images = torch.rand(500, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 0.8 + 0.1
    powers = expose(images, 0.6, generator_of(0, 0)).log() / images.log()
    torch.testing.assert_close(powers, powers[:, :1, :1, :1].expand_as(powers), atol=1e-4, rtol=1e-4)
    assert np.exp(-0.6) - 1e-4 <= powers.min() < 0.57
    assert 1.75 < powers.max() <= np.exp(0.6) + 1e-4


def test_shade_is_a_ramp_across_the_image_within_its_bound() -> None:
    grey = torch.full((500, 3, 9, 9), 0.5)
    ramps = shade(grey, 0.4, generator_of(0, 0)) / 0.5
    torch.testing.assert_close(ramps[:, :, 4, 4], torch.ones(500, 3))  # the middle stays
    torch.testing.assert_close(ramps.diff(dim=3), ramps.diff(dim=3)[:, :1, :1, :1].expand(500, 3, 9, 8))
    slopes = torch.stack((ramps[:, 0, 4, 8] - 1, ramps[:, 0, 8, 4] - 1), -1)
    assert 0.39 < slopes.norm(dim=1).max() <= 0.4 + 1e-5
    assert slopes.norm(dim=1).min() < 0.02
    assert (slopes.amin(0) < -0.3).all()  # every direction
    assert (slopes.amax(0) > 0.3).all()


def test_blurred_images_lie_between_themselves_and_what_opencv_makes_of_them() -> None:
    images = torch.rand(60, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    found = blur(images, 1.0, generator_of(0, 0))
    row = np.array([1.0, 4, 6, 4, 1]) / 16
    shares = []
    for before, after in zip(images.numpy(), found.numpy(), strict=True):
        plane = before.transpose(1, 2, 0)
        smooth = cv2.sepFilter2D(plane, -1, row, row, borderType=cv2.BORDER_REPLICATE).transpose(2, 0, 1)
        share = ((after - before) * (smooth - before)).sum() / ((smooth - before) ** 2).sum()
        np.testing.assert_allclose(after, before + share * (smooth - before), atol=1e-5)
        shares.append(share)
    assert 0.3 < np.mean(np.array(shares) < 1e-6) < 0.7
    assert 0.9 < max(shares) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("settings", "channels", "changes"),
    [
        ({"tint": 0.0}, 3, False),
        ({"tint": 0.25}, 3, True),
        ({"tint": 0.25}, 1, False),  # grey images have no colours to fade
        ({"brightness": 0.1}, 1, True),
        ({"contrast": 0.3}, 3, True),
        ({"gamma": 0.5}, 1, True),
        ({"shade": 0.5}, 3, True),
        ({"blur": 1.0}, 3, True),
    ],
)
def test_images_are_augmented_as_the_settings_say(
    settings: dict[str, float], channels: int, changes: bool
) -> None:
    images = torch.rand(6, channels, 5, 5, generator=torch.Generator().manual_seed(2))
    asked = TrainConfig(**{"brightness": 0.0, "contrast": 0.0, **settings})  # type: ignore[arg-type]
    found = augmented(images, asked, generator_of(0, 0))
    assert torch.equal(found, images) is not changes
    assert 0 <= found.min() <= found.max() <= 1
