"""The light that images are seen in: random brightness, contrast and tint, for landmarks that mind none."""

from __future__ import annotations

import torch
from torch import Tensor

from cairns.config import TrainConfig


def relit(images: Tensor, settings: TrainConfig, generator: torch.Generator) -> Tensor:
    """Each image (B, C, n, n) in a light of its own, as far as the settings go, clipped to [0, 1]."""
    if settings.brightness or settings.contrast:
        images = jitter(images, settings.brightness, settings.contrast, generator)
    if settings.tint and images.shape[1] == 3:
        images = tint(images, settings.tint, generator)
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
