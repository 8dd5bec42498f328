"""Photometric augmentation, for landmarks that do not depend on it, and mirrored images.

Random brightness and contrast are the paper's; tint, exposure, shade and blur are for photos of other kinds
than those of training.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from trigpoint.core.config.tree import TrainConfig


def mirrored(images: Tensor, settings: TrainConfig, generator: torch.Generator) -> Tensor:
    """Half of the images (B, C, n, n) with left and right swapped, if the settings say so."""
    if not settings.mirror:
        return images
    chosen = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def augmented(images: Tensor, settings: TrainConfig, generator: torch.Generator) -> Tensor:
    """Each image (B, C, n, n) with its own draw of what the settings have, clipped to [0, 1]."""
    if settings.brightness or settings.contrast:
        images = jitter(images, settings.brightness, settings.contrast, generator)
    if settings.tint and images.shape[1] == 3:
        images = tint(images, settings.tint, generator)
    if settings.gamma:
        images = expose(images, settings.gamma, generator)
    if settings.shade:
        images = shade(images, settings.shade, generator)
    if settings.blur:
        images = blur(images, settings.blur, generator)
    return images


def jitter(images: Tensor, brightness: float, contrast: float, generator: torch.Generator) -> Tensor:
    """Random contrast (about the image's mean) and brightness, one draw per image, clipped to [0, 1]."""
    shape = (len(images), 1, 1, 1)
    gain = 1 + contrast * (2 * torch.rand(shape, generator=generator) - 1)
    shift = brightness * (2 * torch.rand(shape, generator=generator) - 1)
    mean = images.mean((1, 2, 3), keepdim=True)
    return ((images - mean) * gain + mean + shift).clamp(0, 1)


def tint(images: Tensor, amount: float, generator: torch.Generator) -> Tensor:
    """Colours faded at random, as far as grey, and for each channel a factor of 1 plus or minus `amount`.

    A fifth of the images keep their colours. Not in the paper: for photos that are grey or toned.
    """
    kept = (1.25 * torch.rand(len(images), 1, 1, 1, generator=generator)).clamp(max=1)
    gains = 1 + amount * (2 * torch.rand(len(images), images.shape[1], 1, 1, generator=generator) - 1)
    grey = images.mean(1, keepdim=True)
    return ((grey + kept * (images - grey)) * gains).clamp(0, 1)


def expose(images: Tensor, amount: float, generator: torch.Generator) -> Tensor:
    """Colour values to a power between exp(-amount) and exp(amount): bright and dark photos."""
    draw = 2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1
    return images.clamp_min(1e-4) ** torch.exp(amount * draw)


def shade(images: Tensor, amount: float, generator: torch.Generator) -> Tensor:
    """Darker towards one side and brighter towards the other, by `amount` at most, as lit from a side."""
    angle = 2 * math.pi * torch.rand(len(images), 1, 1, 1, generator=generator)
    strength = amount * torch.rand(len(images), 1, 1, 1, generator=generator)
    y = torch.linspace(-1, 1, images.shape[2])[:, None]
    x = torch.linspace(-1, 1, images.shape[3])
    return (images * (1 + strength * (torch.cos(angle) * x + torch.sin(angle) * y))).clamp(0, 1)


def blur(images: Tensor, amount: float, generator: torch.Generator) -> Tensor:
    """Half of the images out of focus: up to `amount` of the way to their means over 5 by 5 pixels."""
    row = torch.tensor([1.0, 4, 6, 4, 1]) / 16
    kernel = (row[:, None] * row).expand(images.shape[1], 1, 5, 5)
    smooth = conv2d(pad(images, (2, 2, 2, 2), mode="replicate"), kernel, groups=images.shape[1])
    share = (2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1).clamp_min(0)
    return torch.lerp(images, smooth, amount * share)
