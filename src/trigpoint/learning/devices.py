"""Where tensors live, and what random numbers are drawn from: nothing else names a device."""

from __future__ import annotations

import torch

from trigpoint.core.errors import TrigpointError


def generator_of(seed: int, step: int) -> torch.Generator:
    """All randomness of a step follows from seed and step, so a resumed run repeats it exactly."""
    return torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)


def use_threads(count: int | None) -> None:
    """How many threads this process computes with; None for as many as there are cores."""
    if count is None:
        return
    if count < 1:
        raise TrigpointError(f"--threads must be at least 1; got {count}.")
    torch.set_num_threads(count)
