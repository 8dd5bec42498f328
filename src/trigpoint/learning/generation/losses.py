"""BEGAN's balance, and what keeps samples apart, one function each; the cyclic loss is `losses.cycle`."""

from __future__ import annotations

from torch import Tensor


def next_k(k: Tensor, real: Tensor, made: Tensor, gamma: float, gain: float) -> Tensor:
    """k_t one step on: towards the equilibrium where L(G(z)) = gamma L(x); stays within [0, 1]."""
    return (k + gain * (gamma * real.mean() - made.mean())).clamp(0, 1)


def convergence(real: Tensor, made: Tensor, gamma: float) -> Tensor:
    """BEGAN's global measure M = L(x) + |gamma L(x) - L(G(z))|: lower is better and more balanced."""
    return real.mean() + (gamma * real.mean() - made.mean()).abs()


def apart(made: Tensor, real: Tensor, distance: float) -> Tensor:
    """What keeps samples from being all the same, which BEGAN alone does not (mode seeking, Mao et al. 2019).

    Images (B, C, n, n), those of one structure B / 2 places apart. Two of them should differ by `distance`
    times what two real images differ by, in mean absolute pixels; more is not rewarded.
    """
    half = len(made) // 2
    between = (made[:half] - made[half : 2 * half]).abs().mean((1, 2, 3))  # (B/2,)
    usual = (real[:half] - real[half : 2 * half]).abs().mean()
    return (distance - between / usual.clamp(min=1e-3)).clamp(min=0).mean()
