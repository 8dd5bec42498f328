"""The verdict on each landmark."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cairns import geometry
from cairns.config import Config
from cairns.model.detector import Detection
from cairns.training import health
from cairns.training.health import examine

CELLS = 20
IMAGES = 6


class FakeModel:
    """Landmarks where a test wants them, each with a map of one bright cell, or a faint one everywhere."""

    def __init__(self, config: Config, landmarks: torch.Tensor, faint: set[int]) -> None:
        cells = geometry.grid(CELLS, config.model.image_size, config.model.padded_size)
        self.detector = SimpleNamespace(cells=cells)
        self.landmarks = landmarks  # (n, K, 2)
        self.faint = faint
        self.seen = 0

    def detect(self, images: torch.Tensor) -> Detection:
        points = self.landmarks[self.seen : self.seen + len(images)]
        self.seen += len(images)
        nearest = torch.cdist(points, self.detector.cells.expand(len(points), -1, -1)).argmin(-1)
        maps = torch.nn.functional.one_hot(nearest, CELLS**2).float() * 0.9
        for k in self.faint:
            maps[:, k] = 0.02
        maps = torch.cat((maps, 1 - maps.sum(1, keepdim=True).clamp(max=1)), 1)
        return Detection(maps.reshape(len(points), -1, CELLS, CELLS), points, torch.zeros_like(points))


@pytest.fixture
def config(micro: Config) -> Config:
    return micro


def wandering(about: tuple[float, float], by: float = 0.1) -> torch.Tensor:
    """A landmark (n, 2) that moves from image to image."""
    angle = torch.arange(IMAGES) * 2 * torch.pi / IMAGES
    return torch.tensor(about) + by * torch.stack((angle.cos(), angle.sin()), -1)


def table_of(
    monkeypatch: pytest.MonkeyPatch,
    config: Config,
    tracks: list[torch.Tensor],
    errors: dict[int, float] | None = None,
    faint: frozenset[int] = frozenset(),
) -> list[dict]:
    """What `examine` says of landmarks (n, 2) each, with these errors under warps."""
    mean_errors = np.full((IMAGES, len(tracks)), 0.01)
    for k, error in (errors or {}).items():
        mean_errors[:, k] = error
    monkeypatch.setattr(health, "warp_errors", lambda *_: mean_errors)
    model = FakeModel(config, torch.stack(tracks, 1), set(faint))
    return examine(model, torch.zeros(IMAGES, 1, 28, 28))  # type: ignore[arg-type]


def test_every_verdict(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    tracks = [
        wandering((0.2, 0.2)),  # good
        wandering((0.8, 0.2)),  # its map is faint
        wandering((0.51, 0.5), by=0.001),  # does not move
        wandering((0.2, 0.8)),
        wandering((0.2, 0.8)) + 0.005,  # on the one before
        wandering((0.8, 0.8)),  # misses warps
    ]
    table = table_of(monkeypatch, config, tracks, errors={1: 0.03, 5: 0.08}, faint=frozenset({1}))
    assert [row["verdict"] for row in table] == [
        "good", "dead", "stuck at the centre", "duplicate of 4", "duplicate of 3", "jittery",
    ]  # fmt: skip
    assert [row["landmark"] for row in table] == list(range(6))
    assert all(row["why"] for row in table)
    assert "8.0%" in table[5]["why"]
    assert table[3]["nearest"] == 4
    assert table[3]["nearest_distance"] == pytest.approx(0.005 * 2**0.5, abs=1e-3)


def test_numbers_are_what_they_say(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    table = table_of(monkeypatch, config, [wandering((0.3, 0.3)), wandering((0.7, 0.3))], errors={1: 0.03})
    assert [row["warp_error"] for row in table] == [0.01, 0.03]
    assert table[0]["spread"] == pytest.approx(0.1, abs=1e-3)
    assert table[0]["nearest_distance"] == pytest.approx(0.4, abs=1e-3)
    assert table[0]["confidence"] == pytest.approx(0.9, abs=1e-3)


def test_a_landmark_that_stays_elsewhere_is_not_stuck_at_the_centre(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    """On aligned images a landmark may well stay in one place."""
    table = table_of(monkeypatch, config, [wandering((0.3, 0.3), by=0.001), wandering((0.7, 0.7))])
    assert table[0]["verdict"] == "good"


def test_one_landmark_has_no_nearest(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    (row,) = table_of(monkeypatch, config, [wandering((0.4, 0.4))])
    assert row["verdict"] == "good"
    assert row["nearest"] is None
    assert row["nearest_distance"] is None


def test_a_faint_landmark_that_follows_is_not_dead(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    table = table_of(monkeypatch, config, [wandering((0.3, 0.3))], faint=frozenset({0}))
    assert table[0]["verdict"] == "good"
    assert "faint" in table[0]["why"]


def test_a_faint_landmark_that_follows_may_still_be_a_duplicate(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    tracks = [wandering((0.3, 0.3)), wandering((0.3, 0.3)) + 0.005]
    table = table_of(monkeypatch, config, tracks, faint=frozenset({0}))
    assert [row["verdict"] for row in table] == ["duplicate of 1", "duplicate of 0"]
