"""Landmarks drawn onto images, and sheets of many images."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import contact_sheet, draw_landmarks, draw_trails, write_image
from trigpoint.core.palette import colours


def test_landmarks_are_drawn_in_their_colours_where_they_are() -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    points = np.array([[20.5, 30.5], [60.5, 10.5]])  # centres of the pixels (20, 30) and (60, 10)
    drawn = draw_landmarks(image, points)
    assert drawn.shape == image.shape
    assert tuple(drawn[30, 20]) == colours(2)[0]
    assert tuple(drawn[10, 60]) == colours(2)[1]
    assert (drawn[45:, :] == 0).all()
    assert (image == 0).all()  # a copy


def test_a_dot_lies_evenly_about_its_point() -> None:
    drawn = draw_landmarks(np.zeros((61, 61, 1), np.uint8), np.array([[30.5, 30.5]]))
    assert drawn.any()
    np.testing.assert_allclose(drawn[:, ::-1].astype(int), drawn, atol=8)
    np.testing.assert_allclose(drawn[::-1].astype(int), drawn, atol=8)


def test_low_trust_is_faint() -> None:
    image = np.zeros((40, 40, 1), np.uint8)
    points = np.array([[20.5, 20.5]])
    sure = draw_landmarks(image, points, np.array([1.0])).astype(int)
    unsure = draw_landmarks(image, points, np.array([0.0])).astype(int)
    np.testing.assert_array_equal(sure, draw_landmarks(image, points))
    assert 0 < unsure.sum() < 0.5 * sure.sum()


def test_grey_images_become_colour() -> None:
    drawn = draw_landmarks(np.full((20, 20, 1), 77, np.uint8), np.empty((0, 2)))
    assert drawn.shape == (20, 20, 3)
    assert (drawn == 77).all()


def test_points_that_are_missing_or_outside_do_no_harm() -> None:
    image = np.zeros((40, 40, 3), np.uint8)
    drawn = draw_landmarks(image, np.array([[np.nan, 3.0], [-500.0, 900.0], [20.5, 20.5]]))
    assert tuple(drawn[20, 20]) == colours(3)[2]


def test_a_trail_follows_the_path_and_fades() -> None:
    """A landmark goes from left to right along the row 20; half of its path is old."""
    image = np.zeros((40, 60, 3), np.uint8)
    path = np.stack((np.arange(5.5, 46), np.full(41, 20.5)), axis=-1)[:, None]  # (41, 1, 2)
    drawn = draw_trails(image, path)
    assert (image == 0).all()
    assert drawn.shape == image.shape
    recent, old = drawn[20, 40].astype(float), drawn[20, 10].astype(float)
    assert recent.max() > 0.7 * max(colours(1)[0])  # thin lines have soft edges
    np.testing.assert_allclose(recent / recent.max(), np.divide(colours(1)[0], max(colours(1)[0])), atol=0.02)
    np.testing.assert_allclose(old, 0.4 * recent, atol=2)
    assert drawn[20, 5:46].any(-1).all()
    assert not drawn[:17].any()
    assert not drawn[24:].any()
    assert not drawn[:, :2].any()
    assert not drawn[:, 50:].any()


def test_trails_of_several_landmarks_have_their_colours() -> None:
    path = np.array([[[5.5, 5.5], [5.5, 25.5]], [[25.5, 5.5], [25.5, 25.5]], [[35.5, 5.5], [35.5, 25.5]]])
    drawn = draw_trails(np.full((40, 40, 1), 0, np.uint8), path)
    for k, row in enumerate((5, 25)):
        seen, colour = drawn[row, 30].astype(float), np.array(colours(2)[k], float)
        np.testing.assert_allclose(seen / seen.max(), colour / colour.max(), atol=0.02)


@pytest.mark.parametrize("frames", [0, 1, 4])
def test_a_trail_without_points_is_none(frames: int) -> None:
    """Frames that could not be decoded have no points."""
    image = np.full((20, 20, 3), 50, np.uint8)
    path = np.full((frames, 2, 2), np.nan)
    np.testing.assert_array_equal(draw_trails(image, path), image)


def test_a_trail_goes_on_after_a_missing_frame() -> None:
    path = np.array([[[5.5, 10.5]], [[np.nan, np.nan]], [[25.5, 10.5]]])
    drawn = draw_trails(np.zeros((20, 30, 3), np.uint8), path)
    assert drawn[10, 5:26].any(-1).all()


def test_contact_sheet_puts_tiles_in_rows() -> None:
    tiles = [np.full((10, 12, 3), value, np.uint8) for value in (10, 20, 30)]
    sheet = contact_sheet(tiles, columns=2, gap=4)
    assert sheet.shape == (2 * 14 + 4, 2 * 16 + 4, 3)
    assert (sheet[4:14, 4:16] == 10).all()
    assert (sheet[4:14, 20:32] == 20).all()
    assert (sheet[18:28, 4:16] == 30).all()
    assert (sheet[18:28, 20:32] == 255).all()
    assert (sheet[:4] == 255).all()


@pytest.mark.parametrize("name", ["a.png", "deep/er/b.jpg"])
def test_written_images_have_their_colours(tmp_path: Path, name: str) -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    image[..., 0] = 250  # red
    write_image(tmp_path / name, image)
    with Image.open(tmp_path / name) as opened:
        assert opened.format == {"png": "PNG", "jpg": "JPEG"}[name[-3:]]
        assert np.abs(np.asarray(opened).astype(int) - image).max() < 8


def test_a_picture_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image(tmp_path / "a.png", np.zeros((16, 16, 3), np.uint8))
    before = (tmp_path / "a.png").read_bytes()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space"):
        write_image(tmp_path / "a.png", np.ones((16, 16, 3), np.uint8))
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == before


@pytest.mark.parametrize("name", ["picture", "picture.what"])
def test_an_ending_that_is_no_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrigpointError, match=r"must end in \.png or \.jpg"):
        write_image(tmp_path / name, np.zeros((8, 8, 3), np.uint8))
    assert not (tmp_path / name).exists()
