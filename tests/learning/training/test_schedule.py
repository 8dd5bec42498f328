"""What changes while training goes on."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, TrainConfig, with_steps
from trigpoint.learning.training import stages
from trigpoint.learning.training.schedule import (
    eqv_weight,
    landmark_share,
    learning_rate,
    recon_weights,
)


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 1e-3), (99_999, 1e-3), (100_000, 1e-4), (199_999, 1e-4), (200_000, 1e-5), (299_999, 1e-5)],
)
def test_the_paper_s_learning_rate_falls_tenfold_twice(step: int, rate: float) -> None:
    assert learning_rate(preset("celeba-10").train, step) == pytest.approx(rate)


@pytest.mark.parametrize(("step", "rate"), [(39_999, 1e-3), (40_000, 1e-4), (80_000, 1e-5)])
def test_each_row_of_the_table_has_its_own_steps(step: int, rate: float) -> None:
    assert learning_rate(preset("car-10").train, step) == pytest.approx(rate)


def test_cosine_falls_from_the_full_rate_to_0() -> None:
    train = TrainConfig(steps=1000, learning_rate=2e-3, schedule="cosine", warmup=0)
    rates = [learning_rate(train, step) for step in range(1001)]
    assert rates[0] == pytest.approx(2e-3)
    assert rates[500] == pytest.approx(1e-3)
    assert rates[1000] == pytest.approx(0, abs=1e-12)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))


def test_warm_up_is_linear_and_never_0() -> None:
    train = TrainConfig(steps=10**9, learning_rate=1.0, schedule="cosine", warmup=4)
    assert [learning_rate(train, step) for step in range(6)] == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_reconstruction_weight_is_raised_tenfold_twice() -> None:
    config = preset("car-10")  # first value 0.001, raised at 40,000 and 50,000
    found = [recon_weights(config, step)["recon"] for step in (0, 39_999, 40_000, 49_999, 50_000, 10**6)]
    assert found == pytest.approx([0.001, 0.001, 0.01, 0.01, 0.1, 0.1])


def test_both_raises_count_where_they_fall_on_one_step() -> None:
    config = preset("celeba-10")
    config = replace(config, train=replace(config.train, recon_raise_at=(10, 10)))
    assert recon_weights(config, 9)["recon"] == pytest.approx(0.01)
    assert recon_weights(config, 10)["recon"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("discover", {"recon": 0.1, "ssim": 0.0, "conc": 100.0, "sep": 16.0, "eqv": 1e4, "flow": 0.0}),
        ("distill", {"eqv": 1e4, "conc": 100.0}),
        ("draw", {"recon": 0.1, "ssim": 0.0}),
        ("edit", {"recon": 0.1, "ssim": 0.0, "cycle": 4.0 * 80 * 80 * 3, "locality": 27.0}),
    ],
)
def test_weights_of_a_stage_s_losses_at_a_step(stage: str, expected: dict[str, float]) -> None:
    found = stages.named(stage).weights(preset("celeba-10"), 150_000)
    assert found == pytest.approx(expected)


def test_equivariance_weight_rises_steadily_to_its_multiple() -> None:
    config = with_steps(Config(), 100)
    config = replace(config, train=replace(config.train, eqv_rise=4.0))
    found = [eqv_weight(config, step) / config.losses.eqv for step in (0, 50, 100)]
    assert found == pytest.approx([1, 2, 4])


def test_share_of_landmark_warps_rises_from_0_to_three_tenths() -> None:
    config = preset("celeba-10")
    found = [landmark_share(config, step) for step in (0, 5_000, 7_500, 10_000, 10**6)]
    assert found == pytest.approx([0, 0, 0.15, 0.3, 0.3])


def test_milestones_keep_their_place_in_a_shorter_run() -> None:
    full, short = preset("celeba-10"), with_steps(preset("celeba-10"), 3_000)
    for place in (0.0, 0.2, 0.4, 0.7, 0.99):
        late, early = int(place * 300_000), int(place * 3_000)
        assert learning_rate(short.train, early) == pytest.approx(learning_rate(full.train, late))
        assert recon_weights(short, early)["recon"] == pytest.approx(recon_weights(full, late)["recon"])
        assert landmark_share(short, early) == pytest.approx(landmark_share(full, late), abs=1e-6)


def test_a_run_of_one_step_has_a_schedule() -> None:
    config = with_steps(Config(), 1)
    assert learning_rate(config.train, 0) > 0
    assert np.isfinite(recon_weights(config, 0)["recon"])
