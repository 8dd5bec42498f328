"""The MTFL source: its layout, its crops, its bad lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, fit_box
from trigpoint.core.sources import open_source
from trigpoint.core.sources.mtfl import LANDMARKS, MTFL

REAL = Path(__file__).parents[3].parent / "shared" / "data" / "mtfl"
on_real_data = pytest.mark.skipif(
    not (REAL / "training.txt").is_file(), reason="the MTFL faces are not at ../shared/data/mtfl"
)

# As its owners write it: backslashes, blanks at the start of every line but the first, CR LF.
TRAINING = (
    "lfw_5590\\a.jpg 107.25 147.75 126.25 106.25 140.75 108.75 113.25 143.75 158.75 162.75 1 2 2 3\r\n"
    " net_7876\\b.jpg 150 250 200 160 240 160 161 200 260 262 2 1 2 3\r\n"
    " net_7876\\c.jpg 60 100 80 65 95 70 71 90 110 111 2 1 2 3\r\n"
    "\r\n"
)
TESTING = " AFLW/d.jpg 54.8 103.9 77.5 62.7 100.7 51.9 45.2 65.9 97.5 93.1 2 2 2 3\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three training images and one test image in the true layout."""
    folder = tmp_path / "mtfl"
    sizes = {
        "lfw_5590/a": (250, 250),
        "net_7876/b": (400, 400),
        "net_7876/c": (160, 216),
        "AFLW/d": (150, 150),
    }
    for name, size in sizes.items():
        path = folder / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (90, 120, 150)).save(path)
    (folder / "training.txt").write_bytes(TRAINING.encode())
    (folder / "testing.txt").write_bytes(TESTING.encode())
    return folder


def test_lists_are_read_with_backslashes_blanks_and_line_ends(small: Path) -> None:
    source = MTFL(small)
    assert [source.name(i) for i in range(len(source))] == [
        "lfw_5590/a.jpg",
        "net_7876/b.jpg",
        "net_7876/c.jpg",
    ]
    assert source.words == (f"mtfl:{small}",)
    assert [source.image(i).shape for i in range(3)] == [(250, 250, 3), (400, 400, 3), (216, 160, 3)]


def test_annotations_are_pixels_x_before_y(small: Path) -> None:
    annotations = MTFL(small).annotations
    assert annotations is not None
    assert annotations.names == LANDMARKS
    assert annotations.reference == (0, 1)
    np.testing.assert_array_equal(
        annotations.points[0],
        [[107.25, 108.75], [147.75, 113.25], [126.25, 143.75], [106.25, 158.75], [140.75, 162.75]],
    )
    assert annotations.points.shape == (3, 5, 2)


def test_test_split_is_another_list(small: Path) -> None:
    source = MTFL(small, "test")
    assert len(source) == 1
    assert source.name(0) == "AFLW/d.jpg"
    assert source.box(0) is None


def test_labels_counted_from_one_are_mended_only_where_that_is_asked(small: Path) -> None:
    (small / "testing.txt").write_text(TESTING + TRAINING.splitlines()[0] + "\n")
    plain, mended = (open_source(f"{name}:{small}", "test") for name in ("mtfl", "mtfl-from-zero"))
    assert mended.words == (f"mtfl-from-zero:{small}",)
    assert plain.annotations is not None
    assert mended.annotations is not None
    moved = plain.annotations.points - mended.annotations.points
    np.testing.assert_allclose(moved[0], 1.0)  # AFLW
    np.testing.assert_array_equal(moved[1], 0.0)  # LFW


def test_each_kind_of_image_has_its_fixed_crop(small: Path) -> None:
    source = MTFL(small)
    assert [source.box(i) for i in range(3)] == [
        Placement(57, 66, 140, 140),
        Placement(40, 41, 320, 320),
        Placement(29, 29, 103, 103),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "net_7876\\e.jpg 1 2 3",
        "net_7876\\e.jpg 1 2 3 4 5 6 7 8 9 ten 1 1 1 1",
        "net_7876\\e.jpg 1 2 3 4 5 6 7 8 9 10 1 nan 1 1",
        "net_7876\\e.jpg 1 2 3 4 5 6 7 8 9 1e300 1 1 1 1",
    ],
)
def test_a_malformed_line_is_named_with_its_number(small: Path, line: str) -> None:
    (small / "training.txt").write_text(TRAINING.replace("\r\n\r\n", f"\n{line}\n"))
    with pytest.raises(
        TrigpointError, match=r"training\.txt, line 4: expected a path and 14 numbers"
    ) as caught:
        MTFL(small)
    assert "e.jpg" in str(caught.value)


def test_a_list_that_is_no_text_is_refused(small: Path) -> None:
    (small / "training.txt").write_bytes(b"\xff\xfe\x00lfw\xf3 1 2 3\n")
    with pytest.raises(TrigpointError, match=r"training\.txt"):
        MTFL(small)


def test_a_missing_or_empty_list_is_refused(small: Path, tmp_path: Path) -> None:
    (small / "testing.txt").write_text("\n \n")
    with pytest.raises(TrigpointError, match="lists no image"):
        MTFL(small, "test")
    with pytest.raises(TrigpointError, match=r"MTFL needs the file .*training\.txt"):
        MTFL(tmp_path / "elsewhere")


def test_a_missing_image_is_unreadable(small: Path) -> None:
    (small / "lfw_5590" / "a.jpg").unlink()
    with pytest.raises(UnreadableImage):
        MTFL(small).image(0)


@on_real_data
def test_the_real_lists_have_ten_thousand_and_one_thousand_faces() -> None:
    assert len(MTFL(REAL, "train")) == 10_000
    assert len(MTFL(REAL, "test")) == 1_000


@on_real_data
def test_the_labels_of_the_test_faces_lie_on_the_grid_of_a_count_from_one() -> None:
    """551 cells for 160 pixels. A grid tells its offset only up to a step of 0.29 pixels: no proof of 1."""
    annotations = MTFL(REAL, "test").annotations
    assert annotations is not None
    cells = (annotations.points - 1) * 551 / 160
    assert np.abs(cells - np.floor(cells) - 0.5).max() < 1e-4  # the middle of a cell, each of them


@on_real_data
def test_crops_bring_the_eyes_of_every_kind_of_image_equally_far_apart() -> None:
    """The annotation judges the crops here; the crops never look at it."""
    distances: dict[str, list[float]] = {}
    centres: dict[str, list[np.ndarray]] = {}
    for split, every in (("train", 8), ("test", 4)):
        source = MTFL(REAL, split)  # type: ignore[arg-type]
        assert source.annotations is not None
        for index in range(0, len(source), every):
            with Image.open(REAL / source.name(index)) as opened:
                width, height = opened.size
            box = source.box(index) or fit_box(width, height, "pad")
            points = box.to_unit(source.annotations.points[index])
            kind = source.name(index).split("/")[0]
            kind = f"{kind} {width}" if kind == "net_7876" else kind
            distances.setdefault(kind, []).append(float(np.linalg.norm(points[0] - points[1])))
            centres.setdefault(kind, []).append(points.mean(0))
    assert set(distances) == {"lfw_5590", "net_7876 400", "net_7876 160", "AFLW"}
    for kind, values in distances.items():
        assert np.mean(values) == pytest.approx(0.29, abs=0.04), kind
        assert np.abs(np.mean(centres[kind], axis=0) - 0.5).max() < 0.06, kind
