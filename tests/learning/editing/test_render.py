"""Edits and morphs as files: read back by Pillow and PyAV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.palette import colours
from trigpoint.learning.editing import render
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.render import (
    ENDINGS,
    TILE,
    enlarge,
    figure,
    gif,
    morph_codes,
    mp4,
    strip,
    targets,
    write_frames,
)

PLACE = Placement(0, 0, 100, 100)
RED = (230, 30, 30)


def frames(count: int, size: tuple[int, int] = (40, 32), channels: int = 3) -> list[NDArray[np.uint8]]:
    """Smooth pictures, each brighter than the one before."""
    ramp = np.linspace(20, 120, size[0])[None, :, None] + np.linspace(0, 60, size[1])[:, None, None]
    return [(np.repeat(ramp, channels, 2) + 8 * index).astype(np.uint8) for index in range(count)]


def broken(count: int) -> Iterator[NDArray[np.uint8]]:
    """Some pictures, then a failure."""
    yield from frames(count)
    raise RuntimeError("out of pictures")


# Tiles


def test_enlarged_pictures_are_square_and_in_colour() -> None:
    grey = np.full((7, 7, 1), 90, np.uint8)
    assert (enlarge(grey) == 90).all()
    assert enlarge(grey).shape == (TILE, TILE, 3)
    image = np.zeros((8, 8, 3), np.uint8)
    image[:, 4:, 0] = 200
    large = enlarge(image, 80)
    assert large.shape == (80, 80, 3)
    assert (large[:, :30, 0] < 10).all()
    assert (large[:, 50:, 0] > 190).all()
    assert (np.diff(large[40, 34:46, 0].astype(int)) >= 0).all()  # smooth, no steps


def test_targets_are_red_dots_with_lines_from_where_they_were() -> None:
    before = Code(np.array([(0.25, 0.25), (0.75, 0.75)]), None, PLACE)
    after = before.moved({0: (0.5, 0.0)})
    tile = targets(np.zeros((16, 16, 1), np.uint8), before, after)
    assert tile.shape == (TILE, TILE, 3)
    y = TILE // 4
    assert tuple(tile[y, 3 * TILE // 4]) == RED  # the new place
    assert tuple(tile[3 * TILE // 4, 3 * TILE // 4]) == RED  # one that stays
    line = tile[y - 1 : y + 2, TILE // 2].max(0)
    assert line.min() > 60  # grey
    assert np.ptp(line.astype(int)) <= 2
    assert not tile[y + 10 :, : TILE // 2].any()


def test_targets_far_outside_are_drawn_as_far_as_the_tile_goes() -> None:
    before = Code(np.array([(0.5, 0.5)]), None, PLACE)
    tile = targets(np.zeros((16, 16, 3), np.uint8), before, before.moved({0: (90.0, 0.0)}))
    assert tile[TILE // 2 - 1 : TILE // 2 + 1, -1].any()


@pytest.mark.parametrize("count", [1, 3])
def test_the_figure_has_the_papers_layout(colour_editor: Editor, count: int) -> None:
    """Input, reconstruction with landmarks, then targets and image of each edit, in one row."""
    square = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    (before,) = colour_editor.encode_squares(square[None], [PLACE])
    edits = [before.moved({0: (0.1 * step, 0.0)}) for step in range(1, count + 1)]
    sheet = figure(colour_editor, square, before, edits)
    across = 2 + 2 * count
    assert sheet.shape == (TILE + 8, across * (TILE + 4) + 4, 3)
    tiles = [sheet[4:-4, 4 + i * (TILE + 4) : 4 + i * (TILE + 4) + TILE] for i in range(across)]
    np.testing.assert_array_equal(tiles[0], enlarge(square))
    seen = {tuple(pixel) for pixel in tiles[1].reshape(-1, 3).tolist()}
    assert len(set(colours(4)) & seen) >= 3  # one may lie on another
    decoded = colour_editor.decode(before)
    for edit, goal, image in zip(edits, tiles[2::2], tiles[3::2], strict=True):
        np.testing.assert_allclose(image.astype(int), enlarge(colour_editor.decode(edit)), atol=2)
        np.testing.assert_allclose(goal.astype(int), targets(decoded, before, edit), atol=2)
        x, y = (edit.landmarks[0] * TILE).astype(int)
        assert tuple(goal[y, x]) == RED


# Files


@pytest.mark.parametrize("name", ["a.png", "A.PNG", "new/folder/a.png"])
def test_a_strip_shows_the_pictures_side_by_side(tmp_path: Path, name: str) -> None:
    pictures = frames(3)
    write_frames(tmp_path / name, iter(pictures))
    with Image.open(tmp_path / name) as opened:
        assert opened.format == "PNG"
        pixels = np.asarray(opened)
    assert pixels.shape == (32 + 8, 3 * 44 + 4, 3)
    for index, picture in enumerate(pictures):
        np.testing.assert_array_equal(pixels[4:-4, 4 + 44 * index : 44 + 44 * index], picture)


def test_one_picture_is_written_without_a_frame(tmp_path: Path) -> None:
    (picture,) = frames(1)
    write_frames(tmp_path / "a.png", [picture])
    with Image.open(tmp_path / "a.png") as opened:
        np.testing.assert_array_equal(np.asarray(opened), picture)
    write_frames(tmp_path / "a.jpg", [picture])
    with Image.open(tmp_path / "a.jpg") as opened:
        assert opened.format == "JPEG"
        assert np.abs(np.asarray(opened).astype(int) - picture).max() < 8


def test_grey_pictures_become_colour(tmp_path: Path) -> None:
    write_frames(tmp_path / "a.png", frames(2, channels=1))
    with Image.open(tmp_path / "a.png") as opened:
        assert opened.mode == "RGB"


def test_a_gif_has_every_picture_and_never_ends(tmp_path: Path) -> None:
    pictures = frames(7)
    write_frames(tmp_path / "a.gif", iter(pictures), rate=20)
    with Image.open(tmp_path / "a.gif") as opened:
        assert opened.format == "GIF"
        assert opened.n_frames == 7  # type: ignore[attr-defined]
        assert opened.info["loop"] == 0  # endless
        assert opened.size == (40, 32)
        for index, picture in enumerate(pictures):
            opened.seek(index)
            assert opened.info["duration"] == 50
            assert np.abs(np.asarray(opened.convert("RGB")).astype(int) - picture).mean() < 6


def test_a_video_has_every_picture(tmp_path: Path) -> None:
    pictures = frames(6, (41, 33))
    write_frames(tmp_path / "a.mp4", iter(pictures), rate=12)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(12)
        read = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(read) == 6
    for frame, picture in zip(read, pictures, strict=True):
        assert frame.shape == (34, 42, 3)  # even edges
        assert np.abs(frame[:33, :41].astype(int) - picture).mean() < 6


def test_pictures_of_a_video_are_made_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A photo of 50 megabytes is not held for each of 50 pictures."""
    events: list[str] = []
    add = render.VideoWriter.add

    def noted(self: render.VideoWriter, frame: NDArray[np.uint8]) -> None:
        events.append("written")
        add(self, frame)

    def made() -> Iterator[NDArray[np.uint8]]:
        for picture in frames(3):
            events.append("made")
            yield picture

    monkeypatch.setattr(render.VideoWriter, "add", noted)
    write_frames(tmp_path / "a.mp4", made())
    assert events == ["made", "written"] * 3


