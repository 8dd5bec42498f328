"""dlib's rows against errors made by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.app.reproduce import reference
from trigpoint.app.reproduce.reference import dlib_rows, is_faces
from trigpoint.core.sources.base import Annotations
from trigpoint.learning.evaluation.faces import Face

NAMES = ("left eye", "right eye", "nose", "left mouth corner", "right mouth corner")


class FakeDlib:
    """Reads the true places from the crop's first pixel; its 68 points are off by 0.02 to the right.

    Its five points are twice as far from the corner, which a linear map undoes. It finds every second face.
    """

    truth: NDArray[np.float64]

    def landmarks(self, crop: NDArray[np.uint8]) -> Face:
        number = int(crop[0, 0, 0])
        five, many = self.truth[number], np.zeros((68, 2))
        many[36:42], many[42:48], many[30], many[48], many[54] = five
        return Face(number % 2 == 0, five * 2, many + np.array([0.02, 0.0]))


@pytest.fixture
def faces(make_source: Callable, monkeypatch: pytest.MonkeyPatch) -> object:
    truth = np.random.default_rng(0).uniform(0.2, 0.8, (30, 5, 2))
    truth[:, :2] = (0.3, 0.4), (0.5, 0.4)  # eyes 0.2 apart: 0.02 are a tenth of that
    monkeypatch.setattr(FakeDlib, "truth", truth, raising=False)
    monkeypatch.setattr(reference, "Dlib", FakeDlib)
    images = [np.full((50, 50, 3), number, np.uint8) for number in range(30)]
    return make_source(images, Annotations(NAMES, truth * 50, (0, 1)))


def test_errors_by_hand(faces: object) -> None:
    five, many = dlib_rows(faces, faces)  # type: ignore[arg-type]
    assert many["error_percent"] == pytest.approx(10, abs=0.01)
    assert many["where_found_percent"] == pytest.approx(10, abs=0.01)
    assert (many["labels"], many["test_images"], many["found"]) == (0, 30, 15)
    assert five["error_percent"] < 0.01
    assert five["labels"] == 30


def test_no_face_found_at_all(faces: object, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FakeDlib.landmarks
    monkeypatch.setattr(
        FakeDlib,
        "landmarks",
        lambda self, crop: Face(False, plain(self, crop).five, plain(self, crop).sixty_eight),
    )
    rows = dlib_rows(faces, faces)  # type: ignore[arg-type]
    assert [row["where_found_percent"] for row in rows] == [None, None]
    assert [row["found"] for row in rows] == [0, 0]


def test_only_five_landmarks_of_faces_are_measured(make_source: Callable, faces: object) -> None:
    assert is_faces(faces)  # type: ignore[arg-type]
    assert not is_faces(make_source([np.zeros((8, 8, 3), np.uint8)]))
