"""The optimiser of a training: the paper's Adam, or Muon, which learns more from each step.

The mean of a kernel's recent gradients is a matrix, output channels by the rest. Most of its length lies
along a few directions; a step along the gradient, or Adam's along its signs, moves mostly those. Muon steps
along the nearest matrix whose singular values are all one, so that every direction is learnt (Jordan et al.
2024). That matrix is found by a few products (Newton-Schulz). The step is as long as one of Adam's (Liu et
al. 2025), so learning rates mean the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from trigpoint.core.config.tree import TrainConfig

ROUNDS = 5  # of the iteration
QUINTIC = (3.4445, -4.7750, 2.0315)  # brings singular values near one fast, not exactly: between 0.7 and 1.2
TOGETHER = 32  # squares whose sizes have the same multiple of this next above them are iterated at once
LIKE_ADAM = 0.2  # root mean square of a step of Adam's over the learning rate


def optimiser_of(settings: TrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.Adam | Muon:
    kind = Muon if settings.optimiser == "muon" else torch.optim.Adam
    betas = (0.9, settings.beta2)
    return kind(parameters, lr=settings.learning_rate, betas=betas, weight_decay=settings.weight_decay)


class Muon(torch.optim.Optimizer):
    """Muon for convolution kernels, Adam for everything else, with one learning rate.

    `weight_decay` shrinks the kernels alone, by its product with the learning rate at every step. A kernel
    before a batch norm means the same at any length, so a step counts by its length over the kernel's: where
    nothing shrinks them kernels grow, here twelvefold in an hour, and steps count for less and less.
    """

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
        self.adam: torch.optim.Adam | None = None
        if others:
            self.adam = torch.optim.Adam(others, lr, betas, fused=True)
            self.adam.state = self.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (settings,) = self.param_groups
        if self.adam is not None:
            self.adam.param_groups[0]["lr"] = settings["lr"]
            self.adam.step()
        memory, decay = settings["betas"][0], settings["weight_decay"]
        moved = [kernel for kernel in self.kernels if kernel.grad is not None]
        ahead = []
        for kernel in moved:
            state = self.state[kernel]
            if not state:
                state["momentum"] = torch.zeros_like(kernel)
            mean = state["momentum"].lerp_(kernel.grad, 1 - memory)
            ahead.append(kernel.grad.lerp(mean, memory).flatten(1))  # Nesterov's
        for kernel, step in zip(moved, orthogonal(ahead), strict=True):
            length = LIKE_ADAM * max(step.shape) ** 0.5
            kernel.mul_(1 - settings["lr"] * decay)
            kernel.sub_(step.reshape(kernel.shape), alpha=settings["lr"] * length)


def orthogonal(matrices: Sequence[Tensor]) -> list[Tensor]:
    """For each matrix one with the same singular vectors and singular values near one.

    Each round multiplies the matrix by a polynomial of its square, which is small where the matrix is long:
    only the squares are iterated, and their product is applied once. Half the work here. Squares of about one
    size are iterated together, the smaller ones within zeros: hundreds of small products are mostly calls.
    """
    wide = [matrix if len(matrix) <= matrix.shape[1] else matrix.T for matrix in matrices]
    scaled = [matrix / matrix.norm().clamp_min(1e-12) for matrix in wide]
    alike: dict[int, list[int]] = defaultdict(list)
    for i, matrix in enumerate(scaled):
        alike[-(-len(matrix) // TOGETHER) * TOGETHER].append(i)
    found = list(scaled)
    for size, members in alike.items():
        squares = scaled[members[0]].new_zeros(len(members), size, size)
        for square, i in zip(squares, members, strict=True):
            rows = len(scaled[i])
            torch.mm(scaled[i], scaled[i].T, out=square[:rows, :rows])
        for product, i in zip(_iterate(squares), members, strict=True):
            rows = len(scaled[i])
            found[i] = product[:rows, :rows] @ scaled[i]
    return [
        step if step.shape == matrix.shape else step.T for step, matrix in zip(found, matrices, strict=True)
    ]


def _iterate(squares: Tensor) -> Tensor:
    """What to multiply matrices with whose squares these are, (N, m, m)."""
    a, b, c = QUINTIC
    product: Tensor | None = None
    for i in range(ROUNDS):
        factor = torch.baddbmm(squares, squares, squares, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else factor @ product
        if i < ROUNDS - 1:
            squares = factor @ squares @ factor
    assert product is not None
    return product
