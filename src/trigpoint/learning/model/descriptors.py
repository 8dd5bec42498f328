"""Local latent descriptors (section 3.3): what the image looks like at each landmark."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trigpoint.core.config.tree import ModelConfig
from trigpoint.core.spec import parse
from trigpoint.learning import tensors
from trigpoint.learning.model.detector import Detection
from trigpoint.learning.nets.hourglass import Hourglass


class DescriptorEncoder(nn.Module):
    """Image and detection -> descriptors (B, K+1, C), the last one of the background (Eq. 10)."""

    cells: Tensor  # (h*w, 2) unit coordinates of the feature map's cells

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        spec = parse(config.features)
        shared, size = config.feature_channels, config.descriptor_size
        self.net = Hourglass(spec, config.channels, shared, bias=config.conv_bias)
        self.map_size = config.padded_size // spec.stem_reduction * spec.enlargement
        self.pooling = config.pooling
        self.project = nn.Parameter(torch.empty(config.landmarks + 1, shared, size))  # W_k
        cells = tensors.grid(self.map_size, config.image_size, config.padded_size)
        self.register_buffer("cells", cells, persistent=False)

    def forward(self, padded: Tensor, detection: Detection) -> Tensor:
        features = self.net(padded).flatten(2)  # (B, S, h*w)
        pooled = self.masks(detection) @ features.transpose(1, 2)  # (B, K+1, S)
        return torch.einsum("bks,ksc->bkc", pooled, self.project)

    def masks(self, detection: Detection) -> Tensor:
        """Soft masks (B, K+1, h*w), each of sum 1: Gaussians (Eq. 6), the background by its own map."""
        maps = F.adaptive_avg_pool2d(detection.maps, self.map_size).flatten(2)
        maps = maps / maps.sum(-1, keepdim=True).clamp_min(1e-12)
        if self.pooling == "map":
            return maps
        variance = detection.variances.mean(-1, keepdim=True)  # (B, K, 1)
        # Not narrower than half a cell, where a sampled Gaussian would miss every cell centre.
        half_cell = (self.cells[1, 0] - self.cells[0, 0]) / 2
        spread = variance.clamp_min(half_cell**2)
        square = squared_distances(detection.landmarks, self.cells)  # (B, K, h*w)
        gaussians = torch.softmax(-square / (2 * spread), dim=-1)  # normalised over the cells
        return torch.cat((gaussians, maps[:, -1:]), dim=1)


def squared_distances(points: Tensor, cells: Tensor) -> Tensor:
    """(B, K, 2) and (n, 2) -> (B, K, n)."""
    return (points[:, :, None, :] - cells).square().sum(-1)
