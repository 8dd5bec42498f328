"""The verdict on each landmark."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trigpoint.core.config.tree import Config
from trigpoint.learning import tensors
from trigpoint.learning.evaluation import health
from trigpoint.learning.evaluation.health import examine
from trigpoint.learning.model.detector import Detection

CELLS = 20
IMAGES = 6


class FakeModel:
    """Landmarks where a test wants them, each with a map of one bright cell, or a faint one everywhere."""

    def __init__(self, config: Config, landmarks: torch.Tensor, faint: set[int]) -> None:
        cells = tensors.grid(CELLS, config.model.image_size, config.model.padded_size)
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
    images: torch.Tensor | None = None,
) -> list[dict]:
    """What `examine` says of landmarks (n, 2) each, with these errors under warps, on images of noise unless
    told."""
    if images is None:
        images = torch.rand(IMAGES, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    mean_errors = np.full((len(images), len(tracks)), 0.01)
    for k, error in (errors or {}).items():
        mean_errors[:, k] = error
    monkeypatch.setattr(health, "warp_errors", lambda *_: mean_errors)
    model = FakeModel(config, torch.stack(tracks, 1), set(faint))
    return examine(model, images)  # type: ignore[arg-type]


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


# On the background

FRAMES, EDGE, RADIUS = 40, 28, 4.5 / 28
CORNERS = [(0.1, 0.1), (0.9, 0.1), (0.5, 0.04), (0.1, 0.9)]


def video(
    noise: float = 0.008, flicker: float = 0.0, ground: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Frames (n, 1, 28, 28) of a still texture, or a plain ground, before which a disc moves, and the disc's
    centres (n, 2). `noise` of the camera, and `flicker` of its exposure."""
    random = np.random.default_rng(0)
    texture = random.uniform(0.2, 0.6, (EDGE, EDGE)) if ground is None else np.full((EDGE, EDGE), ground)
    y, x = (np.mgrid[:EDGE, :EDGE] + 0.5) / EDGE
    centres = random.uniform(0.2, 0.8, (FRAMES, 2))
    away = np.hypot(x - centres[:, 0, None, None], y - centres[:, 1, None, None])
    frames = np.where(away < RADIUS, 0.95, texture) + random.normal(0, flicker, (FRAMES, 1, 1))
    frames += random.normal(0, noise, frames.shape)
    return torch.from_numpy(frames[:, None].clip(0, 1)).float(), torch.from_numpy(centres).float()


def near(place: tuple[float, float], by: float = 0.018) -> torch.Tensor:
    """A landmark (n, 2) about one place, which moves by 2.5 % of the edge."""
    generator = torch.Generator().manual_seed(int(1000 * sum(place)))
    return torch.tensor(place) + by * torch.randn(FRAMES, 2, generator=generator)


def verdicts(
    monkeypatch: pytest.MonkeyPatch, config: Config, tracks: list[torch.Tensor], images: torch.Tensor
) -> list[str]:
    return [row["verdict"] for row in table_of(monkeypatch, config, tracks, images=images)]


@pytest.mark.parametrize("flicker", [0.0, 0.05])
def test_landmarks_on_still_texture_are_on_the_background_and_those_on_what_moves_are_good(
    monkeypatch: pytest.MonkeyPatch, config: Config, flicker: float
) -> None:
    images, disc = video(flicker=flicker)
    edge = disc + torch.tensor((RADIUS, 0.0))
    tracks = [disc, edge, *(near(place) for place in CORNERS)]
    table = table_of(monkeypatch, config, tracks, images=images)
    assert [row["verdict"] for row in table] == ["good"] * 2 + ["background"] * len(CORNERS)
    assert all(0.02 < row["spread"] < 0.032 for row in table[2:])  # as some that are right have elsewhere
    assert "neither it nor the pixels under it change" in table[2]["why"]
    assert max(row["change"] for row in table[2:]) < 0.1 < min(row["change"] for row in table[:2])


def test_a_subject_that_passes_by_does_not_lift_a_landmark_off_the_background(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    """The disc covers it on some frames."""
    images, disc = video()
    covered = ((disc - torch.tensor((0.7, 0.3))).norm(dim=-1) < RADIUS).float().mean()
    assert covered > 0.1
    assert verdicts(monkeypatch, config, [near((0.7, 0.3)), disc], images) == ["background", "good"]


def test_a_landmark_that_hardly_moves_on_aligned_images_is_good_where_they_differ(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    """As on faces: the same place on each image, and another person's eye there; the ground is the same."""
    images, _ = video(ground=0.5)
    generator = torch.Generator().manual_seed(1)
    images[:, :, :, 14:] = torch.rand(FRAMES, 1, 1, 1, generator=generator)
    tracks = [near((0.75, 0.5), by=0.003), near((0.06, 0.5), by=0.003)]
    assert verdicts(monkeypatch, config, tracks, images) == ["good", "background"]


def test_a_landmark_that_moves_with_something_is_good_on_plain_ground_too(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    """As between the legs of a horse: nothing is there, but where that is depends on the image."""
    images, disc = video(ground=0.5)
    beside = (disc - 0.5) * 0.6 + torch.tensor((0.5, 0.92))
    assert verdicts(monkeypatch, config, [beside, near((0.5, 0.92))], images) == ["good", "background"]


def test_where_images_are_alike_every_landmark_is_on_the_background(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    images, _ = video()
    same = images[:1].repeat(FRAMES, 1, 1, 1) + 0.008 * torch.randn(images.shape)
    tracks = [near((0.3, 0.3)), near((0.7, 0.7), by=0.001)]
    assert verdicts(monkeypatch, config, tracks, same) == ["background", "background"]
