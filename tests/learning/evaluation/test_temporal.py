"""Steadiness over time: against noise and motion that are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.geometry import Placement, extract
from trigpoint.core.inference.predictor import Landmarks
from trigpoint.learning.evaluation.temporal import INTERVAL, LOW, Temporal, jitter, on_mask, temporal

Pixels = NDArray[np.uint8]
SIZE = 96  # pixels of a frame


# Jitter


@pytest.mark.parametrize("spread", [0.1, 2.0])
def test_jitter_of_white_noise_is_the_length_of_its_steps(spread: float) -> None:
    """x and y each of standard deviation s: a displacement of s sqrt(2) from where it should be."""
    path = np.random.default_rng(0).normal(0, spread, (20_000, 3, 2))
    np.testing.assert_allclose(jitter(path), spread * np.sqrt(2), rtol=0.03)


def test_noise_in_one_direction_alone_is_its_standard_deviation() -> None:
    path = np.zeros((20_000, 2, 2))
    path[:, 1, 0] = np.random.default_rng(1).normal(0, 0.5, 20_000)
    np.testing.assert_allclose(jitter(path), [0, 0.5], rtol=0.03)


def test_smooth_motion_has_next_to_none() -> None:
    """A landmark that goes round once in 100 frames, 50 pixels from the centre; one with constant speed."""
    time = np.arange(300)
    angle = 2 * np.pi * time / 100
    circle = 50 * np.stack((np.cos(angle), np.sin(angle)), axis=-1)
    line = np.stack((3.0 * time, 7 - 0.5 * time), axis=-1)
    round_, straight = jitter(np.stack((circle, line), axis=1))
    # The second difference of the circle is its radius times the squared angle of a step.
    assert round_ == pytest.approx(50 * (2 * np.pi / 100) ** 2 / np.sqrt(6), rel=0.01)
    assert straight == pytest.approx(0, abs=1e-9)


def test_motion_does_not_hide_noise() -> None:
    time = np.arange(5000.0)
    path = np.stack((2 * time, 40 * np.sin(time / 50)), axis=-1)[:, None]
    noise = np.random.default_rng(2).normal(0, 1, path.shape)
    np.testing.assert_allclose(jitter(path + noise), np.sqrt(2), rtol=0.05)


# Flow


class Scripted:
    """A model whose landmarks are told beforehand, in pixels of the frame."""

    def __init__(self, points: NDArray[np.float64], trust: NDArray[np.float64] | None = None) -> None:
        self.points = points  # (n, K, 2)
        self.trust = np.ones(points.shape[:2]) if trust is None else trust
        self.at = 0

    def prepare(self, image: Pixels, box: Placement | None) -> tuple[Pixels, Placement]:
        place = box or Placement(0, 0, SIZE, SIZE)
        return extract(image, place, 32), place

    def detect_prepared(self, squares: Pixels, places: list[Placement]) -> list[Landmarks]:
        self.at += 1
        return [Landmarks(self.points[self.at - 1], self.trust[self.at - 1])]


def scene(count: int, speed: tuple[float, float]) -> list[Pixels]:
    """A soft texture that moves by so many pixels a frame."""
    noise = np.random.default_rng(0).normal(0, 1, (220, 220)).astype(np.float32)
    texture = cv2.GaussianBlur(noise, (0, 0), 3)
    texture = (128 + 60 * texture / texture.std()).clip(0, 255)
    frames = []
    for frame in range(count):
        left, top = 60 - speed[0] * frame, 60 - speed[1] * frame
        cut = cv2.getRectSubPix(texture, (SIZE, SIZE), (left + (SIZE - 1) / 2, top + (SIZE - 1) / 2))
        frames.append(np.repeat(cut.round().astype(np.uint8)[:, :, None], 3, axis=2))
    return frames


POINTS = np.array([[40.0, 40.0], [48.0, 55.0], [60.0, 45.0]])


def moving(count: int, speed: tuple[float, float]) -> NDArray[np.float64]:
    return POINTS + np.arange(count)[:, None, None] * np.array(speed)


@pytest.mark.parametrize("speed", [(1.0, 0.0), (-0.7, 0.4)])
def test_landmarks_that_go_with_the_texture_agree_with_the_flow(
    make_source: Callable[..., Any], speed: tuple[float, float]
) -> None:
    model: Any = Scripted(moving(14, speed))
    found = temporal(model, make_source(scene(14, speed)))
    assert found is not None
    assert found.name == "fake-0"
    np.testing.assert_allclose(found.flow, 0, atol=0.3)
    np.testing.assert_allclose(found.jitter, 0, atol=1e-9)
    np.testing.assert_allclose(found.points, moving(14, speed))


def test_landmarks_that_stay_behind_miss_by_what_the_texture_moved(make_source: Callable[..., Any]) -> None:
    """1.2 pixels a frame over five frames."""
    model: Any = Scripted(moving(14, (0, 0)))
    found = temporal(model, make_source(scene(14, (1.2, 0))))
    assert found is not None
    np.testing.assert_allclose(found.flow, 1.2 * INTERVAL, atol=0.4)


def test_a_crop_that_moves_with_the_subject_changes_nothing(make_source: Callable[..., Any]) -> None:
    """Seen through the crop nothing moves; landmarks are of the whole frame, and right."""
    speed = (1.0, 0.5)
    boxes = {frame: Placement(10 + frame * speed[0], 15 + frame * speed[1], 64, 64) for frame in range(12)}
    model: Any = Scripted(moving(12, speed))
    found = temporal(model, make_source(scene(12, speed), boxes=boxes))
    assert found is not None
    np.testing.assert_allclose(found.flow, 0, atol=0.3)
    still: Any = Scripted(moving(12, (0, 0)))
    found = temporal(still, make_source(scene(12, speed), boxes=boxes))
    assert found is not None
    np.testing.assert_allclose(found.flow, np.hypot(*speed) * INTERVAL, atol=0.4)


# What is looked at


def test_the_share_of_frames_with_low_confidence(make_source: Callable[..., Any]) -> None:
    trust = np.ones((10, 3))
    trust[:4, 1], trust[:, 2] = LOW - 0.01, LOW
    model: Any = Scripted(moving(10, (0, 0)), trust)
    found = temporal(model, make_source(scene(10, (0, 0))))
    assert found is not None
    np.testing.assert_allclose(found.low, [0, 0.4, 0])


def test_only_the_first_frames_are_looked_at(make_source: Callable[..., Any]) -> None:
    source = make_source(scene(20, (0, 0)))
    model: Any = Scripted(moving(20, (0, 0)))
    found = temporal(model, source, frames=9)
    assert found is not None
    assert len(found.points) == 9
    assert source.reads == list(range(9))


def test_it_ends_at_a_frame_that_cannot_be_read(make_source: Callable[..., Any]) -> None:
    model: Any = Scripted(moving(12, (0, 0)))
    found = temporal(model, make_source([*scene(9, (0, 0)), None, *scene(2, (0, 0))]))
    assert found is not None
    assert len(found.points) == 9


def test_too_few_frames_are_not_measured(make_source: Callable[..., Any]) -> None:
    model: Any = Scripted(moving(12, (0, 0)))
    assert temporal(model, make_source(scene(7, (0, 0)))) is None
    assert temporal(model, make_source([None, *scene(11, (0, 0))])) is None


def test_it_can_be_written_as_json() -> None:
    measured = Temporal(
        "a.mp4:000000",
        np.full((8, 2, 2), 1.23456),
        np.array([0.123456, 0.5]),
        np.array([np.nan, 2.0]),
        np.array([0.0, 1.0]),
    )
    written = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    assert written["first_frame"] == "a.mp4:000000"
    assert written["frames"] == 8
    assert written["jitter_pixels"] == [0.1235, 0.5]
    assert written["flow_pixels"] == [None, 2.0]
    assert written["low_confidence"] == [0.0, 1.0]
    assert np.shape(written["trajectories"]) == (8, 2, 2)
    assert written["trajectories"][0][0] == [1.23, 1.23]


def test_points_on_and_beside_a_mask() -> None:
    mask = np.zeros((20, 30), bool)
    mask[5:10, 8:12] = True
    points = np.array([(9.5, 7.5), (13.5, 7.5), (14.6, 7.5), (-1.0, 7.0), (40.0, 7.0), (8.5, 12.4)])
    # Pixel (13, 7) is two from the mask's last column 11, (14, 7) three, (8, 12) three below row 9.
    assert on_mask(mask, points, 2.0).tolist() == [True, True, False, False, False, False]
    assert on_mask(mask, points, 3.0).tolist() == [True, True, True, False, False, True]
