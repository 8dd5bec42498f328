"""Images and points as tensors: `core/geometry.py` tells what unit coordinates are."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_tensor(pixels: NDArray[np.uint8]) -> Tensor:
    """(B, n, n, C) bytes -> (B, C, n, n) float32 in [0, 1], channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float().div_(255)


def axis(cells: int, image_size: int, covered: int) -> Tensor:
    """Unit coordinates of `cells` cell centres along an edge of `covered` pixels around the image."""
    pixels = (torch.arange(cells, dtype=torch.float32) + 0.5) * (covered / cells)
    return (pixels - (covered - image_size) / 2) / image_size


def grid(cells: int, image_size: int, covered: int) -> Tensor:
    """Unit coordinates (cells * cells, 2) of a square map's cells, row by row."""
    along = axis(cells, image_size, covered)
    v, u = torch.meshgrid(along, along, indexing="ij")
    return torch.stack((u, v), dim=-1).reshape(-1, 2)


def pad(images: Tensor, padded_size: int) -> Tensor:
    """(B, C, n, n) -> (B, C, padded_size, padded_size), edge values repeated."""
    margin = (padded_size - images.shape[-1]) // 2
    return torch.nn.functional.pad(images, (margin,) * 4, mode="replicate") if margin else images


def sample(images: Tensor, points: Tensor) -> Tensor:
    """Read (B, C, n, n) at unit coordinates (B, h, w, 2), edge values outside: (B, C, h, w)."""
    return torch.nn.functional.grid_sample(
        images, points * 2 - 1, mode="bilinear", padding_mode="border", align_corners=False
    )


def similarity(shape: Tensor, points: Tensor) -> Tensor:
    """The turn, scaling and shift (B, 2, 3) that bring (K, 2) nearest to each of (B, K, 2).

    Without a mirror image; of a single point, or points in one place, a shift alone.
    """
    origin, centre = shape.mean(0), points.mean(1)
    fixed, found = shape - origin, points - centre[:, None]
    spread = fixed.square().sum()
    if spread < 1e-12:
        cos, sin = torch.ones(len(points)), torch.zeros(len(points))
    else:
        cos = (found * fixed).sum((1, 2)) / spread
        sin = (found[..., 1] * fixed[:, 0] - found[..., 0] * fixed[:, 1]).sum(1) / spread
    matrix = torch.stack((cos, -sin, sin, cos), -1).reshape(-1, 2, 2)
    return torch.cat((matrix, (centre - matrix @ origin)[:, :, None]), dim=2)


def turned(maps: Tensor, angle: float) -> Tensor:
    """Maps (B, 2, 3) after a turn of the image about its middle."""
    cos, sin = math.cos(angle), math.sin(angle)
    turn = maps.new_tensor([[cos, -sin], [sin, cos]])
    middle = maps.new_tensor([0.5, 0.5])
    matrix = maps[:, :, :2]
    return torch.cat((matrix @ turn, maps[:, :, 2:] + (matrix @ (middle - turn @ middle))[:, :, None]), dim=2)


def moved(maps: Tensor, points: Tensor) -> Tensor:
    """Points (B, n, 2) under affine maps (B, 2, 3)."""
    return points @ maps[:, :, :2].mT + maps[:, None, :, 2]


def to_bytes(images: Tensor) -> NDArray[np.uint8]:
    """(B, C, n, n) -> (B, n, n, C) bytes: 0 is black, 1 white, and beyond them is as they."""
    return images.permute(0, 2, 3, 1).mul(255).round().clamp(0, 255).byte().contiguous().numpy()
