"""Landmarks of videos: every frame's own, whatever the video is like, and whole files or none."""

from __future__ import annotations

import csv
import struct
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.formats import FORMATS
from trigpoint.core.files.overlay import draw_landmarks
from trigpoint.core.geometry import Placement
from trigpoint.core.inference import videos
from trigpoint.core.inference.predictor import Landmarks, Predictor
from trigpoint.core.inference.videos import AHEAD, BATCH, Ahead, Outputs, detect_video, scratch, smooth_points
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.sources.video import Video

Pixels = NDArray[np.uint8]


def frames_of(count: int, width: int = 64, height: int = 48) -> list[Pixels]:
    """A bright square that goes round on a ground of its own."""
    ground = np.random.default_rng(0).integers(60, 90, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    ground = np.kron(ground, np.ones((8, 8, 1), np.uint8))[:height, :width]
    made = []
    for frame in range(count):
        angle = 2 * np.pi * frame / 40
        x, y = round(width / 2 + width / 4 * np.cos(angle)), round(height / 2 + height / 4 * np.sin(angle))
        image = ground.copy()
        image[y - 6 : y + 6, x - 6 : x + 6] = (250, 210, 60)
        image[y - 2 : y + 2, x : x + 5] = (90, 20, 20)
        made.append(image)
    return made


def make_video(
    path: Path,
    frames: Sequence[Pixels],
    times: Sequence[int] | None = None,
    codec: str = "ffv1",
    rate: int = 20,
) -> Path:
    """Without loss; `times` in milliseconds where frames do not follow each other evenly."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = {"ffv1": "bgr0", "libx264rgb": "rgb24", "mpeg4": "yuv420p"}[codec]
        if codec == "libx264rgb":
            stream.options = {"qp": "0", "g": "10"}
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for number, image in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(image, format="rgb24")
            if times is not None:
                picture.pts, picture.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def table_of(path: Path, landmarks: int = 4) -> dict[int, NDArray[np.float64]]:
    """Frame to (landmarks, 3)."""
    values: dict[int, list[list[float]]] = {}
    for row in rows_of(path):
        values.setdefault(int(row["frame"]), []).append([float(row[c]) for c in ("x", "y", "confidence")])
    assert all(len(rows) == landmarks for rows in values.values())
    return {frame: np.array(rows) for frame, rows in values.items()}


def assert_found(
    table: dict[int, NDArray[np.float64]],
    predictor: Predictor,
    frames: dict[int, Pixels],
    box: Placement | None = None,
) -> None:
    """The table holds what the model finds on each of those frames alone."""
    assert list(table) == list(frames)
    for number, image in frames.items():
        found = predictor.detect(image, box)
        np.testing.assert_allclose(table[number][:, :2], found.points, atol=0.011)
        np.testing.assert_allclose(table[number][:, 2], found.confidence, atol=0.0011)


def numbered(frames: Sequence[Pixels], without: Sequence[int] = ()) -> dict[int, Pixels]:
    return {number: image for number, image in enumerate(frames) if number not in without}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# What is found


def test_every_frame_has_the_landmarks_of_that_frame(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(BATCH + 8)  # a whole batch and a part of one
    video = make_video(tmp_path / "a.mkv", frames)
    done = detect_video(predictor, video, Outputs(tmp_path / "out"), "a")
    assert (done.frames, done.missing) == (BATCH + 8, 0)
    table = table_of(tmp_path / "out" / "a.csv")
    assert_found(table, predictor, numbered(frames))
    trust = np.array([rows[:, 2] for rows in table.values()])
    np.testing.assert_allclose(done.low, (trust < videos.LOW).mean(0), atol=0.05)
    assert done.seconds > 0
    assert names_in(tmp_path / "out") == ["a.csv", "a.record.json"]


def test_all_formats_at_once_with_their_names(predictor: Predictor, tmp_path: Path) -> None:
    video = make_video(tmp_path / "a.b.mkv", frames_of(6))
    wanted = Outputs(tmp_path / "out", ("csv", "dlc", "h5", "coco", "slp", "csv"), overlay=True)
    names = ("nose", "ear", "2", "tail")
    detect_video(Predictor(predictor.backend, predictor.config, names=names), video, wanted, "a")
    assert names_in(tmp_path / "out") == [
        "a.b.coco.json", "a.b.csv", "a.b.dlc.csv", "a.b.dlc.h5", "a.b.overlay.mp4",
        "a.b.record.json", "a.b.slp",
    ]  # fmt: skip
    assert [row["landmark"] for row in rows_of(tmp_path / "out" / "a.b.csv")][:4] == list(names)
    assert "nose,nose,nose,ear" in (tmp_path / "out" / "a.b.dlc.csv").read_text()


def test_a_crop_takes_the_place_of_the_model_s_own(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(4)
    video = make_video(tmp_path / "a.mkv", frames)
    crop = Placement(10.5, 4, 40, 40)
    detect_video(predictor, video, Outputs(tmp_path), "a", crop)
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(frames), crop)


def with_video(predictor: Predictor, **values: Any) -> Predictor:
    config = replace(predictor.config, video=replace(predictor.config.video, **values))
    return Predictor(predictor.backend, config)


def test_the_model_s_own_region_is_used(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(4)
    video = make_video(tmp_path / "a.mkv", frames)
    cropped = with_video(predictor, crop=(8.0, 0.0, 48.0, 48.0))
    detect_video(cropped, video, Outputs(tmp_path), "a")
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(frames), Placement(8, 0, 48, 48))


def test_keypoints_are_computed_from_landmarks_in_the_crop(predictor: Predictor, tmp_path: Path) -> None:
    """Two keypoints: the middle of all landmarks, and the first landmark an eighth of the crop lower."""
    weights = np.zeros((2, 2, 9))
    weights[0, 0, 0:8:2] = weights[0, 1, 1:8:2] = 0.25
    weights[1, 0, 0] = weights[1, 1, 1] = 1
    weights[1, 1, 8] = 0.125
    keypoints = KeypointMap(("middle", "below"), weights, {})
    frames = frames_of(5)
    video = make_video(tmp_path / "a.mkv", frames)
    crop = Placement(10, 4, 40, 40)
    detect_video(predictor, video, Outputs(tmp_path), "a", crop, keypoints)
    table = table_of(tmp_path / "a.csv", landmarks=2)
    assert [row["landmark"] for row in rows_of(tmp_path / "a.csv")[:2]] == ["middle", "below"]
    for number, image in enumerate(frames):
        found = predictor.detect(image, crop)
        np.testing.assert_allclose(table[number][0, :2], found.points.mean(0), atol=0.011)
        np.testing.assert_allclose(table[number][1, :2], found.points[0] + (0, 5), atol=0.011)
        np.testing.assert_allclose(table[number][:, 2], found.confidence.mean(), atol=0.0011)


# Videos as they are


def test_frames_at_uneven_times_keep_their_numbers(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(8)
    video = make_video(tmp_path / "a.mkv", frames, times=[0, 40, 50, 300, 301, 700, 1000, 1400])
    done = detect_video(predictor, video, Outputs(tmp_path, overlay=True), "a")
    assert (done.frames, done.missing) == (8, 0)
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(frames))
    with av.open(str(tmp_path / "a.overlay.mp4")) as container:
        assert container.streams.video[0].frames == 8
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(7 / 1.4, rel=1e-3)


def test_odd_sizes(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(4, 61, 47)
    video = make_video(tmp_path / "a.mkv", frames)
    detect_video(predictor, video, Outputs(tmp_path, overlay=True), "a")
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(frames))
    assert [image.shape for image in decoded(tmp_path / "a.overlay.mp4")] == [(48, 62, 3)] * 4


def decoded(path: Path) -> list[Pixels]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def turned(path: Path) -> Path:
    """Let the file say that it is to be shown a quarter turn clockwise, as phones do."""
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40
    data[place : place + 36] = struct.pack(">9i", 0, 65536, 0, -65536, 0, 0, 48 << 16, 0, 1 << 30)
    path.write_bytes(data)
    return path


def test_a_turned_video_has_its_landmarks_on_the_upright_frame(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(4)
    video = turned(make_video(tmp_path / "a.mp4", frames, codec="libx264rgb"))
    detect_video(predictor, video, Outputs(tmp_path, overlay=True), "a")
    upright = [np.ascontiguousarray(np.rot90(image, -1)) for image in frames]
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(upright))
    drawn = decoded(tmp_path / "a.overlay.mp4")
    assert [image.shape for image in drawn] == [(64, 48, 3)] * 4
    assert np.abs(drawn[0].astype(int) - upright[0]).mean() < 12


def test_a_video_cut_short_is_used_as_far_as_it_goes(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(30)
    video = make_video(tmp_path / "a.mkv", frames)
    data = video.read_bytes()
    video.write_bytes(data[: len(data) * 6 // 10])
    done = detect_video(predictor, video, Outputs(tmp_path / "out", overlay=True), "a")
    assert 10 < done.frames < 20
    table = table_of(tmp_path / "out" / "a.csv")
    assert len(table) == done.frames
    assert_found(table, predictor, numbered(frames[: done.frames]))
    assert len(decoded(tmp_path / "out" / "a.overlay.mp4")) == done.frames + done.missing


def empty_video(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.start_encoding()
    return path


def torn_video(path: Path) -> Path:
    data = make_video(path, frames_of(4), codec="libx264rgb").read_bytes()
    path.write_bytes(data[: data.index(b"moov") - 8])
    return path


def letter(path: Path) -> Path:
    path.write_text("Dear diary")
    return path


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (empty_video, "a.avi", "a.avi has no frames"),
        (empty_video, "a.mp4", "a.mp4 is not a readable video"),
        (torn_video, "a.mp4", "a.mp4 is not a readable video"),
        (letter, "a.avi", "a.avi is not a readable video"),
    ],
)
def test_what_is_no_video_is_refused_and_leaves_nothing(
    predictor: Predictor, tmp_path: Path, make: Callable[[Path], Path], name: str, words: str
) -> None:
    video = make(tmp_path / name)
    with pytest.raises(UnreadableImage, match=words):
        detect_video(predictor, video, Outputs(tmp_path / "out"), "a")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let these frames of every video fail to be decoded."""

    def fail_on(*bad: int) -> None:
        read = Video.read

        def fail(self: Video, frame: int, form: str = "rgb24") -> Pixels:
            if frame in bad:
                raise UnreadableImage(f"frame {frame} is bad")
            return read(self, frame, form)

        monkeypatch.setattr(Video, "read", fail)

    return fail_on


def test_frames_that_cannot_be_decoded_are_left_empty(
    predictor: Predictor, tmp_path: Path, unreadable: Callable[..., None]
) -> None:
    frames = frames_of(12)
    video = make_video(tmp_path / "a.mkv", frames)
    unreadable(0, 4, 11)
    wanted = Outputs(tmp_path, ("csv", "dlc"), overlay=True, trails=3)
    done = detect_video(predictor, video, wanted, "a")
    assert (done.frames, done.missing) == (9, 3)
    assert_found(table_of(tmp_path / "a.csv"), predictor, numbered(frames, without=(0, 4, 11)))
    lines = (tmp_path / "a.dlc.csv").read_text().splitlines()[3:]
    assert [line.split(",", 1)[0] for line in lines] == [str(frame) for frame in range(12)]
    assert lines[4] == "4" + "," * 12
    drawn = decoded(tmp_path / "a.overlay.mp4")
    assert len(drawn) == 12  # so that frames keep their numbers
    assert drawn[0].max() < 20
    assert np.abs(drawn[5].astype(int) - frames[5]).mean() < np.abs(drawn[5].astype(int) - frames[2]).mean()


def test_a_video_of_which_nothing_can_be_decoded_is_refused(
    predictor: Predictor, tmp_path: Path, unreadable: Callable[..., None]
) -> None:
    video = make_video(tmp_path / "a.mkv", frames_of(5))
    unreadable(*range(5))
    with pytest.raises(UnreadableImage, match=r"none of the 5 frames of a\.mkv can be decoded"):
        detect_video(predictor, video, Outputs(tmp_path / "out"), "a")
    assert names_in(tmp_path / "out") == []


def test_a_video_without_the_subject_is_refused_as_unreadable(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a call goes on with the next one. Where the crop is given none is looked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    video = make_video(tmp_path / "a.mkv", frames_of(1) * 6)
    following = with_video(predictor, follow=True)
    with pytest.raises(UnreadableImage, match=r"Nothing moves in a\.mkv: there is no subject to follow$"):
        detect_video(following, video, Outputs(tmp_path / "out"), "a")
    crop = Placement(0, 0, 48, 48)
    assert detect_video(following, video, Outputs(tmp_path / "out"), "a", crop).frames == 6


def test_a_followed_subject_is_cropped_and_its_landmarks_are_of_the_whole_frame(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    frames = frames_of(40)
    video = make_video(tmp_path / "a.mkv", frames)
    detect_video(with_video(predictor, follow=True), video, Outputs(tmp_path), "a")
    table = table_of(tmp_path / "a.csv")
    (kept,) = (tmp_path / ".cache" / "trigpoint" / "tracks").iterdir()
    track = np.load(kept)["track"]
    for number in (0, 17, 39):
        x, y, edge = track[number]
        found = predictor.detect(frames[number], Placement(x - edge / 2, y - edge / 2, edge, edge))
        np.testing.assert_allclose(table[number][:, :2], found.points, atol=0.011)


# The overlay


def test_the_overlay_is_the_video_with_its_landmarks(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(6)
    video = make_video(tmp_path / "a.mkv", frames, rate=10)
    detect_video(predictor, video, Outputs(tmp_path, overlay=True), "a")
    detect_video(predictor, video, Outputs(tmp_path / "t", overlay=True, trails=5), "a")
    drawn, trailed = decoded(tmp_path / "a.overlay.mp4"), decoded(tmp_path / "t" / "a.overlay.mp4")
    assert len(drawn) == len(trailed) == 6
    for image, shown in zip(frames, drawn, strict=True):
        found = predictor.detect(image)
        expected = draw_landmarks(image, found.points, found.confidence).astype(int)
        assert np.abs(shown - expected).mean() < 6
        assert np.abs(shown - expected).mean() < np.abs(shown - image.astype(int)).mean()
    moved = np.abs(trailed[5].astype(int) - drawn[5]).mean()
    assert moved > np.abs(trailed[0].astype(int) - drawn[0]).mean()


# Smoothing


def test_smoothing_is_the_parabola_of_a_quarter_second() -> None:
    """Against a least-squares parabola at every frame, at the ends that of the first and last window."""
    random = np.random.default_rng(1)
    points = random.normal(0, 3, (50, 2, 3)).astype(np.float32)
    before = points.astype(np.float64)
    smooth_points(points, rate=36)  # a window of 9 frames
    times = np.arange(50.0)
    for k in range(2):
        for axis in range(2):
            for frame in range(50):
                start = min(max(frame - 4, 0), 50 - 9)
                window = slice(start, start + 9)
                parabola = np.polyfit(times[window] - frame, before[window, k, axis], 2)
                assert points[frame, k, axis] == pytest.approx(parabola[-1], abs=1e-4)
    np.testing.assert_allclose(points[..., 2], before[..., 2], rtol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 12.0, 30.0, 120.0])
def test_smoothing_keeps_what_is_smooth_and_takes_noise_off(rate: float) -> None:
    times = np.arange(200.0)
    path = np.stack((0.01 * times**2, 3 - 0.2 * times), axis=-1)
    noise = np.random.default_rng(0).normal(0, 1, (200, 2))
    points = np.ones((200, 2, 3), np.float32)
    points[:, 0, :2], points[:, 1, :2] = path, path + noise
    smooth_points(points, rate)
    np.testing.assert_allclose(points[:, 0, :2], path, atol=1e-3)
    assert (points[:, 1, :2] - path).std() < 0.8


def test_missing_frames_stay_missing_and_are_bridged() -> None:
    times = np.arange(60.0)
    points = np.ones((60, 1, 3), np.float32)
    points[:, 0, 0], points[:, 0, 1] = times, 5 - times
    lost = [0, 20, 21, 22, 59]
    points[lost] = np.nan
    smooth_points(points, 30)
    assert np.isnan(points[lost]).all()
    rest = np.setdiff1d(np.arange(60), [*range(8), *range(52, 60)])
    rest = np.setdiff1d(rest, lost)
    np.testing.assert_allclose(points[rest, 0, 0], times[rest], atol=1e-3)
    assert np.isfinite(np.delete(points, lost, axis=0)).all()


def test_too_short_to_smooth_is_left_as_it_is() -> None:
    points = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    before = points.copy()
    smooth_points(points, 30)
    np.testing.assert_array_equal(points, before)
    sparse = np.full((40, 1, 3), np.nan, np.float32)
    sparse[::10] = 1
    smooth_points(sparse, 30)
    assert (sparse[::10] == 1).all()
    assert np.isnan(sparse[1]).all()


def test_smooth_is_what_is_written(predictor: Predictor, tmp_path: Path) -> None:
    frames = frames_of(30)
    video = make_video(tmp_path / "a.mkv", frames)
    detect_video(predictor, video, Outputs(tmp_path, smooth=True), "a")
    expected = np.ones((30, 4, 3), np.float32)
    expected[..., :2] = [predictor.detect(image).points for image in frames]
    smooth_points(expected, 20)
    table = table_of(tmp_path / "a.csv")
    np.testing.assert_allclose([rows[:, :2] for rows in table.values()], expected[..., :2], atol=0.02)


# Whole files or none


def test_the_points_wait_in_a_file_that_nobody_sees(tmp_path: Path) -> None:
    points = scratch(tmp_path, (50, 4, 3))
    assert isinstance(points, np.memmap)
    assert points.shape == (50, 4, 3)
    assert np.isnan(points).all()
    points[[3, 49], :, :2] = 7
    assert np.nansum(points) == 2 * 4 * 2 * 7
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("broken", ["slp", "overlay"])
def test_no_file_appears_before_all_are_whole(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    video = make_video(tmp_path / "a.mkv", frames_of(4))
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.csv").write_text("of an earlier call")

    def fail(part: Path, *_: object) -> None:
        part.write_text("half")
        raise OSError("the disk is full")

    if broken == "overlay":
        monkeypatch.setattr(videos, "write_overlay", fail)
    else:
        monkeypatch.setitem(FORMATS, "slp", replace(FORMATS["slp"], write=fail))
    with pytest.raises(OSError, match="the disk is full"):
        detect_video(predictor, video, Outputs(out, ("csv", "dlc", "slp"), overlay=True, overwrite=True), "a")
    assert names_in(out) == ["a.csv"]
    assert (out / "a.csv").read_text() == "of an earlier call"


@pytest.mark.parametrize("name", [*FORMATS, "overlay"])
def test_what_a_killed_call_left_is_no_hindrance(predictor: Predictor, tmp_path: Path, name: str) -> None:
    video = make_video(tmp_path / "a.mkv", frames_of(4))
    wanted = Outputs(tmp_path / "out", () if name == "overlay" else (name,), overlay=name == "overlay")
    (file,) = wanted.files(video).values()
    file.parent.mkdir()
    file.with_name(f".part-{file.name}").write_bytes(b"half of it" * 100)
    detect_video(predictor, video, wanted, "a")
    assert names_in(tmp_path / "out") == sorted([file.name, "a.record.json"])
    clean = replace(wanted, folder=tmp_path / "clean")
    detect_video(predictor, video, clean, "a")
    assert file.stat().st_size == pytest.approx((tmp_path / "clean" / file.name).stat().st_size, rel=0.02)


def test_a_missing_library_is_said_before_the_work(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sleap_io", None)
    monkeypatch.setattr(Video, "read", lambda *_: pytest.fail("a frame was read"))
    video = make_video(tmp_path / "a.mkv", frames_of(4))
    with pytest.raises(TrigpointError, match=r"trigpoint\[sleap\]"):
        detect_video(predictor, video, Outputs(tmp_path, ("csv", "slp")), "a")
    assert names_in(tmp_path) == ["a.mkv"]


# Decoding ahead


class Frames:
    """As many frames as one likes, made when they are read."""

    def __init__(self, count: int, size: tuple[int, int] = (4, 4), errors: dict[int, Any] | None = None):
        self.count, self.size, self.errors = count, size, errors or {}
        self.reads = 0
        self.rate = 20.0
        self.path = Path("made.mkv")

    def __len__(self) -> int:
        return self.count

    def read(self, frame: int, form: str = "rgb24") -> Pixels:
        self.reads += 1
        if frame in self.errors:
            raise self.errors[frame]
        return np.full((self.size[1], self.size[0], 3), frame % 256, np.uint8)

    def close(self) -> None:
        pass


def plain(_: int, image: Pixels) -> Pixels:
    return image


def test_frames_come_in_order_and_bad_ones_are_counted() -> None:
    video: Any = Frames(3 * BATCH, errors={5: UnreadableImage("bad"), 90: UnreadableImage("bad")})
    with Ahead(video, lambda frame, image: (frame, int(image[0, 0, 0]))) as batches:
        given = list(batches)
    assert batches.missing == 2
    assert [len(frames) for frames, _ in given] == [BATCH, BATCH, BATCH - 2]
    assert [frame for frames, _ in given for frame in frames] == [
        frame for frame in range(3 * BATCH) if frame not in (5, 90)
    ]
    assert all(prepared == [(frame, frame) for frame in frames] for frames, prepared in given)


@pytest.mark.parametrize("error", [RuntimeError("broken wire"), MemoryError("no room"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, BATCH + 3])
def test_errors_of_the_thread_reach_the_caller(error: BaseException, at: int) -> None:
    video: Any = Frames(10 * BATCH, errors={at: error})
    seen = 0

    def use() -> None:
        nonlocal seen
        with Ahead(video, plain) as batches:
            for frames, _ in batches:
                seen += len(frames)

    with pytest.raises(type(error)) as caught:
        use()
    assert caught.value is error
    assert seen == at // BATCH * BATCH


def test_errors_while_frames_are_prepared_reach_the_caller() -> None:
    """One that cannot be used is missing; any other error ends the work."""

    def prepare(frame: int, image: Pixels) -> Pixels:
        if frame == 3:
            raise UnreadableImage("of another size")
        if frame == BATCH + 5:
            raise ValueError("no such shape")
        return image

    video: Any = Frames(3 * BATCH)
    seen: list[int] = []

    def use() -> None:
        with Ahead(video, prepare) as batches:
            for frames, _ in batches:
                seen.extend(frames)
                assert batches.missing == 1

    with pytest.raises(ValueError, match="no such shape"):
        use()
    assert seen == [frame for frame in range(BATCH + 1) if frame != 3]


def test_an_error_while_decoding_leaves_no_file(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = make_video(tmp_path / "a.mkv", frames_of(4))
    read = Video.read

    def fail(self: Video, frame: int, form: str = "rgb24") -> Pixels:
        if frame == 2:
            raise RuntimeError("broken wire")
        return read(self, frame, form)

    monkeypatch.setattr(Video, "read", fail)
    with pytest.raises(RuntimeError, match="broken wire"):
        detect_video(predictor, video, Outputs(tmp_path / "out"), "a")
    assert names_in(tmp_path / "out") == []


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_caller_who_leaves_early_leaves_no_thread(taken: int) -> None:
    video: Any = Frames(1_000_000)
    before = threading.active_count()

    def leave() -> None:
        with Ahead(video, plain) as batches:
            stream = iter(batches)
            for _ in range(taken):
                next(stream)
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        leave()
    assert threading.active_count() == before
    assert video.reads <= (taken + 2 * AHEAD + 3) * BATCH


def test_decoding_is_only_so_far_ahead() -> None:
    """What is decoded but not used is bounded: those that wait, and one that does not fit any more."""
    video: Any = Frames(40 * BATCH)
    with Ahead(video, plain) as batches:
        for used, _ in enumerate(batches, 1):
            assert video.reads <= (used + AHEAD + 1) * BATCH


class Pointing:
    """A model that finds its one landmark at the frame's first value, without any arithmetic."""

    class Config:
        class video:  # noqa: N801  # as in the config
            crop, background, follow = (), "keep", False

    class backend:  # noqa: N801
        versions: ClassVar[dict[str, str]] = {}

    config, names = Config, ("0",)

    def prepare(self, image: Pixels, box: Placement | None) -> tuple[Pixels, Placement]:
        return image[:1, :1].copy(), Placement(0, 0, 1, 1)

    def detect_prepared(self, squares: Pixels, places: Sequence[Placement]) -> list[Landmarks]:
        return [Landmarks(np.full((1, 2), float(one[0, 0, 0])), np.ones(1)) for one in squares]


@pytest.fixture
def traced() -> Iterator[None]:
    import scipy.signal  # noqa: F401  # not to be counted

    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_memory_does_not_grow_with_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there ever a batch of whole frames, which would be 3 MB; all of them are 172 MB."""
    size, count = (200, 150), 60 * BATCH
    monkeypatch.setattr(videos, "Video", lambda _: Frames(count, size))
    monkeypatch.setattr(videos, "compared", lambda *_: {"options": {}})
    predictor: Any = Pointing()
    wanted = Outputs(tmp_path, ("csv", "dlc"), smooth=True)
    tracemalloc.reset_peak()
    done = detect_video(predictor, Path("made.mkv"), wanted, "made")
    peak = tracemalloc.get_traced_memory()[1]
    assert done.frames == count
    assert peak < BATCH * size[0] * size[1] * 3
    assert len(rows_of(tmp_path / "made.csv")) == count
