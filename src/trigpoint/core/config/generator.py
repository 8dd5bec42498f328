"""What defines a generator and its training, as plain values; the landmark model brings its own config."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from dataclasses import dataclass
from typing import Any

from trigpoint.core.config.tree import build
from trigpoint.core.errors import TrigpointError


@dataclass(frozen=True)
class GeneratorConfig:
    """Networks and training strategy. The paper gives no sizes: those of `PAPER` are BEGAN's own."""

    latent: int = 64  # length of the random vector
    width: int = 48  # channels of the two maps that are fused; doubled at every halving of the latent's
    decoder: str = ""  # notation of the decoding network (`nets/spec.py`); "" for the landmark model's own
    critic_width: int = 32  # of the discriminator's first level, n, 2n, 3n ... below it
    critic_hidden: int = 64  # length of the code between the discriminator's encoder and decoder
    gamma: float = 0.7  # wanted energy of generated over that of real images: diversity against quality
    gain: float = 0.005  # lambda_k, the step of the equilibrium
    cycle: float = 10.0  # weight of the landmarks' L1 distance
    apart: float = 0.5  # weight of the loss that keeps two samples of one structure apart; not in the paper
    distance: float = 0.45  # how far: this share of the distance of two real images
    steps: int = 6000
    batch_size: int = 16
    learning_rate: float = 4e-4
    beta1: float = 0.5  # of Adam
    decay_from: float = 0.5  # the learning rate falls to 0 from this share of the run on
    ema: float = 0.999  # decay of the generator's moving average, which is what samples
    recalibration_images: int = 1024
    seed: int = 0


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

LEAST = {
    "latent": 1, "width": 1, "critic_width": 1, "critic_hidden": 1, "gamma": 0, "gain": 0, "cycle": 0,
    "apart": 0, "distance": 0, "steps": 1, "batch_size": 2, "beta1": 0, "decay_from": 0, "ema": 0,
    "recalibration_images": 2, "seed": 0,
}  # fmt: skip
MOST = {
    "latent": 10**5, "width": 4096, "critic_width": 1024, "critic_hidden": 10**5, "steps": 10**9,
    "batch_size": 10**5, "recalibration_images": 10**9, "gamma": 1, "beta1": 0.999999, "decay_from": 1,
    "ema": 0.999999, "seed": 2**31 - 1,
}  # fmt: skip


def from_dict(tree: Any) -> GeneratorConfig:
    config = typing.cast(GeneratorConfig, build(GeneratorConfig, tree, "generator"))
    for name, value in vars(config).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise TrigpointError(f"generator.{name} must be a finite number; got {value}.")
        if name in LEAST and value < LEAST[name]:
            raise TrigpointError(f"generator.{name} must be at least {LEAST[name]}; got {value}.")
        if name in MOST and value > MOST[name]:
            raise TrigpointError(f"generator.{name} must be at most {MOST[name]}; got {value}.")
    if config.learning_rate <= 0:
        raise TrigpointError(f"generator.learning_rate must be above 0; got {config.learning_rate}.")
    return config


def with_values(config: GeneratorConfig, assignments: typing.Sequence[str]) -> GeneratorConfig:
    """Change single values, as `--set gamma=0.7 steps=500` does."""
    tree = dataclasses.asdict(config)
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise TrigpointError(f"--set takes name=value, such as gamma=0.7; got {assignment!r}.")
        if name not in tree:
            raise TrigpointError(f"--set: a generator has no value {name!r}; it has {', '.join(tree)}.")
        try:
            tree[name] = json.loads(text)
        except ValueError:
            tree[name] = text
    return from_dict(tree)
