"""The subject of a static camera's video: told from its background, cut out by a square that follows it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import subject as module
from trigpoint.core.sources.subject import Background, mask_of, prepare_subject, smooth, within

WIDTH, HEIGHT = 96, 64
EDGE = 16
FOLLOW = VideoConfig(follow=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tracks are kept below a home of the test's own."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    assert Path.home() == folder
    return folder


class Shown:
    """Frames from a list as a video; None stands for one that cannot be read."""

    def __init__(self, path: Path, frames: Sequence[NDArray[np.uint8] | None], rate: float = 20.0) -> None:
        self.path, self.frames, self.rate = path, frames, rate
        self.reads = 0
        path.touch()

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, frame: int, form: str = "rgb24") -> NDArray[np.uint8]:
        self.reads += 1
        found = self.frames[frame]
        if found is None:
            raise UnreadableImage("made to fail")
        return found


def scene(width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A ground that is not flat."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack((40 + rows // 2, 60 + columns // 4, 90 - rows // 4), -1).astype(np.uint8)


def with_square(
    x: int, y: int = 20, ground: NDArray[np.uint8] | None = None, edge: int = EDGE
) -> NDArray[np.uint8]:
    frame = scene() if ground is None else ground.copy()
    frame[y : y + edge, x : x + edge] = (250, 220, 30)
    return frame


def walk(count: int = 40) -> list[NDArray[np.uint8]]:
    """A square that crosses the scene, two pixels a frame."""
    return [with_square(2 * frame) for frame in range(count)]


def found_in(home: Path) -> list[Path]:
    return sorted((home / ".cache" / "trigpoint" / "tracks").glob("*"))


# The background


def test_the_background_is_the_scene_without_the_subject(tmp_path: Path) -> None:
    background = Background(Shown(tmp_path / "a", walk()))
    np.testing.assert_array_equal(background.scene, scene())
    np.testing.assert_allclose(background.mean, scene().reshape(-1, 3).mean(0))
    assert background.threshold == module.DIFFERENCE


def test_the_background_is_the_median_of_frames_spread_over_the_video(tmp_path: Path) -> None:
    """An independent median of the same frames; more frames than are looked at."""
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (8, 10, 3), np.uint8) for _ in range(200)]
    shown = Shown(tmp_path / "a", frames)
    background = Background(shown)
    assert shown.reads == module.SAMPLES
    chosen = [frames[round(place)] for place in np.linspace(0, 199, module.SAMPLES)]
    expected = np.sort(np.stack(chosen), axis=0)[module.SAMPLES // 2]
    np.testing.assert_array_equal(background.scene, expected)
    noise = np.median(np.abs(np.stack(chosen).astype(int) - expected.astype(int)).max(-1))
    assert background.threshold == module.NOISE * noise


def test_a_noisy_camera_raises_the_threshold_and_hides_nothing_large(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frames = [
        np.clip(frame + random.normal(0, 8, frame.shape), 0, 255).astype(np.uint8) for frame in walk(30)
    ]
    background = Background(Shown(tmp_path / "a", frames))
    assert background.threshold > 2 * module.DIFFERENCE
    mask = background.foreground(frames[10])
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[20 : 20 + EDGE, 20 : 20 + EDGE] = True
    assert (mask & expected).sum() / (mask | expected).sum() > 0.8


def test_unreadable_frames_do_not_count(tmp_path: Path) -> None:
    frames: list[NDArray[np.uint8] | None] = [*walk()]
    frames[::7] = [None] * len(frames[::7])
    np.testing.assert_array_equal(Background(Shown(tmp_path / "a", frames)).scene, scene())


def test_frames_of_another_size_do_not_count(tmp_path: Path) -> None:
    frames = [*walk(), scene(40, 40), scene(48, 32)]
    background = Background(Shown(tmp_path / "a", frames))
    np.testing.assert_array_equal(background.scene, scene())
    with pytest.raises(UnreadableImage, match="the frame has 48x32 pixels, others more or less"):
        background.foreground(frames[-1])


@pytest.mark.parametrize(
    "frames", [[scene()] * 2, [scene(), None, None, scene()], [scene(), scene(8, 8)] * 2]
)
def test_too_few_frames_tell_no_background(tmp_path: Path, frames: list) -> None:
    with pytest.raises(
        TrigpointError, match=r"short\.mp4 has too few readable frames to tell its background"
    ):
        Background(Shown(tmp_path / "short.mp4", frames))


# The foreground


def test_the_foreground_is_the_subject(tmp_path: Path) -> None:
    background = Background(Shown(tmp_path / "a", walk()))
    mask = background.foreground(with_square(50))
    rows, columns = np.nonzero(mask)
    inside = mask[21 : 20 + EDGE - 1, 51 : 50 + EDGE - 1]
    assert inside.all()
    assert abs(rows.min() - 20) <= 1
    assert abs(rows.max() - (20 + EDGE - 1)) <= 1
    assert abs(columns.min() - 50) <= 1
    assert abs(columns.max() - (50 + EDGE - 1)) <= 1


def difference(*squares: tuple[int, int, int]) -> NDArray[np.uint8]:
    """(H, W, 3) that is 200 in squares of (x, y, edge), else 0."""
    found = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for x, y, edge in squares:
        found[y : y + edge, x : x + edge] = 200
    return found


def test_specks_go_and_holes_close() -> None:
    changed = difference((30, 20, 24))
    changed[30:33, 40:43] = 0
    changed[5, 5] = changed[60, 90] = 255
    mask = mask_of(changed, 24)
    assert mask[20:44, 30:54].mean() > 0.95
    assert mask[31, 41]
    assert not mask[:15].any()
    assert not mask[50:].any()


def test_pieces_below_a_tenth_of_the_largest_go() -> None:
    mask = mask_of(difference((10, 10, 30), (60, 10, 14), (80, 50, 7)), 24)
    assert mask[25, 25]
    assert mask[17, 67]
    assert not mask[45:, 75:].any()


def test_no_change_is_no_foreground() -> None:
    assert not mask_of(difference(), 24).any()
    assert not mask_of(np.full((HEIGHT, WIDTH, 3), 24, np.uint8), 24).any()


def test_any_channel_may_tell() -> None:
    for channel in range(3):
        changed = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        changed[20:40, 20:40, channel] = 100
        assert mask_of(changed, 24)[30, 30]


@pytest.mark.parametrize(
    ("crop", "ratio"),
    [
        (Placement(10, 5, 30, 20), (1.0, 1.0)),
        (Placement(10.5, 5.49, 30.2, 20.7), (1.0, 1.0)),
        (Placement(-5, -8, 200, 300), (1.0, 1.0)),
        (Placement(300, 0, 10, 10), (1.0, 1.0)),
        (Placement(-50, -50, 10, 10), (1.0, 1.0)),
        (Placement(21, 9, 70, 100), (2.5, 3.25)),
    ],
)
def test_only_pixels_whose_centres_lie_in_the_crop_are_kept(
    crop: Placement, ratio: tuple[float, float]
) -> None:
    whole = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    x, y = (columns + 0.5) * ratio[0], (rows + 0.5) * ratio[1]
    inside = (x >= crop.x) & (x < crop.x + crop.width) & (y >= crop.y) & (y < crop.y + crop.height)
    np.testing.assert_array_equal(within(crop, whole, ratio)[:, :, 0], 200 * inside)
    np.testing.assert_array_equal(within(None, whole, ratio), whole)


# Frames prepared


def test_nothing_is_read_where_nothing_is_asked_for(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "a", walk())
    plain = prepare_subject(shown, VideoConfig())
    assert plain.image(shown.frames[3]) is shown.frames[3]
    assert plain.box(3) is None
    cropped = prepare_subject(shown, VideoConfig(crop=(4, 6, 30, 20)))
    assert cropped.box(7) == Placement(4, 6, 30, 20)
    assert shown.reads == 0


@pytest.mark.parametrize("kind", ["grey", "mean"])
def test_the_background_is_filled(tmp_path: Path, kind: str) -> None:
    shown = Shown(tmp_path / "a", walk())
    prepared = prepare_subject(shown, VideoConfig(background=kind))  # type: ignore[arg-type]
    frame = with_square(50)
    found = prepared.image(frame)
    fill = (128, 128, 128) if kind == "grey" else scene().reshape(-1, 3).mean(0).round().astype(int)
    assert found.dtype == np.uint8
    assert (found[:16] == fill).all()
    assert (found[:, :40] == fill).all()
    np.testing.assert_array_equal(found[22:34, 52:64], frame[22:34, 52:64])
    assert prepared.box(0) is None


def test_what_moves_outside_of_the_crop_does_not_hide_the_subject(tmp_path: Path) -> None:
    """A large thing outside; the subject is less than a tenth of it."""
    frames = []
    for frame in range(42):
        ground = with_square(50, 10, edge=42) if frame % 3 == 0 else scene()
        frames.append(with_square(frame % 28, 26, ground, edge=10))
    config = VideoConfig(background="grey", follow=True, crop=(0, 0, 40, 64))
    prepared = prepare_subject(Shown(tmp_path / "a", frames), config)
    found = prepared.image(frames[12])
    assert (found[30, 17] == (250, 220, 30)).all()
    assert (found[:, 45:] == 128).all()
    box = prepared.box(12)
    assert box is not None
    assert box.x + box.width / 2 == pytest.approx(17, abs=3)
    assert box.width < 1.3 * 16


# The square that follows


def test_the_crop_follows_the_subject(tmp_path: Path) -> None:
    prepared = prepare_subject(Shown(tmp_path / "a", walk()), FOLLOW)
    boxes = [prepared.box(frame) for frame in range(40)]
    assert all(box is not None and box.width == box.height for box in boxes)
    edges = {box.width for box in boxes if box}
    assert len(edges) == 1
    assert edges.pop() == pytest.approx(1.3 * EDGE, abs=5)
    for frame in range(10, 30):  # away from both ends, where the smoothing has one side only
        box = boxes[frame]
        assert box is not None
        assert box.x + box.width / 2 == pytest.approx(2 * frame + EDGE / 2, abs=1.1)
        assert box.y + box.height / 2 == pytest.approx(20 + EDGE / 2, abs=1.1)
        assert box.fill is None
    assert prepared.box(99) == boxes[-1]


def test_the_crop_is_filled_with_what_the_background_is(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "a", walk())
    grey = prepare_subject(shown, VideoConfig(follow=True, background="grey")).box(5)
    mean = prepare_subject(shown, VideoConfig(follow=True, background="mean")).box(5)
    assert grey is not None
    assert grey.fill == 128
    assert mean is not None
    assert mean.fill == round(float(scene().reshape(-1, 3).mean(0).round().mean()))


def test_large_frames_are_searched_small_and_the_crop_is_in_their_pixels(tmp_path: Path) -> None:
    ground = scene(480, 320)
    frames = [with_square(100 + 8 * frame, 150, ground, edge=60) for frame in range(30)]
    box = prepare_subject(Shown(tmp_path / "a", frames), FOLLOW).box(15)
    assert box is not None
    assert box.x + box.width / 2 == pytest.approx(100 + 8 * 15 + 30, abs=5)
    assert box.y + box.height / 2 == pytest.approx(180, abs=4)
    assert box.width == pytest.approx(1.3 * 60, abs=10)


def test_frames_without_the_subject_are_bridged(tmp_path: Path) -> None:
    frames: list[NDArray[np.uint8] | None] = [*walk()]
    frames[15:20] = [scene()] * 5  # it hides
    frames[22:25] = [None] * 3
    frames[27] = scene(40, 40)
    prepared = prepare_subject(Shown(tmp_path / "a", frames), FOLLOW)
    for frame in (16, 17, 18, 23, 27):
        box = prepared.box(frame)
        assert box is not None
        assert box.x + box.width / 2 == pytest.approx(2 * frame + EDGE / 2, abs=1.5)


def test_the_crop_is_as_large_as_the_subject_mostly_is(tmp_path: Path) -> None:
    """A few frames on which everything changes do not enlarge it."""
    frames = [with_square(10 + 2 * (frame % 30)) for frame in range(60)]
    frames[20] = 255 - frames[20]
    twice = VideoConfig(follow=True, scale=2)
    box, large = (prepare_subject(Shown(tmp_path / "a", frames), c).box(10) for c in (FOLLOW, twice))
    assert box is not None
    assert large is not None
    assert box.width == pytest.approx(1.3 * EDGE, abs=5)
    assert large.width == pytest.approx(box.width * 2 / 1.3)


def test_the_crop_zooms_along_where_told(tmp_path: Path) -> None:
    """A square that grows from 10 to 30 pixels, slowly against the smoothing."""
    growth = np.linspace(10, 30, 80).round().astype(int)
    frames = [with_square(5 + frame % 40, 5, edge=int(edge)) for frame, edge in enumerate(growth)]
    shown = Shown(tmp_path / "a", frames, 10.0)
    zooming = prepare_subject(shown, VideoConfig(follow=True, zoom=True)).track
    fixed = prepare_subject(shown, FOLLOW).track
    assert zooming is not None
    assert fixed is not None
    assert np.ptp(fixed[:, 2]) == 0
    grown = zooming[20:61, 2] - zooming[20, 2]  # the mask is a little larger than the square
    np.testing.assert_allclose(grown, 1.3 * (growth[20:61] - growth[20]), atol=2.6)
    assert grown[-1] > 10
    np.testing.assert_array_equal(zooming[:, :2], fixed[:, :2])


def test_where_nothing_moves_there_is_nothing_to_follow(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"Nothing moves in still\.mp4: there is no subject to follow\."):
        prepare_subject(Shown(tmp_path / "still.mp4", [scene()] * 5), FOLLOW)
    outside = VideoConfig(follow=True, crop=(0, 45, 96, 19))
    with pytest.raises(TrigpointError, match="Nothing moves"):
        prepare_subject(Shown(tmp_path / "a.mp4", walk()), outside)


def test_a_path_is_smoothed_as_scipy_does_with_gaps_bridged() -> None:
    random = np.random.default_rng(0)
    path = np.cumsum(random.normal(0, 1, (50, 2)), 0)
    np.testing.assert_allclose(smooth(path, 3), gaussian_filter1d(path, 3, axis=0, mode="nearest"))
    np.testing.assert_array_equal(smooth(path, 0), path)
    holed = path.copy()
    holed[:4] = holed[20:30] = np.nan
    holed[40, 1] = np.nan
    bridged = smooth(holed, 0)
    np.testing.assert_allclose(bridged[:4], np.tile(path[4], (4, 1)))
    np.testing.assert_allclose(bridged[19:31], np.linspace(path[19], path[30], 12))
    np.testing.assert_allclose(bridged[40], (path[39] + path[41]) / 2)
    known = np.isfinite(holed).all(-1)
    np.testing.assert_array_equal(bridged[known], path[known])


def test_the_smoothing_follows_the_frame_rate(tmp_path: Path) -> None:
    """A jump is smeared over a share of a second, however many frames that is."""
    jump = [with_square(60 if frame >= 20 else 0) if frame < 40 else scene() for frame in range(60)]
    spread = []
    for rate in (4.0, 40.0):
        track = prepare_subject(Shown(tmp_path / f"{rate}", jump, rate), FOLLOW).track
        assert track is not None
        spread.append(int((np.abs(np.diff(track[:, 0])) > 0.5).sum()))
    assert spread[0] <= 7
    assert spread[1] > 25
    still = prepare_subject(Shown(tmp_path / "stills", jump, 0.0), FOLLOW).track
    assert still is not None
    assert (np.diff(still[:, 0]) != 0).sum() == 1


# What is kept


def test_a_track_is_kept_and_found_again(tmp_path: Path, home: Path) -> None:
    shown = Shown(tmp_path / "a", walk())
    first = prepare_subject(shown, FOLLOW).track
    assert len(found_in(home)) == 1
    shown.reads = 0
    again = prepare_subject(shown, FOLLOW).track
    assert shown.reads == 40  # those of the background alone
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(again, first)


def test_only_what_matters_makes_another_track(tmp_path: Path, home: Path) -> None:
    shown = Shown(tmp_path / "a", walk())
    prepare_subject(shown, FOLLOW)
    prepare_subject(shown, VideoConfig(every=5, frames=3, background="grey", follow=True))
    assert len(found_in(home)) == 1
    prepare_subject(shown, VideoConfig(follow=True, scale=2))
    prepare_subject(shown, VideoConfig(follow=True, crop=(0, 0, 80, 60)))
    assert len(found_in(home)) == 3
    os.utime(shown.path, (1, 1))  # another file of the name
    prepare_subject(shown, FOLLOW)
    assert len(found_in(home)) == 4
    prepare_subject(Shown(tmp_path / "b", walk()), FOLLOW)
    assert len(found_in(home)) == 5


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "other", "length"])
def test_a_damaged_track_is_made_again(tmp_path: Path, home: Path, damage: str) -> None:
    shown = Shown(tmp_path / "a", walk())
    first = prepare_subject(shown, FOLLOW).track
    assert first is not None
    (file,) = found_in(home)
    content = file.read_bytes()
    if damage == "length":
        np.savez(file, track=first[:10])
    elif damage == "other":
        np.savez(file, path=first)
    else:
        file.write_bytes({"cut": content[: len(content) // 2], "garbage": b"x" * 900, "empty": b""}[damage])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = prepare_subject(shown, FOLLOW).track
    assert again is not None
    np.testing.assert_array_equal(again, first)
    with np.load(file) as kept:
        np.testing.assert_array_equal(kept["track"], first)


def test_a_kill_while_a_track_is_written_leaves_none(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    shown = Shown(tmp_path / "a", walk())
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare_subject(shown, FOLLOW)
    assert prepare_subject(shown, FOLLOW).track is not None
    with np.load(next(file for file in found_in(home) if not file.name.startswith("."))) as kept:
        assert kept["track"].shape == (40, 3)


def test_a_home_that_cannot_be_written_to_does_not_matter(tmp_path: Path, home: Path) -> None:
    (home / ".cache").write_text("a file is in the way")
    track = prepare_subject(Shown(tmp_path / "a", walk()), FOLLOW).track
    assert track is not None
    assert track.shape == (40, 3)
