"""The one home of coordinates.

Inside cairns a point is (x, y) in *unit coordinates*: the image's edge is 1, (0, 0) its top left
corner, (1, 1) its bottom right one, and the centre of pixel i of n lies at (i + 0.5) / n. Padding
does not change them: it only lets points lie outside [0, 1]. At the boundary a point is (x, y) in
pixels of the caller's image, where the centre of the first pixel is (0.5, 0.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Fit = Literal["pad", "crop", "stretch"]
MAX_CANVAS = 64_000_000  # pixels of a padded image that may be in memory


@dataclass(frozen=True)
class Placement:
    """The box of the original image, in its pixels, that becomes the model's square image."""

    x: int
    y: int
    width: int
    height: int

    def to_original(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Unit coordinates (..., 2) -> pixels of the original image."""
        return np.asarray(points, np.float64) * (self.width, self.height) + (self.x, self.y)

    def to_unit(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Pixels of the original image (..., 2) -> unit coordinates."""
        return (np.asarray(points, np.float64) - (self.x, self.y)) / (self.width, self.height)


def fit_box(width: int, height: int, fit: Fit) -> Placement:
    """How an image of any aspect becomes square: `pad` its short side, `crop` its long one, `stretch`."""
    if fit == "stretch":
        return Placement(0, 0, width, height)
    edge = max(width, height) if fit == "pad" else min(width, height)
    return Placement((width - edge) // 2, (height - edge) // 2, edge, edge)


def extract(image: NDArray[np.uint8], box: Placement, size: int) -> NDArray[np.uint8]:
    """Cut the box out of (H, W, C), repeating edge values outside the image, and scale it to `size`."""
    height, width, channels = image.shape
    inside = box.x >= 0 and box.y >= 0 and box.x + box.width <= width and box.y + box.height <= height
    if not inside and box.width * box.height > MAX_CANVAS:
        # A very long image made square by padding would not fit into memory: shrink it first.
        by = math.ceil(math.sqrt(box.width * box.height / MAX_CANVAS))
        width, height = max(1, width // by), max(1, height // by)
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        image = np.asarray(small, np.uint8).reshape(height, width, channels)
        box = Placement(box.x // by, box.y // by, max(1, box.width // by), max(1, box.height // by))
    left, top = max(0, -box.x), max(0, -box.y)
    right = max(0, box.x + box.width - width)
    bottom = max(0, box.y + box.height - height)
    if left or top or right or bottom:
        framed = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_REPLICATE)
        image = np.asarray(framed, np.uint8).reshape(*framed.shape[:2], channels)
    part = image[box.y + top : box.y + top + box.height, box.x + left : box.x + left + box.width]
    shrinks = box.width >= size and box.height >= size
    scaled = cv2.resize(part, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return np.asarray(scaled, np.uint8).reshape(size, size, channels)


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
