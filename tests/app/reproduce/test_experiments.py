"""The registry against the paper: every row can be built, and the numbers are those printed."""

from __future__ import annotations

import pytest

from trigpoint.app.reproduce import EXPERIMENTS
from trigpoint.core.config.presets import PAPER_PRESETS, preset
from trigpoint.core.config.tree import with_values
from trigpoint.core.sources import DATASETS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_has_a_preset_a_source_and_values_that_exist(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.dataset in DATASETS
    assert experiment.rows
    assert len({row.label for row in experiment.rows}) == len(experiment.rows)
    for row in experiment.rows:
        with_values(preset(row.preset), row.values)
        assert row.variant in ("", *DATASETS[experiment.dataset].variants)


def test_every_preset_of_the_paper_is_used_by_an_experiment() -> None:
    used = {row.preset for experiment in EXPERIMENTS.values() for row in experiment.rows}
    assert set(PAPER_PRESETS) - used == {"celeba-10-release"}


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("table-1a", [3.46, 3.15, 3.46, 3.16]),
        ("table-1b-aflw", [7.01, 6.58]),
        ("table-1c", [3.15, 3.45, 3.91, 16.56, 8.42]),
        ("table-2-cars", [5.87, 5.80]),
        ("table-2-cats", [15.35, 14.84]),
        ("table-2-human", [4.14, 5.01, 4.61, 4.76, 4.45, 4.91, 4.61]),
        ("table-5", [4.17, 3.86, 3.46, 3.38, 3.46, 3.41]),
    ],
)
def test_the_paper_s_own_numbers(name: str, printed: list[float]) -> None:
    assert [row.paper for row in EXPERIMENTS[name].rows] == printed


def test_control_point_ratios_are_shares_of_landmarks() -> None:
    """7:3 means that three of ten samples are warped around landmarks."""
    shares = {row.label.split()[-1]: with_values(preset(row.preset), row.values).warp.landmark_share
              for row in EXPERIMENTS["table-5"].rows}  # fmt: skip
    for ratio, share in shares.items():
        grid, landmarks = map(int, ratio.split(":"))
        assert share == pytest.approx(landmarks / (grid + landmarks))
