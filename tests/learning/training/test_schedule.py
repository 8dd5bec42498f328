"""What changes while training goes on."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, TrainConfig, with_steps
from trigpoint.learning.training.schedule import (
    batch_rows,
    landmark_share,
    learning_rate,
    recon_weight,
    weights,
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
    found = [recon_weight(config, step) for step in (0, 39_999, 40_000, 49_999, 50_000, 10**6)]
    assert found == pytest.approx([0.001, 0.001, 0.01, 0.01, 0.1, 0.1])


def test_both_raises_count_where_they_fall_on_one_step() -> None:
    config = preset("celeba-10")
    config = replace(config, train=replace(config.train, recon_raise_at=(10, 10)))
    assert recon_weight(config, 9) == pytest.approx(0.01)
    assert recon_weight(config, 10) == pytest.approx(1.0)


def test_weights_of_the_losses_at_a_step() -> None:
    config = preset("celeba-10")
    expected = {"recon": 0.1, "conc": 100.0, "sep": 16.0, "eqv": 1e4, "flow": 0.0, "still": 27.0, "ssim": 0.0}
    expected["cycle"] = 4.0 * 80 * 80 * 3
    assert weights(config, 150_000) == pytest.approx(expected)


def test_equivariance_weight_rises_steadily_to_its_multiple() -> None:
    config = with_steps(Config(), 100)
    config = replace(config, train=replace(config.train, eqv_rise=4.0))
    found = [weights(config, step)["eqv"] / config.losses.eqv for step in (0, 50, 100)]
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
        assert recon_weight(short, early) == pytest.approx(recon_weight(full, late))
        assert landmark_share(short, early) == pytest.approx(landmark_share(full, late), abs=1e-6)


def test_a_run_of_one_step_has_a_schedule() -> None:
    config = with_steps(Config(), 1)
    assert learning_rate(config.train, 0) > 0
    assert np.isfinite(recon_weight(config, 0))


def test_every_row_comes_once_an_epoch() -> None:
    first = np.concatenate([batch_rows(60, 5, step, seed=1) for step in range(12)])
    second = np.concatenate([batch_rows(60, 5, step, seed=1) for step in range(12, 24)])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(60))
    assert first.tolist() != second.tolist()


def test_rows_left_over_are_others_in_each_epoch() -> None:
    """62 rows make 12 batches of 5: two are left out, but not always the same."""
    epochs = [np.concatenate([batch_rows(62, 5, 12 * e + s, 0) for s in range(12)]) for e in range(4)]
    assert all(len(set(epoch.tolist())) == 60 for epoch in epochs)
    assert len({frozenset(range(62)) - frozenset(epoch.tolist()) for epoch in epochs}) > 1


def test_rows_follow_from_seed_and_step_alone() -> None:
    np.testing.assert_array_equal(batch_rows(60, 5, 7, seed=3), batch_rows(60, 5, 7, seed=3))
    assert batch_rows(60, 5, 7, seed=3).tolist() != batch_rows(60, 5, 7, seed=4).tolist()
    assert batch_rows(60, 5, 7, seed=3).tolist() != batch_rows(60, 5, 8, seed=3).tolist()


def test_a_set_smaller_than_a_batch_is_drawn_with_repetition() -> None:
    rows = np.concatenate([batch_rows(3, 8, step, seed=0) for step in range(20)])
    assert len(rows) == 160
    assert set(rows.tolist()) == {0, 1, 2}


def test_a_set_of_exactly_one_batch_is_used_whole() -> None:
    assert sorted(batch_rows(8, 8, 5, seed=0).tolist()) == list(range(8))
