"""The optimiser of a training: the paper's Adam, or Muon, which learns more from each step.

The mean of a kernel's recent gradients is a matrix, output channels by the rest. Most of its length lies
along a few directions; a step along the gradient, or Adam's along its signs, moves mostly those. Muon steps
along the nearest matrix whose singular values are all one, so that every direction is learnt (Jordan et al.
2024). That matrix is found by a few products (Newton-Schulz). The step is as long as one of Adam's (Liu et
al. 2025), so learning rates mean the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from cairns.config import TrainConfig

ROUNDS = 5  # of the iteration
QUINTIC = (3.4445, -4.7750, 2.0315)  # brings singular values near one fast, not exactly: between 0.7 and 1.2
LIKE_ADAM = 0.2  # root mean square of a step of Adam's over the learning rate


def optimiser_of(settings: TrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.Adam | Muon:
    kind = Muon if settings.optimiser == "muon" else torch.optim.Adam
    betas = (0.9, settings.beta2)
    return kind(parameters, lr=settings.learning_rate, betas=betas, weight_decay=settings.weight_decay)


class Muon(torch.optim.Optimizer):
    """Muon for convolution kernels, Adam for everything else, with one learning rate."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        everything = [parameter for group in self.param_groups for parameter in group["params"]]
        self.kernels = [parameter for parameter in everything if parameter.ndim == 4]
        others = [parameter for parameter in everything if parameter.ndim != 4]
        self.adam = torch.optim.Adam(others, lr, betas, weight_decay=weight_decay) if others else None
        if self.adam is not None:
            self.adam.state = self.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (settings,) = self.param_groups
        if self.adam is not None:
            self.adam.param_groups[0]["lr"] = settings["lr"]
            self.adam.step()
        memory, decay = settings["betas"][0], settings["weight_decay"]
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for kernel in self.kernels:
            if kernel.grad is None:
                continue
            gradient = kernel.grad.add(kernel, alpha=decay)
            state = self.state[kernel]
            if not state:
                state["momentum"] = torch.zeros_like(gradient)
            mean = state["momentum"].lerp_(gradient, 1 - memory)
            ahead = gradient.lerp(mean, memory).flatten(1)  # Nesterov's
            alike[ahead.shape].append((kernel, ahead))
        for shape, pairs in alike.items():
            length = LIKE_ADAM * max(shape) ** 0.5
            steps = orthogonal(torch.stack([ahead for _, ahead in pairs]))
            for (kernel, _), step in zip(pairs, steps, strict=True):
                kernel.sub_(step.reshape(kernel.shape), alpha=settings["lr"] * length)


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, m, n) -> the same singular vectors with singular values near one.

    Each round multiplies the matrix by a polynomial of its square, which is small where the matrix is long:
    only the squares are iterated, and their product is applied once. Half the work here.
    """
    wide = matrices if matrices.shape[1] <= matrices.shape[2] else matrices.mT
    scaled = wide / wide.norm(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    a, b, c = QUINTIC
    square, product = scaled @ scaled.mT, torch.eye(scaled.shape[1]).to(scaled).expand(len(scaled), -1, -1)
    for _ in range(ROUNDS):
        factor = torch.baddbmm(b * square, square, square, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor @ product
        square = factor @ square @ factor
    found = product @ scaled
    return found if wide is matrices else found.mT
