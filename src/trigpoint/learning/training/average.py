"""The moving average of a network's weights, which is kept as the model."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Average:
    """Of a network's weights; with a decay of 0 there is none, and the weights themselves are kept."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.weights: dict[str, Tensor] = {}
        if decay:
            self.weights = {name: value.detach().clone() for name, value in network.named_parameters()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After a step. The first steps count for more, as before them there is little to average."""
        for name, value in self.network.named_parameters() if self.weights else ():
            self.weights[name].lerp_(value, 1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def copy_to(self, network: nn.Module) -> None:
        """Give the average to the network, or to a copy of it."""
        for name, value in network.named_parameters() if self.weights else ():
            value.copy_(self.weights[name])
