"""What defines a generator and its training, as plain values; the landmark model brings its own config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from trigpoint.core.config import values
from trigpoint.core.config.tree import Decay, Share, Weight
from trigpoint.core.config.values import Range


@dataclass(frozen=True)
class GeneratorConfig:
    """Networks and training strategy. The paper gives no sizes: those of `PAPER` are BEGAN's own."""

    latent: Annotated[int, Range(1, 10**5)] = 64  # length of the random vector
    width: Annotated[int, Range(1, 4096)] = (
        48  # channels of the two maps that are fused; doubled at every halving of the latent's
    )
    decoder: str = ""  # notation of the decoding network (`core/spec.py`); "" for the landmark model's own
    critic_width: Annotated[int, Range(1, 1024)] = (
        32  # of the discriminator's first level, n, 2n, 3n ... below it
    )
    critic_hidden: Annotated[int, Range(1, 10**5)] = (
        64  # length of the code between the discriminator's encoder and decoder
    )
    gamma: Share = 0.7  # wanted energy of generated over that of real images: diversity against quality
    gain: Weight = 0.005  # lambda_k, the step of the equilibrium
    cycle: Weight = 10.0  # weight of the landmarks' L1 distance
    apart: Weight = 0.5  # weight of the loss that keeps two samples of one structure apart; not in the paper
    distance: Weight = 0.45  # how far: this share of the distance of two real images
    steps: Annotated[int, Range(1, 10**9)] = 6000
    batch_size: Annotated[int, Range(2, 10**5)] = 16
    learning_rate: Annotated[float, Range(above=0)] = 4e-4
    beta1: Decay = 0.5  # of Adam
    decay_from: Share = 0.5  # the learning rate falls to 0 from this share of the run on
    ema: Decay = 0.999  # decay of the generator's moving average, which is what samples
    recalibration_images: Annotated[int, Range(2, 10**9)] = 1024
    seed: Annotated[int, Range(0, 2**31 - 1)] = 0


COMPACT = GeneratorConfig()
PAPER = GeneratorConfig(
    latent=64,
    width=128,
    decoder="64/out 64/32 S2 P 128/64 S2 P 256 S2 P 512",
    critic_width=128,
    critic_hidden=64,
    gamma=0.5,
    gain=0.001,
    apart=0.0,
    steps=200_000,
    learning_rate=1e-4,
    decay_from=0.75,
)
PRESETS = {"compact": COMPACT, "paper": PAPER}


def from_dict(tree: Any) -> GeneratorConfig:
    return values.build(GeneratorConfig, tree, "generator")


def with_values(config: GeneratorConfig, assignments: Sequence[str]) -> GeneratorConfig:
    """Change single values, as `--set gamma=0.7 steps=500` does."""
    return values.with_values(config, assignments, "generator")
