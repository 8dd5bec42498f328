"""Fewer landmarks from many: each of the few is a mean of some of the many, mostly of neighbours.

On faces thirty landmarks were discovered better than ten in the same hour. So a model of K landmarks can
teach a smaller one (`training/stages/distill.py`) what it found. Which means? Those from which all K are best
told by least squares, where what is told counts by how steadily the K are found: what differs between two
views of one image need not be told. No label is looked at. Not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.learning.model.autoencoder import Autoencoder

NEAR = 5.0  # how much the squares of a group's distances from its mean count, in image edges
SHARE = 0.25  # of the noise of the many, as variance: what the few are thought to have when they are taught
FLOOR = 3e-4  # of the image edge: nothing is found more precisely
STEPS = 800
RATE = 0.05
DESCRIPTORS = ("descriptors.project", "decoder.expand")
CHUNK = 4096  # images whose landmarks are in memory at a time


def group(landmarks: NDArray[np.float32], noise: Tensor, count: int) -> Tensor:
    """Weights (count, K) of sums 1: the few landmarks as means of landmarks (n, K, 2) of images.

    `noise` (2K, 2K) is the covariance of what differs between views of one image.
    """
    mean, covariance = moments(landmarks)
    shape = mean.reshape(-1, 2)
    noise = noise + FLOOR**2 * torch.eye(len(noise), dtype=torch.float64)
    worth = torch.linalg.inv(noise)
    between = torch.cdist(shape, shape)
    spread = _spread_out(between, count)
    reach = between[spread][:, spread].fill_diagonal_(math.inf).amin().clamp(FLOOR, 1) / 2
    scores = (-between[spread].square() / (2 * reach**2)).requires_grad_()
    optimiser = torch.optim.Adam([scores], RATE)
    ridge = FLOOR**2 * torch.eye(2 * count, dtype=torch.float64)
    for _ in range(STEPS):
        weights = scores.softmax(1)  # (count, K)
        both = torch.kron(weights, torch.eye(2, dtype=torch.float64))  # (2 count, 2K): x and y alike
        shared = both @ covariance
        seen = both @ (covariance + SHARE * noise) @ both.T + ridge
        told = (torch.linalg.solve(seen, shared @ worth) * shared).sum()
        untold = ((worth * covariance).sum() - told) / len(noise)
        distances = torch.cdist(weights @ shape, shape).square()
        loss = untold + NEAR * (weights * distances).sum() / count
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return weights.detach()


def moments(landmarks: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Mean (2K,) and covariance (2K, 2K) of landmarks (n, K, 2), which may be a file on disk."""
    size = 2 * landmarks.shape[1]
    total, squares = torch.zeros(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    for start in range(0, len(landmarks), CHUNK):
        part = torch.from_numpy(np.array(landmarks[start : start + CHUNK], np.float64)).flatten(1)
        total += part.sum(0)
        squares += part.T @ part
    mean = total / len(landmarks)
    return mean, squares / len(landmarks) - mean[:, None] * mean


def _spread_out(between: Tensor, count: int) -> list[int]:
    """Landmarks far from each other: the innermost, then always the one furthest from all chosen."""
    chosen = [int(between.sum(1).argmin())]
    while len(chosen) < count:
        chosen.append(int(between[chosen].amin(0).argmax()))
    return chosen


def condense(tensors: Mapping[str, Tensor], model: Autoencoder, weights: Tensor) -> dict[str, Tensor]:
    """The weights of a model of many landmarks as some that fit `model`, which has few: a start, no more.

    What belongs to one landmark becomes the mean of what belonged to a group, by `weights` (few, many) of
    `group`. But descriptors have no mean, each landmark's are numbers of a kind of its own: those of the
    group's heaviest landmark.
    """
    heaviest = torch.eye(weights.shape[1])[weights.argmax(1)]
    background = torch.ones(1, 1)  # stays
    means, ones = (torch.block_diag(each.float(), background) for each in (weights, heaviest))
    levels, own = model.config.decoder_levels, model.state_dict()
    mixed: dict[str, Tensor] = {}
    for name, value in tensors.items():
        sizes = zip(value.shape, own[name].shape if name in own else value.shape, strict=False)
        differ = [axis for axis, (before, after) in enumerate(sizes) if before != after]
        if len(differ) == 1:
            mix = ones if name in DESCRIPTORS else means  # (few + 1, many + 1)
            first = value.movedim(differ[0], 0)
            # What the decoder reads: at each bandwidth a map for each landmark, then the shared features.
            parts = first[None] if len(first) == mix.shape[1] else first.unflatten(0, (levels, -1))
            maps = torch.einsum("kj,mj...->mk...", mix, parts[:, : mix.shape[1]])
            value = torch.cat((maps, parts[:, mix.shape[1] :]), 1).flatten(0, 1).movedim(0, differ[0])
        mixed[name] = value
    return mixed