def test_as_bytes() -> None:
    """The same, for what is sent and not saved."""
    pictures = frames(4)
    with Image.open(io.BytesIO(strip(pictures))) as opened:
        pixels = np.asarray(opened)
    assert pixels.shape == (40, 4 * 44 + 4, 3)
    np.testing.assert_array_equal(pixels[4:-4, 4:44], pictures[0])
    with Image.open(io.BytesIO(gif(pictures, 10))) as opened:
        assert opened.n_frames == 4  # type: ignore[attr-defined]
        assert (opened.info["loop"], opened.info["duration"]) == (0, 100)
    with av.open(io.BytesIO(mp4(pictures, 10))) as container:
        assert len(list(container.decode(video=0))) == 4


@pytest.mark.parametrize("name", ["a.webm", "a.jpeg", "a", "a.png.txt"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrigpointError, match=r"its name must end in \.png, \.jpg, \.gif, \.mp4\."):
        write_frames(tmp_path / "deep" / name, frames(2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_pictures_are_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(TrigpointError, match="there are no pictures"):
        write_frames(tmp_path / f"a{ending}", [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("count", [0, 2])
def test_a_failure_on_the_way_leaves_nothing_behind(tmp_path: Path, ending: str, count: int) -> None:
    with pytest.raises(RuntimeError, match="out of pictures"):
        write_frames(tmp_path / f"a{ending}", broken(count))
    assert not list(tmp_path.iterdir())
    (tmp_path / f"a{ending}").write_text("mine")
    with pytest.raises(RuntimeError, match="out of pictures"):
        write_frames(tmp_path / f"a{ending}", broken(count))
    assert [file.name for file in tmp_path.iterdir()] == [f"a{ending}"]
    assert (tmp_path / f"a{ending}").read_text() == "mine"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_cannot_be_finished_leaves_the_old_one(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: after writing, before it has its name."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / f"a{ending}").write_text("mine")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_frames(tmp_path / f"a{ending}", frames(2))
    assert [file.name for file in tmp_path.iterdir()] == [f"a{ending}"]
    assert (tmp_path / f"a{ending}").read_text() == "mine"


def test_a_picture_of_another_size_is_refused_in_a_video(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="does not fit a video"):
        write_frames(tmp_path / "a.mp4", [*frames(2), *frames(1, (60, 60))])
    assert not list(tmp_path.iterdir())


# Morphs


def test_a_morph_goes_in_equal_steps() -> None:
    start = Code(np.array([(0.2, 0.2), (0.5, 0.5)]), np.zeros((3, 2), np.float32), PLACE)
    end = Code(np.array([(0.6, 0.2), (0.5, 0.9)]), np.ones((3, 2), np.float32), PLACE)
    codes = morph_codes(start, end, 5)
    np.testing.assert_allclose([code.landmarks[0, 0] for code in codes], [0.2, 0.3, 0.4, 0.5, 0.6])
    np.testing.assert_array_equal(codes[0].landmarks, start.landmarks)
    np.testing.assert_allclose(codes[-1].landmarks, end.landmarks)
    assert all(code.descriptors is start.descriptors for code in codes)

    codes = morph_codes(start, end, 3, extrapolate=1.5, landmarks=[1], appearance="blend")
    np.testing.assert_allclose([code.landmarks[1, 1] for code in codes], [0.5, 0.8, 1.1])
    assert all((code.landmarks[0] == start.landmarks[0]).all() for code in codes)
    looks = [0.0 if code.descriptors is None else float(code.descriptors[0, 0]) for code in codes]
    assert looks == pytest.approx([0, 0.75, 1])


@pytest.mark.parametrize("count", [1, 0, -3])
def test_a_morph_of_too_few_frames_is_refused(count: int) -> None:
    code = Code(np.zeros((1, 2)), None, PLACE)
    with pytest.raises(TrigpointError, match=rf"at least 2 frames; got {count}\."):
        morph_codes(code, code, count)


@pytest.mark.parametrize("way", [float("nan"), float("inf")])
def test_a_morph_without_an_end_is_refused(way: float) -> None:
    code = Code(np.zeros((1, 2)), None, PLACE)
    with pytest.raises(TrigpointError, match=rf"finite way; got {way}\."):
        morph_codes(code, code, 3, way)
