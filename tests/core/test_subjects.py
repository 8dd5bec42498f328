"""Faces on ordinary photos, framed as in training; and models that look for them by themselves."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core import subjects
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.core.sources.images import read_image
from trigpoint.core.subjects import cascade_boxes, faces

Pixels = NDArray[np.uint8]
REAL = Path(__file__).parents[2].parent / "shared" / "data" / "mtfl"
on_real_data = pytest.mark.skipif(
    not (REAL / "lfw_5590").is_dir(), reason="the MTFL faces are not at ../shared/data/mtfl"
)


def landmarks_of(*names: str) -> list[NDArray[np.float64]]:
    """MTFL's five landmarks (5, 2) of these photos of `lfw_5590`."""
    found = {}
    for line in (REAL / "training.txt").read_text().splitlines():
        words = line.split()
        if len(words) > 10 and words[0].startswith("lfw_5590"):
            found[words[0].replace("\\", "/").split("/")[1]] = np.array(words[1:11], float).reshape(2, 5).T
    return [found[name] for name in names]


def real_photos(count: int) -> list[str]:
    return sorted(path.name for path in (REAL / "lfw_5590").glob("*.jpg"))[:count]


def holds(box: Placement, points: NDArray[np.float64]) -> bool:
    unit = box.to_unit(points)
    return bool((unit > 0).all() and (unit < 1).all())


def test_the_frame_is_a_square_about_the_cascade_s_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box of 100 pixels: an edge of 126, its centre at (50.5, 59.3) of the box; from left to right."""
    boxes = np.array([[300.0, 20, 50, 50], [40, 80, 100, 100]])
    monkeypatch.setattr(subjects, "cascade_boxes", lambda _: boxes)
    left, right = faces(np.zeros((400, 400, 3), np.uint8))
    assert (left.width, left.height) == pytest.approx((126, 126))
    assert (left.x + 63, left.y + 63) == pytest.approx((40 + 50.5, 80 + 59.3))
    assert (right.width, right.height) == pytest.approx((63, 63))
    assert (right.x + 31.5, right.y + 31.5) == pytest.approx((300 + 25.25, 20 + 29.65))


@on_real_data
def test_faces_of_real_photos_are_framed_about_their_landmarks() -> None:
    """The crop that the shipped models were trained on has 140 pixels about (126.5, 136)."""
    names = real_photos(12)
    right = 0
    for name, points in zip(names, landmarks_of(*names), strict=True):
        found = [box for box in faces(read_image(REAL / "lfw_5590" / name)) if holds(box, points)]
        if found:
            right += 1
            assert found[0].width == pytest.approx(140, rel=0.3)
    assert right >= 10


@on_real_data
def test_two_photos_side_by_side_are_two_faces_from_left_to_right() -> None:
    names = real_photos(2)
    first, second = (read_image(REAL / "lfw_5590" / name) for name in names)
    before, after = landmarks_of(*names)
    left, right = faces(np.concatenate((first, second), axis=1))
    assert holds(left, before)
    assert holds(right, after + np.array([first.shape[1], 0]))


@on_real_data
def test_grey_and_large_photos_have_the_same_faces() -> None:
    (name,) = real_photos(1)
    photo = read_image(REAL / "lfw_5590" / name)
    (box,) = faces(photo)
    (grey,) = faces(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)[:, :, None])
    assert grey == box
    large = cv2.resize(photo, None, fx=8, fy=8, interpolation=cv2.INTER_LINEAR)  # shrunk for the search
    (found,) = faces(large)
    expected = np.array([box.x, box.y, box.width]) * 8
    np.testing.assert_allclose([found.x, found.y, found.width], expected, atol=0.1 * expected[2])


@pytest.mark.parametrize("shape", [(120, 160, 3), (120, 160, 1), (8, 8, 3), (8, 3000, 3), (900, 1200, 3)])
def test_a_photo_without_a_face(shape: tuple[int, int, int]) -> None:
    photo = np.broadcast_to(np.linspace(20, 230, shape[1])[None, :, None], shape).astype(np.uint8)
    assert faces(photo) == []
    assert cascade_boxes(photo).shape == (0, 4)


def test_an_opencv_without_cascades_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects._cascade.cache_clear()
    with monkeypatch.context() as patch:
        patch.delattr(cv2, "CascadeClassifier")
        with pytest.raises(
            TrigpointError, match=r"no face detector.*opencv-python-headless<5.*--box.*--subjects whole"
        ):
            faces(np.zeros((40, 40, 3), np.uint8))
        patch.setattr(cv2, "CascadeClassifier", lambda _: cv2_empty(), raising=False)
        with pytest.raises(TrigpointError, match="not where its package should have put it"):
            faces(np.zeros((40, 40, 3), np.uint8))
    assert faces(np.zeros((40, 40, 3), np.uint8)) == []


class cv2_empty:  # noqa: N801  # stands for a class of OpenCV's
    def empty(self) -> bool:
        return True


# Models that look by themselves


@pytest.fixture
def finding(colour_run: Run, monkeypatch: pytest.MonkeyPatch) -> Predictor:
    """A model that finds two squares on wide photos, and none on others."""

    def squares(image: Pixels) -> list[Placement]:
        wide = image.shape[1] > image.shape[0]
        return [Placement(2, 3, 30, 30), Placement(40, 5.5, 25, 25)] if wide else []

    monkeypatch.setitem(subjects.DETECTORS, "square", squares)
    loaded = Predictor.load(colour_run.folder)
    return Predictor(loaded.backend, loaded.config, "square")


def photo(width: int, height: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_every_subject_has_its_landmarks(finding: Predictor, tmp_path: Path) -> None:
    image = photo(80, 50)
    boxes = finding.subjects(image)
    assert boxes == [Placement(2, 3, 30, 30), Placement(40, 5.5, 25, 25)]
    Image.fromarray(image).save(tmp_path / "a.png")
    for given in (image, tmp_path / "a.png", str(tmp_path / "a.png")):
        found = finding.detect_all(given)
        assert len(found) == 2
        for one, box in zip(found, boxes, strict=True):
            np.testing.assert_allclose(one.points, finding.detect(image, box).points, atol=1e-3)
            np.testing.assert_allclose(one.confidence, finding.detect(image, box).confidence, atol=1e-4)


def test_a_photo_without_a_subject_has_no_landmarks(finding: Predictor) -> None:
    assert finding.subjects(photo(40, 60)) == []
    assert finding.detect_all(photo(40, 60)) == []


def test_without_a_subject_detector_the_whole_photo_is_the_subject(colour_run: Run) -> None:
    predictor = Predictor.load(colour_run.folder)
    image = photo(60, 40)
    assert predictor.subjects(image) == [None]
    (found,) = predictor.detect_all(image[:, :, 0])
    np.testing.assert_allclose(found.points, predictor.detect(image[:, :, 0]).points)


def test_what_is_no_image_is_refused(finding: Predictor) -> None:
    with pytest.raises(TrigpointError, match="must be an array of bytes"):
        finding.detect_all(np.zeros((20, 20, 3), np.float32))  # type: ignore[arg-type]
