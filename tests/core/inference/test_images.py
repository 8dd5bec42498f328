"""Landmarks of many images: several subjects on one, none on another, some that cannot be read."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.inference import images
from trigpoint.core.inference.images import Wanted, detect_images, overlay_names
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.images import read_image
from trigpoint.core.subjects import DETECTORS

Pixels = NDArray[np.uint8]


def picture(seed: int, width: int = 60, height: int = 40) -> Pixels:
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return np.kron(small, np.ones((height // 5 + 1, width // 6 + 1, 1), np.uint8))[:height, :width]


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "landmarks.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def points_of(rows: list[dict[str, str]], name: str, subject: int) -> NDArray[np.float64]:
    own = [row for row in rows if (row["image"], row["subject"]) == (name, str(subject))]
    return np.array([[float(row["x"]), float(row["y"])] for row in own])


@pytest.fixture
def finding(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Predictor]:
    """The same model with a detector of as many subjects as the image's first value says, up to 3."""

    def squares(image: Pixels) -> list[Placement]:
        return [Placement(3 + 12 * i, 2 + 3 * i, 20, 20) for i in range(int(image[0, 0, 0]))]

    monkeypatch.setitem(DETECTORS, "square", squares)
    return lambda: Predictor(predictor.backend, predictor.config, "square", ("a", "b", "c", "d"))


def holding(seed: int, subjects: int) -> Pixels:
    image = picture(seed)
    image[0, 0, 0] = subjects
    return image


def test_every_subject_of_an_image_has_its_rows(
    finding: Callable[..., Predictor], make_source: Callable, tmp_path: Path
) -> None:
    predictor = finding()
    source = make_source([holding(0, 2), holding(1, 1), holding(2, 3)])
    outcome = detect_images(predictor, source, Wanted(tmp_path))
    assert (outcome.images, outcome.subjects, outcome.empty, outcome.skipped) == (3, 6, [], {})
    rows = rows_of(tmp_path)
    assert [(row["image"], row["subject"]) for row in rows[::4]] == [
        ("fake-0", "0"), ("fake-0", "1"), ("fake-1", "0"),
        ("fake-2", "0"), ("fake-2", "1"), ("fake-2", "2"),
    ]  # fmt: skip
    assert [row["landmark"] for row in rows[:4]] == ["a", "b", "c", "d"]
    assert {row["frame"] for row in rows} == {"0"}
    for index, count in enumerate((2, 1, 3)):
        for subject in range(count):
            box = Placement(3 + 12 * subject, 2 + 3 * subject, 20, 20)
            expected = predictor.detect(source.images[index], box).points
            np.testing.assert_allclose(points_of(rows, f"fake-{index}", subject), expected, atol=0.011)


@pytest.mark.parametrize("overlay", [False, True])
def test_batches_do_not_mix_images_up(
    finding: Callable[..., Predictor],
    make_source: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    overlay: bool,
) -> None:
    """Many small batches, of images with no, one or several subjects and of unreadable ones."""
    monkeypatch.setattr(images, "BATCH", 4)
    monkeypatch.setattr(images, "HELD_PIXELS", 2 * 60 * 40)
    predictor = finding()
    counts = [1, 0, 3, None, 2, 0, 0, 0, 0, 1, 3, 3, None, 1, 0]
    source = make_source([None if n is None else holding(i, n) for i, n in enumerate(counts)])
    outcome = detect_images(predictor, source, Wanted(tmp_path, overlay=overlay))
    assert outcome.empty == [f"fake-{i}" for i, n in enumerate(counts) if n == 0]
    assert outcome.skipped == {"fake-3": "made to fail", "fake-12": "made to fail"}
    assert (outcome.images, outcome.subjects) == (13, 14)
    rows = rows_of(tmp_path)
    assert len(rows) == 14 * 4
    for i, count in enumerate(counts):
        for subject in range(count or 0):
            box = Placement(3 + 12 * subject, 2 + 3 * subject, 20, 20)
            np.testing.assert_allclose(
                points_of(rows, f"fake-{i}", subject),
                predictor.detect(source.images[i], box).points,
                atol=0.011,
            )
    assert sorted(source.reads) == list(range(15))  # each once


def test_overlays_show_every_subject_and_images_without_one(
    finding: Callable[..., Predictor], make_source: Callable, tmp_path: Path
) -> None:
    source = make_source([holding(0, 2), holding(1, 0), None])
    detect_images(finding(), source, Wanted(tmp_path, overlay=True))
    drawn = {path.name: read_image(path) for path in (tmp_path / "overlays").iterdir()}
    assert set(drawn) == {"fake-0.png", "fake-1.png"}
    np.testing.assert_array_equal(drawn["fake-1.png"], source.images[1])
    rows = rows_of(tmp_path)
    changed = (drawn["fake-0.png"] != source.images[0]).any(-1)
    for subject in range(2):
        for x, y in points_of(rows, "fake-0", subject):
            if 0 <= x < 60 and 0 <= y < 40:
                assert changed[int(y), int(x)]


