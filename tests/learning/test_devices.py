"""What random numbers are drawn from."""

from __future__ import annotations

import torch

from trigpoint.learning.devices import generator_of


def test_randomness_follows_from_seed_and_step() -> None:
    def draw(seed: int, step: int) -> list[float]:
        return torch.rand(4, generator=generator_of(seed, step)).tolist()

    assert draw(1, 2) == draw(1, 2)
    assert len({tuple(draw(seed, step)) for seed in range(5) for step in range(5)}) == 25
