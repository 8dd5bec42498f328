"""The landmark-based decoder (section 3.4): landmarks and descriptors back to an image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trigpoint.core.config.tree import ModelConfig
from trigpoint.core.spec import parse
from trigpoint.learning import tensors
from trigpoint.learning.model.descriptors import squared_distances
from trigpoint.learning.nets.hourglass import LEAK, Hourglass


class Decoder(nn.Module):
    """Landmarks (B, K, 2) and descriptors (B, K+1, C), or None where C = 0 -> image in [0, 1].

    With a colour margin m the sigmoid's range [m, 1 - m] is the image's [0, 1], so that pure white needs no
    saturated response; the image may then leave [0, 1] a little.
    """

    cells: Tensor  # (h*w, 2)
    variances: Tensor  # (M,)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        spec = parse(config.decoder)
        self.margin = config.colour_margin
        self.map_size = config.image_size // spec.enlargement
        channels = config.landmarks + 1
        if config.descriptor_size:
            shape = (config.landmarks + 1, config.descriptor_size, config.feature_channels)
            self.expand = nn.Parameter(torch.empty(shape))  # the decoder's W_k
            channels += config.feature_channels
        inputs = channels * config.decoder_levels
        self.net = Hourglass(spec, inputs, config.channels, bias=config.conv_bias)
        sigmas = [config.decoder_sigma * math.sqrt(2) ** i for i in range(config.decoder_levels)]
        cells = tensors.grid(self.map_size, config.image_size, config.image_size)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("variances", torch.tensor(sigmas).square(), persistent=False)

    def forward(self, landmarks: Tensor, descriptors: Tensor | None) -> Tensor:
        maps = score_maps(landmarks, self.cells, self.variances)  # (B, M, K+1, h*w)
        if descriptors is not None:
            shared = F.leaky_relu(torch.einsum("bkc,kcs->bks", descriptors, self.expand), LEAK)
            features = torch.einsum("bmkn,bks->bmsn", maps, shared)  # Eq. 13, global unpooling
            maps = torch.cat((maps, features), dim=2)
        size = self.map_size
        inputs = maps.reshape(len(maps), -1, size, size)  # (B, M * (K+1+S), h, w)
        image = torch.sigmoid(self.net(inputs.contiguous(memory_format=torch.channels_last)))
        return (image - self.margin) / (1 - 2 * self.margin) if self.margin else image


def score_maps(landmarks: Tensor, cells: Tensor, variances: Tensor) -> Tensor:
    """Reconstructed detection maps (B, M, K+1, n) at every bandwidth: Eq. 11 and 12.

    Gaussian densities against a background of 1, normalised across the channels.
    """
    square = squared_distances(landmarks, cells)[:, None]  # (B, 1, K, n)
    spread = variances[:, None, None]  # (M, 1, 1)
    scores = torch.exp(-square / (2 * spread)) / (2 * math.pi * spread)  # (B, M, K, n)
    scores = torch.cat((scores, torch.ones_like(scores[:, :, :1])), dim=2)
    return scores / scores.sum(2, keepdim=True)