def test_where_the_subject_is_the_box_that_was_given_counts_first(
    finding: Callable[..., Predictor], make_source: Callable, tmp_path: Path
) -> None:
    """Then what the source says, then the subject detector, then the whole image."""
    predictor = finding()
    image = holding(0, 2)
    own, given = Placement(5, 5, 30, 30), Placement(10, 0, 25, 25)
    source = make_source([image, image], boxes={0: own})
    detect_images(predictor, source, Wanted(tmp_path / "given"), box=given)
    rows = rows_of(tmp_path / "given")
    for name in ("fake-0", "fake-1"):
        np.testing.assert_allclose(
            points_of(rows, name, 0), predictor.detect(image, given).points, atol=0.011
        )
    assert len(rows) == 8
    outcome = detect_images(predictor, source, Wanted(tmp_path / "whole"), subjects="whole")
    rows = rows_of(tmp_path / "whole")
    np.testing.assert_allclose(points_of(rows, "fake-0", 0), predictor.detect(image, own).points, atol=0.011)
    np.testing.assert_allclose(points_of(rows, "fake-1", 0), predictor.detect(image).points, atol=0.011)
    assert outcome.subjects == 2


def test_an_image_that_the_box_lies_outside_of_is_skipped(
    predictor: Predictor, make_source: Callable, tmp_path: Path
) -> None:
    images = [picture(1), picture(2, 20, 20), picture(3)]
    outcome = detect_images(
        predictor, make_source(images), Wanted(tmp_path / "out"), box=Placement(30, 5, 25, 25)
    )
    assert (outcome.images, list(outcome.skipped)) == (2, ["fake-1"])
    assert "lies outside of the image of 20x20 pixels" in outcome.skipped["fake-1"]
    with pytest.raises(TrigpointError, match=r"first, fake-0: .* lies outside of the image of 60x40 pixels"):
        detect_images(predictor, make_source(images), Wanted(tmp_path / "none"), box=Placement(90, 5, 5, 5))


def test_a_model_without_a_subject_detector_looks_at_the_whole_image(
    predictor: Predictor, make_source: Callable, tmp_path: Path
) -> None:
    image = picture(4)
    outcome = detect_images(predictor, make_source([image]), Wanted(tmp_path))
    assert (outcome.images, outcome.subjects, outcome.empty) == (1, 1, [])
    np.testing.assert_allclose(
        points_of(rows_of(tmp_path), "fake-0", 0), predictor.detect(image).points, atol=0.011
    )


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "on fake-0; --box"),
        (2, "on fake-0 and 1 other image; --box"),
        (3, "on fake-0 and 2 other images; --box"),
    ],
)
def test_no_subject_anywhere_is_refused_and_leaves_no_file(
    finding: Callable[..., Predictor], make_source: Callable, tmp_path: Path, count: int, words: str
) -> None:
    source = make_source([holding(i, 0) for i in range(count)])
    told = f"No square was found {words} says where it is, --subjects whole"
    with pytest.raises(TrigpointError, match=told):
        detect_images(finding(), source, Wanted(tmp_path, overlay=True))
    assert list(tmp_path.iterdir()) == []


def test_nothing_readable_is_refused_and_leaves_no_file(
    predictor: Predictor, make_source: Callable, tmp_path: Path
) -> None:
    with pytest.raises(
        TrigpointError, match="None of the 2 images could be read; the first, fake-0: made to"
    ):
        detect_images(predictor, make_source([None, None]), Wanted(tmp_path, overlay=True))
    assert list(tmp_path.iterdir()) == []


def test_overlays_appear_when_all_are_drawn(
    predictor: Predictor, make_source: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that breaks off must not look finished; the next one draws them all and clears up."""
    source = make_source([picture(i) for i in range(5)])
    drawn = []

    def write(path: Path, image: Pixels) -> None:
        drawn.append(path)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        kept(path, image)

    kept = images.write_image
    with monkeypatch.context() as patch:
        patch.setattr(images, "write_image", write)
        with pytest.raises(KeyboardInterrupt):
            detect_images(predictor, source, Wanted(tmp_path, overlay=True))
    assert not (tmp_path / "overlays").exists()
    assert not (tmp_path / "landmarks.csv").exists()
    (tmp_path / "overlays.part" / "old.png").write_text("of other images")
    detect_images(predictor, source, Wanted(tmp_path, overlay=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "landmarks.csv", "landmarks.record.json", "overlays",
    ]  # fmt: skip
    assert len(list((tmp_path / "overlays").iterdir())) == 5


def test_overlays_drawn_again_take_the_place_of_the_old_ones(
    predictor: Predictor, make_source: Callable, tmp_path: Path
) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "fake-0.png").write_text("old")
    (tmp_path / "overlays" / "else.png").write_text("of another call")
    source = make_source([picture(0)])
    with pytest.raises(TrigpointError, match=r"fake-0\.png is already there.*--overwrite"):
        detect_images(predictor, source, Wanted(tmp_path, overlay=True))
    detect_images(predictor, source, Wanted(tmp_path, overlay=True, overwrite=True))
    with Image.open(tmp_path / "overlays" / "fake-0.png") as opened:
        assert opened.size == (60, 40)
    assert (tmp_path / "overlays" / "else.png").read_text() == "of another call"


def test_overlay_names() -> None:
    assert overlay_names(["a.jpg", "deep/b.png", "c"]) == {
        "a.jpg": "a.png", "deep/b.png": "deep/b.png", "c": "c.png",
    }  # fmt: skip
    assert overlay_names(["a.jpg", "a.png", "b.jpg"]) == {
        "a.jpg": "a.jpg.png", "a.png": "a.png.png", "b.jpg": "b.png",
    }  # fmt: skip
    frames = [f"m.mp4:{frame:06d}" for frame in range(3)]
    assert len(set(overlay_names(frames).values())) == 3
