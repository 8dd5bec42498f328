"""The settings of a generator: kept whole, changed one by one, refused in one sentence."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch

from trigpoint.core.config.generator import COMPACT, PRESETS, GeneratorConfig, from_dict, with_values
from trigpoint.core.config.presets import compact
from trigpoint.core.errors import TrigpointError
from trigpoint.learning.generation.networks import Critic, Generator


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_json(name: str) -> None:
    text = json.dumps(dataclasses.asdict(PRESETS[name]))
    assert from_dict(json.loads(text)) == PRESETS[name]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fit_faces(name: str) -> None:
    model = compact(10).model
    generator, critic = Generator(PRESETS[name], model).eval(), Critic(PRESETS[name], model)
    with torch.no_grad():
        made = generator(torch.zeros(1, PRESETS[name].latent), torch.full((1, 10, 2), 0.5))
        assert made.shape == critic(made).shape == (1, 3, 64, 64)


def test_values_are_changed_one_by_one() -> None:
    changed = with_values(COMPACT, ["gamma=0.7", "steps=500", "decoder=| 8 | out", "cycle=5"])
    assert changed == dataclasses.replace(COMPACT, gamma=0.7, steps=500, decoder="| 8 | out", cycle=5.0)
    assert isinstance(changed.cycle, float)
    assert with_values(COMPACT, []) == COMPACT
    assert with_values(COMPACT, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("gamma", "--set takes name=value, such as seed=3; got 'gamma'."),
        ("nose=1", "there is no value 'nose'; there are latent, width, decoder,"),
        ("gamma=1.5", "generator.gamma must be between 0 and 1; got 1.5."),
        ("gamma=-0.1", "generator.gamma must be between 0 and 1; got -0.1."),
        ("gamma=NaN", "generator.gamma must be a finite number; got nan."),
        ("cycle=Infinity", "generator.cycle must be a finite number; got inf."),
        ("gain=-1", "generator.gain must be at least 0; got -1.0."),
        ("latent=0", "generator.latent must be between 1 and 100000; got 0."),
        ("width=0", "generator.width must be between 1 and 4096; got 0."),
        ("critic_width=0", "generator.critic_width must be between 1 and 1024; got 0."),
        ("critic_hidden=-3", "generator.critic_hidden must be between 1 and 100000; got -3."),
        ("steps=0", "generator.steps must be between 1 and 1000000000; got 0."),
        ("steps=1.5", "generator.steps must be of type int; got 1.5."),
        ("steps=many", "generator.steps must be of type int; got 'many'."),
        ("steps=true", "generator.steps must be of type int; got True."),
        ("batch_size=1", "generator.batch_size must be between 2 and 100000; got 1."),
        ("learning_rate=0", "generator.learning_rate must be above 0; got 0.0."),
        ("learning_rate=-1e-3", "generator.learning_rate must be above 0; got -0.001."),
        ("beta1=1", "generator.beta1 must be between 0 and 0.999999; got 1.0."),
        ("ema=1", "generator.ema must be between 0 and 0.999999; got 1.0."),
        ("decay_from=1.1", "generator.decay_from must be between 0 and 1; got 1.1."),
        ("recalibration_images=1", "generator.recalibration_images must be between 2 and 1000000000; got 1."),
        ("seed=-1", "generator.seed must be between 0 and 2147483647; got -1."),
        ("seed=2147483648", "generator.seed must be between 0 and 2147483647; got 2147483648."),
        ("decoder=5", "generator.decoder must be of type str; got 5."),
    ],
)
def test_impossible_values_are_refused(assignment: str, words: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        with_values(COMPACT, [assignment])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tree", [None, [], {"nose": 1}, {"steps": None}])
def test_what_is_no_settings_is_refused(tree: Any) -> None:
    with pytest.raises(TrigpointError, match="generator"):
        from_dict(tree)


def test_what_is_left_out_is_the_default() -> None:
    assert from_dict({"steps": 7}) == GeneratorConfig(steps=7)
