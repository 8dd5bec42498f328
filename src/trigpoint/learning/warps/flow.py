"""Optical flow between frames of a video, the other known transformation (appendix C.1).

A flow field (H, W, 2) says, in image edges, how far each pixel of one frame is from its place in another:
g(p) = p + flow(p). Fields point back in time, from a frame of the batch to an earlier one.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.learning import tensors

# Pixels added around: in its last row and column OpenCV sees motion, also where a frame is the same.
MARGIN = 8


def farneback(later: NDArray[np.uint8], earlier: NDArray[np.uint8]) -> NDArray[np.float32]:
    """OpenCV's dense flow from a grey frame (n, n) to an earlier one: (n, n, 2) in image edges."""
    new, old = (np.pad(frame, MARGIN, mode="edge") for frame in (later, earlier))
    flow = cv2.calcOpticalFlowFarneback(
        new, old, np.empty((*new.shape, 2), np.float32), 0.5, 4, 15, 5, 7, 1.5,
        cv2.OPTFLOW_FARNEBACK_GAUSSIAN,
    )  # fmt: skip
    return np.asarray(flow, np.float32)[MARGIN:-MARGIN, MARGIN:-MARGIN] / np.float32(len(later))


def follow(flow: Tensor, points: Tensor) -> Tensor:
    """Where points (B, K, 2) of the later frame were: flow (B, 2, h, w), both in image edges."""
    return points + tensors.sample(flow, points[:, :, None])[..., 0].transpose(1, 2)


def compose(first: Tensor, second: Tensor) -> Tensor:
    """The flow of two intervals as one: `first` from the latest frame to the middle one, `second` from there
    to the earliest; each (B, 2, h, w)."""
    size = first.shape[-1]
    cells = tensors.grid(size, size, size).reshape(1, size, size, 2)
    landed = cells + first.permute(0, 2, 3, 1)  # (B, h, w, 2)
    return first + tensors.sample(second, landed)


def preference(flow: Tensor, landmarks: Tensor, sigma: float, form: str = "scale-free") -> Tensor:
    """The loss that draws landmarks (B, K, 2) to where things move (appendix C.1): a scalar.

    The mean of the landmarks' Gaussian heat maps under the squared flow. `printed`: their densities, summed
    over landmarks; a density grows as 1 / sigma^2, so its size depends on the unit of length. `scale-free`:
    the same Gaussians with a peak of 1, averaged over landmarks: between -1 (all landmarks on all of the
    motion) and 0. Frames in which nothing moves count for nothing.
    """
    size = flow.shape[-1]
    cells = tensors.grid(size, size, size)
    strength = flow.square().sum(1).flatten(1)  # (B, h*w)
    square = (landmarks[:, :, None] - cells).square().sum(-1)  # (B, K, h*w)
    maps = torch.exp(-square / (2 * sigma**2))
    maps = maps.sum(1) / (2 * torch.pi * sigma**2) if form == "printed" else maps.mean(1)
    total = strength.sum(-1)
    return -((strength * maps).sum(-1) / total.clamp_min(1e-12) * (total > STILL * size**2)).mean()


STILL = 1e-8  # mean squared flow, in image edges, below which a frame stands still
