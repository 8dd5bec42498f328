"""BEGAN's balance and the cyclic loss, one function each."""

from __future__ import annotations

from torch import Tensor


def critic_loss(real: Tensor, made: Tensor, k: Tensor) -> Tensor:
    """Energies of real and generated images -> what the critic lowers: L(x) - k_t L(G(z))."""
    return real.mean() - k * made.mean()


def next_k(k: Tensor, real: Tensor, made: Tensor, gamma: float, gain: float) -> Tensor:
    """k_t one step on: towards the equilibrium where L(G(z)) = gamma L(x); stays within [0, 1]."""
    return (k + gain * (gamma * real.mean() - made.mean())).clamp(0, 1)


def convergence(real: Tensor, made: Tensor, gamma: float) -> Tensor:
    """BEGAN's global measure M = L(x) + |gamma L(x) - L(G(z))|: lower is better and more balanced."""
    return real.mean() + (gamma * real.mean() - made.mean()).abs()


def cycle(found: Tensor, wanted: Tensor) -> Tensor:
    """L1 distance between the landmarks (B, K, 2) found on generated images and those they were made for."""
    return (found - wanted).abs().sum(-1).mean()
