"""The landmark detector (section 3.1): an image to K landmarks with their spread and confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trigpoint.core.config.tree import ModelConfig
from trigpoint.core.spec import parse
from trigpoint.learning import tensors
from trigpoint.learning.nets.hourglass import Hourglass

NEAR = 0.1  # a landmark's surroundings, in image edges: the radius that its confidence looks at
AFAR = 0.55  # edge of an image that is only looked at to see where the object is, over its usual edge


@dataclass(frozen=True)
class Detection:
    """What the detector says of a batch of images; coordinates are unit coordinates."""

    maps: Tensor  # (B, K+1, h, w) detection confidence D of Eq. 2; the last channel is background
    landmarks: Tensor  # (B, K, 2) mean (x, y) under each map, Eq. 3
    variances: Tensor  # (B, K, 2) variance of each map along x and y


class Detector(nn.Module):
    """The hourglass's raw scores to a Detection.

    The scores are multiplied by a fixed gain. Batch norm gives them a standard deviation of about 1,
    and Adam moves that scale by at most the learning rate a step: in the paper's 300,000 steps far
    enough for sharp maps, in a short run not. Measured: `docs/training.md`.
    """

    cells: Tensor  # (h*w, 2) unit coordinates of the maps' cells

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        spec = parse(config.detector)
        self.net = Hourglass(spec, config.channels, config.landmarks + 1, bias=config.conv_bias)
        self.map_size = config.padded_size // spec.stem_reduction * spec.enlargement
        self.gain = config.detector_gain
        self.sizes = config.image_size, config.padded_size
        self.register_buffer("cells", tensors.grid(self.map_size, *self.sizes), persistent=False)
        # From afar: the next larger size that the net can halve as often as it does.
        self.afar = math.ceil(AFAR * config.padded_size / spec.reduction) * spec.reduction

    def forward(self, padded: Tensor) -> Detection:
        """Padded images (B, C, n, n), of padded_size or made smaller, -> Detection."""
        maps = torch.softmax(self.gain * self.net(padded), dim=1)  # (B, K+1, h, w), Eq. 2
        size = maps.shape[-1]
        cells = self.cells if size == self.map_size else tensors.grid(size, *self.sizes).to(self.cells)
        landmarks, variances = moments(maps[:, :-1], cells)
        return Detection(maps, landmarks, variances)


def moments(maps: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (Eq. 3) and variance per axis of maps (B, K, h, w) over cells (h*w, 2): two (B, K, 2)."""
    weights = maps.flatten(2)  # (B, K, h*w)
    mass = weights.sum(-1, keepdim=True).clamp_min(1e-12)
    weights = weights / mass
    mean = weights @ cells  # (B, K, 2)
    # About the middle of the image, not 0: the difference of two squares then keeps its digits.
    centred = cells - 0.5
    variance = (weights @ centred.square() - (mean - 0.5).square()).clamp_min(0)
    return mean, variance


def confidence(detection: Detection, cells: Tensor) -> Tensor:
    """How much to trust each landmark, (B, K) in [0, 1]: how massive its map is, times how peaked.

    Massive: the highest detection probability anywhere, so how surely some pixel is this landmark
    and not background. Peaked: the share of the map's mass within a tenth of the image edge of the
    landmark. A map that is faint, spread out or split between two places scores low.
    """
    maps = detection.maps[:, :-1].flatten(2)  # (B, K, h*w)
    distance = torch.cdist(detection.landmarks, cells.expand(len(maps), -1, -1))  # (B, K, h*w)
    near = (maps * (distance <= NEAR)).sum(-1) / maps.sum(-1).clamp_min(1e-12)
    return maps.amax(-1) * near
