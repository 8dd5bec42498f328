"""Videos: every frame by its number, whatever the container; and many of them as one source."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.video import Video, Videos, is_video, sample, video_files

WIDTH, HEIGHT = 64, 48
# Frames that refer to later ones, in groups of twelve; `OPEN`: across the borders of groups.
CLOSED = {"bf": "3", "b_strategy": "0", "x264-params": "scenecut=0"}
OPEN = CLOSED | {"x264-params": "scenecut=0:open-gop=1"}


def coded(frame: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A picture of the frame's number: eight bars, white where its bit is set."""
    bits = np.repeat([255 * (frame >> bit & 1) for bit in range(8)], width // 8)
    return np.tile(bits.astype(np.uint8)[None, :, None], (height, 1, 3))


def number(picture: NDArray[np.uint8]) -> int:
    bars = picture.reshape(len(picture), 8, -1).mean((0, 2)) > 127
    return sum(int(bar) << bit for bit, bar in enumerate(bars))


def write(
    path: Path,
    pictures: Iterable[NDArray[np.uint8]] | int = 40,
    codec: str = "libx264",
    form: str = "yuv420p",
    options: dict[str, str] | None = None,
    times: Sequence[int] | None = None,  # in milliseconds
    container: str | None = None,
    title: str = "",
) -> Path:
    pictures = [coded(frame) for frame in range(pictures)] if isinstance(pictures, int) else list(pictures)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format=container) as stream:
        if title:
            stream.metadata["title"] = title
        video = stream.add_stream(codec, rate=25, options=options or {})
        video.height, video.width = pictures[0].shape[:2]
        video.pix_fmt = form
        video.codec_context.gop_size = 12
        if codec.startswith("mpeg"):
            video.bit_rate = 4_000_000
        if times:
            video.codec_context.time_base = Fraction(1, 1000)
        for place, picture in enumerate(pictures):
            shown = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if times:
                shown.pts, shown.time_base = times[place], Fraction(1, 1000)
            stream.mux(video.encode(shown))
        stream.mux(video.encode())
    return path


def pictures(seed: int, count: int, width: int, height: int) -> list[NDArray[np.uint8]]:
    random = np.random.default_rng(seed)
    return [random.integers(0, 256, (height, width, 3), np.uint8) for _ in range(count)]


def exact(path: Path, images: Iterable[NDArray[np.uint8]]) -> Path:
    """Without any loss."""
    return write(path, images, "ffv1", "bgr0")


# Any frame


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", CLOSED),
        ("a.mp4", "libx264", OPEN),
        ("a.mp4", "mpeg4", {"bf": "2"}),
        ("a.mov", "libx264", OPEN),
        ("a.m4v", "libx264", CLOSED),
        ("a.mkv", "libx264", OPEN),
        ("a.avi", "libx264", CLOSED),
        ("a.avi", "mpeg4", {"bf": "2"}),
        ("a.avi", "mpeg4", {}),
        ("a.avi", "mjpeg", {}),
        ("a.flv", "libx264", CLOSED),
        ("a.ts", "libx264", CLOSED),
        ("a.mts", "libx264", OPEN),
        ("a.mpg", "mpeg2video", {"bf": "2"}),
        ("a.mpeg", "mpeg1video", {"bf": "2"}),
        ("a.wmv", "wmv2", {}),
        ("a.webm", "libvpx", {"deadline": "realtime", "cpu-used": "8"}),
    ],
)
def test_any_frame_of_any_container_in_any_order(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    form = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    video = Video(write(tmp_path / name, 40, codec, form, options))
    assert len(video) == 40
    assert video.rate == pytest.approx(25, rel=0.01)
    mixed = np.random.default_rng(0).permutation(40).tolist()
    for frame in [*range(40), *range(39, 32, -1), *range(14, 7, -1), *mixed[:8], 7, 7]:
        assert number(video.read(frame)) == frame
    video.close()


def test_a_stream_without_times_is_counted(tmp_path: Path) -> None:
    video = Video(write(tmp_path / "a.h264", 60, options=CLOSED, container="h264"))
    assert not video.timed
    assert len(video) == 60
    assert video.rate == 25
    for frame in (0, 59, 30, 31, 3, 58):
        assert number(video.read(frame)) == frame


def test_times_that_are_the_order_of_storage_are_not_believed(tmp_path: Path) -> None:
    """AVI has no times: with frames that refer to later ones its packets are numbered as they are stored."""
    video = Video(write(tmp_path / "a.avi", options=CLOSED))
    assert not video.timed
    assert [number(video.read(frame)) for frame in (15, 16, 4)] == [15, 16, 4]
    assert Video(write(tmp_path / "b.avi", options={"bf": "0"})).timed


def test_a_stream_that_does_not_bear_jumps_is_decoded_from_its_start(tmp_path: Path) -> None:
    """H.264 4:4:4: FFmpeg forgets on a jump which encoder wrote it."""
    video = Video(write(tmp_path / "a.mp4", 40, form="yuv444p", options=CLOSED))
    assert (video.timed, video.keys) == (True, [])
    for frame in (30, 31, 2, 39, 17):
        assert number(video.read(frame)) == frame


def test_a_varying_frame_rate(tmp_path: Path) -> None:
    steps = np.random.default_rng(1).integers(5, 200, 29)
    times = [0, *np.cumsum(steps).tolist()]
    video = Video(write(tmp_path / "a.mkv", 30, options=CLOSED, times=times))
    assert len(video) == 30
    assert video.rate == pytest.approx(29 / (times[-1] / 1000))
    for frame in (*range(30), 29, 3, 17, 4):
        assert number(video.read(frame)) == frame


def test_times_that_do_not_begin_at_zero(tmp_path: Path) -> None:
    video = Video(write(tmp_path / "a.mkv", 20, options=CLOSED, times=range(5000, 5800, 40)))
    assert video.times[0] == 5000
    assert [number(video.read(frame)) for frame in (0, 19, 5)] == [0, 19, 5]


def test_what_an_edit_list_cuts_off_does_not_count(tmp_path: Path) -> None:
    """As telephones trim videos: the first frames are stored, to decode the others with, but not shown."""
    path = write(tmp_path / "a.mp4", options=CLOSED)
    content = bytearray(path.read_bytes())
    start = content.index(b"elst") + 16
    (first,) = struct.unpack_from(">i", content, start)
    struct.pack_into(">i", content, start, first + 5 * 512)  # 12,800 units a second
    path.write_bytes(content)
    video = Video(path)
    assert len(video) == 35
    assert [number(video.read(frame)) for frame in (0, 1, 34, 20, 7)] == [5, 6, 39, 25, 12]


def real(*parts: str) -> Path:
    path = Path(__file__).parents[3].parent.joinpath("shared", "data", *parts)
    if not path.is_file():
        pytest.skip(f"the video {path.name} is not here")
    return path


def decoded(path: Path, wanted: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Some frames, as plain decoding from the start gives them."""
    with av.open(str(path)) as container:
        shown = islice(enumerate(container.decode(video=0)), max(wanted) + 1)
        return {count: frame.to_ndarray(format="rgb24") for count, frame in shown if count in wanted}


def test_a_real_video_of_an_old_encoder() -> None:
    """H.264 4:4:4 of x264's core 148; its second key frame is frame 182."""
    path = real("mouse", "videos", "m3v1mp4.mp4")
    wanted = (20, 186, 184)
    video, frames = Video(path), decoded(path, wanted)
    assert len(video) == 2330
    assert video.rate == pytest.approx(30, rel=1e-3)
    for frame in wanted:
        np.testing.assert_array_equal(video.read(frame), frames[frame])


def test_a_real_avi_whose_times_are_the_order_of_storage() -> None:
    """Every second chunk of the file is empty: half as many frames as it declares."""
    path = real("lips", "videos", "008_xaud.avi")
    wanted = (4, 5, 29, 11, 12)
    video, frames = Video(path), decoded(path, wanted)
    assert len(video) == 289
    assert video.rate == pytest.approx(60.13, rel=0.01)
    for frame in wanted:
        np.testing.assert_array_equal(video.read(frame), frames[frame])


def test_frames_in_order_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = Video(write(tmp_path / "a.mp4", 120, options=CLOSED))
    jumps: list[int] = []
    jump = video._seek
    monkeypatch.setattr(video, "_seek", lambda wanted: (jumps.append(wanted), jump(wanted)))
    for frame in (*range(0, 30, 3), 29, 119, 118):
        assert number(video.read(frame)) == frame % 256
    assert jumps == [video.times[frame] for frame in (0, 119, 118)]


def test_no_jump_where_no_key_frame_lies_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = Video(write(tmp_path / "a.h264", 120, options=CLOSED, container="h264"))
    assert number(video.read(2)) == 2
    monkeypatch.setattr(video, "_seek", lambda wanted: pytest.fail("went back to the start"))
    assert number(video.read(110)) == 110


@pytest.mark.parametrize(("width", "height"), [(63, 47), (33, 64), (20, 17), (2, 2)])
def test_odd_sizes_and_exact_pixels(tmp_path: Path, width: int, height: int) -> None:
    images = pictures(0, 5, width, height)
    video = Video(exact(tmp_path / "a.mkv", images))
    for frame in (0, 1, 2, 3, 4, 2):
        found = video.read(frame)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, images[frame])
    assert video.read(3, "gray").shape == (height, width)


def test_grey_has_the_full_range(tmp_path: Path) -> None:
    video = Video(write(tmp_path / "a.mp4", [coded(0b10101010)] * 3))
    grey = video.read(1, "gray")
    assert grey.shape == (HEIGHT, WIDTH)
    assert grey[20, 4] <= 2
    assert grey[20, 12] >= 253


@pytest.mark.parametrize(
    ("matrix", "size"),
    [
        ((0, 1, -1, 0), (47, 64)),  # x becomes y: a quarter turn clockwise
        ((-1, 0, 0, -1), (64, 47)),
        ((0, -1, 1, 0), (47, 64)),
        ((1, 0, 0, 1), (64, 47)),
    ],
)
def test_frames_are_turned_as_the_file_says(
    tmp_path: Path, matrix: tuple[int, int, int, int], size: tuple[int, int]
) -> None:
    """Against the matrix in the file's header, applied by hand: (x, y) -> (ax + cy, bx + dy)."""
    image = pictures(1, 1, 64, 47)[0]
    path = write(tmp_path / "a.mp4", [image] * 3, "libx264rgb", "rgb24", {"qp": "0"})
    content = bytearray(path.read_bytes())
    a, b, c, d = matrix
    place = content.index(b"tkhd") + 4 + 40
    struct.pack_into(">9i", content, place, *(65536 * value for value in (a, b, 0, c, d, 0, 0, 0)), 1 << 30)
    path.write_bytes(content)
    video = Video(path)
    rows, columns = np.mgrid[:47, :64]
    x, y = a * columns + c * rows, b * columns + d * rows
    expected = np.empty((size[1], size[0], 3), np.uint8)
    expected[y - y.min(), x - x.min()] = image
    found = video.read(1)
    np.testing.assert_array_equal(found, expected)
    assert found.flags.c_contiguous
    assert video.read(2, "gray").shape == (size[1], size[0])


# What is damaged


def test_beyond_the_end(tmp_path: Path) -> None:
    video = Video(write(tmp_path / "a.mp4", 5))
    with pytest.raises(UnreadableImage, match=r"a\.mp4 ends after 5 frames"):
        video.read(5)
    assert number(video.read(4)) == 4


@pytest.mark.parametrize("content", [b"", b"no video\n" * 100, b"\0" * 5000])
@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv", "a.ts"])
def test_a_file_that_is_no_video(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableImage, match=rf"^{name} (is not a readable video \(.+\)|has no frames)$"):
        Video(tmp_path / name)


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        sound.rate = 16000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with pytest.raises(UnreadableImage, match=r"a\.mp4 is not a readable video \(no video in it\)"):
        Video(tmp_path / "a.mp4")


def test_an_unknown_codec(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz"))
    with pytest.raises(UnreadableImage, match=r"a\.mp4 is not a readable video \(its codec is not known\)"):
        Video(path)


@pytest.mark.parametrize(
    "name",
    [
        "http:a.mp4",
        "concat:other.mp4|other.mp4",
        "subfile,,start,0,end,0,,:other.mp4",
        "file:a.mp4",
        "%02d.mp4",
    ],
)
def test_a_name_is_that_of_a_file_whatever_ffmpeg_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("other.mp4"), 2)
    shutil.copy(write(tmp_path / "plain.mp4", 7), name)
    assert len(Video(Path(name))) == 7


@pytest.mark.parametrize("name", ["a?b#c&d=%20.mp4", "a\nb'\"\\.mp4", os.fsdecode(b"caf\xe9.mp4")])
def test_odd_names(tmp_path: Path, name: str) -> None:
    with VideoWriter(tmp_path / name, (WIDTH, HEIGHT), 25.0) as writer:
        for frame in range(3):
            writer.add(coded(frame))
    video = Video(tmp_path / name)
    assert [number(video.read(frame)) for frame in range(3)] == [0, 1, 2]


def test_a_list_of_further_files_is_no_video(tmp_path: Path) -> None:
    """FFmpeg tells its scripts by what is in them, and opens what they name."""
    write(tmp_path / "other.mp4", 3)
    script = tmp_path / "a.mp4"
    script.write_text("ffconcat version 1.0\nfile other.mp4\n")
    with av.open(str(script)) as opened:
        assert opened.format.name == "concat"
    with pytest.raises(UnreadableImage, match=r"a\.mp4 is not a readable video \(it is not of the formats"):
        Video(script)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImage, match=r"a\.mp4 is not a readable video \(No such file"):
        Video(tmp_path / "a.mp4")
    with pytest.raises(UnreadableImage, match="Is a directory"):
        Video(tmp_path)


@pytest.mark.parametrize("name", ["a.avi", "a.mkv", "a.mp4"])
def test_metadata_in_another_encoding(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, 3, "mpeg4", title="TITLE")
    content = path.read_bytes()
    assert b"TITLE" in content
    path.write_bytes(content.replace(b"TITLE", b"\xc9t\xe9\xff\xfe"))
    assert number(Video(path).read(2)) == 2


@pytest.mark.parametrize("name", ["a.mkv", "a.avi", "a.ts", "a.mpg"])
def test_a_truncated_file_has_the_frames_it_has(tmp_path: Path, name: str) -> None:
    codec = "mpeg2video" if name == "a.mpg" else "mpeg4" if name == "a.avi" else "libx264"
    noisy = [np.maximum(coded(frame), pictures(frame, 1, WIDTH, HEIGHT)[0] // 3) for frame in range(40)]
    path = write(tmp_path / name, noisy, codec, options={} if codec == "mpeg4" else {"bf": "0"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 6 // 10])
    video = Video(path)
    assert 5 < len(video) < 35
    last = len(video) - 1  # it may be cut in two
    for frame in (0, last - 1, 5, *range(last)):
        assert number(video.read(frame)) == frame
    with pytest.raises(UnreadableImage, match=f"ends after {len(video)} frames"):
        video.read(len(video))


def test_a_truncated_mp4_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", 20)
    path.write_bytes(path.read_bytes()[:1200])
    with pytest.raises(UnreadableImage, match=r"a\.mp4 is not a readable video"):
        Video(path)


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mp4", "libx264"), ("a.avi", "mpeg4"), ("a.ts", "mpeg2video")]
)
def test_damage_costs_the_frames_it_hits(tmp_path: Path, name: str, codec: str) -> None:
    """Whatever the damage: a frame is right, or damaged, or refused; what is far away is right."""
    noisy = [np.maximum(coded(frame), pictures(frame, 1, WIDTH, HEIGHT)[0] // 3) for frame in range(40)]
    path = write(tmp_path / name, noisy, codec, options={"bf": "0"})
    whole = Video(path)
    clean = [whole.read(frame) for frame in range(40)]
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 300] = np.random.default_rng(0).bytes(300)
    path.write_bytes(content)
    video = Video(path)
    same = 0
    for frame in range(len(video)):
        try:
            found = video.read(frame)
            same += any(np.array_equal(found, one) for one in clean)  # one that is lost shifts the others
        except UnreadableImage as error:
            assert path.name in str(error)  # noqa: PT017
    assert 20 <= same < 40
    np.testing.assert_array_equal(video.read(3), clean[3])


def test_a_frame_that_never_comes_is_missing(tmp_path: Path) -> None:
    video = Video(write(tmp_path / "a.mp4", 20))
    video.times[7] += 1  # a time at which nothing is shown
    with pytest.raises(UnreadableImage, match=r"frame 7 of a\.mp4 is missing"):
        video.read(7)
    assert number(video.read(8)) == 8
    video.times[19] += 1
    with pytest.raises(
        UnreadableImage, match=r"frame 19 of a\.mp4 cannot be decoded \(the video ends before"
    ):
        video.read(19)
    assert number(video.read(18)) == 18


# Which files


@pytest.mark.parametrize(
    ("name", "expected"), [("a.mp4", True), ("A.MOV", True), ("a.png", False), ("mp4", False)]
)
def test_videos_are_told_by_their_ending(name: str, expected: bool) -> None:
    assert is_video(Path(name)) is expected


def test_folders_stand_for_all_videos_below_them(tmp_path: Path) -> None:
    for name in ("b/2.mp4", "b/1.AVI", "b/deep/3.mkv", "b/.hidden.mp4", "b/notes.txt", "a.mov"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "folder.mp4").mkdir()
    found = video_files([tmp_path / "b", tmp_path / "a.mov", tmp_path / "b" / "notes.txt"])
    assert [file.name for file in found] == ["1.AVI", "2.mp4", "3.mkv", "a.mov"]


# Many videos as one source


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Twelve frames numbered from 0, and eight numbered from 100."""
    exact(tmp_path / "two" / "a.mkv", [coded(frame) for frame in range(12)])
    exact(tmp_path / "two" / "b.mkv", [coded(100 + frame) for frame in range(8)])
    return tmp_path / "two"


def test_frames_of_one_video_after_the_other(two: Path) -> None:
    source = Videos([two])
    assert len(source) == 20
    assert [number(source.image(index)) for index in range(20)] == [*range(12), *range(100, 108)]
    assert [number(source.image(index)) for index in (19, 0, 12, 11)] == [107, 0, 100, 11]
    assert [number(image) for image in source] == [*range(12), *range(100, 108)]
    assert (source.name(3), source.name(13)) == ("a.mkv:000003", "b.mkv:000001")
    assert (source.frame_of(3), source.frame_of(13)) == ((0, 3), (1, 1))
    assert source.box(0) is None
    assert (source.annotations, source.attributes) == (None, None)
    assert (source.words, source.description) == ((str(two),), str(two))
    assert Videos([two / "b.mkv", two / "a.mkv"]).description == "2 videos"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (VideoConfig(every=5), [0, 5, 10, 100, 105]),
        (VideoConfig(frames=3), [0, 6, 11, 100, 104, 107]),  # 5.5 and 3.5 are rounded to even
        (VideoConfig(every=2, frames=2), [0, 10, 100, 106]),
        (VideoConfig(frames=1), [0, 100]),
        (VideoConfig(every=50), [0, 100]),
        (VideoConfig(frames=50), [*range(12), *range(100, 108)]),
    ],
)
def test_every_so_many_frames_and_at_most_so_many(
    two: Path, config: VideoConfig, expected: list[int]
) -> None:
    source = Videos([two], config)
    assert [number(source.image(index)) for index in range(len(source))] == expected
    assert source.frame_of(len(source) - 1) == (1, expected[-1] - 100)


@settings(max_examples=50)
@given(count=st.integers(1, 5000), every=st.integers(1, 60), most=st.integers(0, 300))
def test_a_sample_is_even(count: int, every: int, most: int) -> None:
    frames = np.array(sample(count, VideoConfig(every=every, frames=most)))
    possible = -(-count // every)
    assert len(frames) == (min(most, possible) if most else possible)
    assert frames[0] == 0
    assert frames[-1] < count
    assert (frames % every == 0).all()
    gaps = np.diff(frames)
    if len(gaps):
        assert gaps.min() >= every
        assert gaps.max() - gaps.min() <= every
        assert frames[-1] == (possible - 1) * every


def test_unsampled_is_all_of_the_first_video(two: Path) -> None:
    source = Videos([two], VideoConfig(every=4, frames=2, crop=(0, 0, 32, 32)))
    whole = source.unsampled()
    assert len(whole) == 12
    assert whole.name(1) == "a.mkv:000001"
    assert whole.box(5) == Placement(0, 0, 32, 32)


def test_a_crop_is_the_box_of_every_frame(two: Path) -> None:
    source = Videos([two], VideoConfig(crop=(8, 4, 40, 20)))
    assert {source.box(index) for index in range(len(source))} == {Placement(8, 4, 40, 20)}
    assert source.image(0).shape == (HEIGHT, WIDTH, 3)


def test_the_raw_frame_keeps_its_background(tmp_path: Path) -> None:
    frames = [np.full((HEIGHT, WIDTH, 3), 60, np.uint8) for _ in range(9)]
    for place, frame in enumerate(frames):
        frame[10:26, 5 * place : 5 * place + 12] = 230
    source = Videos([exact(tmp_path / "a.mkv", frames)], VideoConfig(background="grey"))
    np.testing.assert_array_equal(source.raw(4), frames[4])
    found = source.image(4)
    assert (found[40] == 128).all()
    assert (found[18, 26] == 230).all()


def test_an_unreadable_video_is_one_unreadable_image(two: Path) -> None:
    """So a run counts it, names it and goes on."""
    (two / "aa.mkv").write_text("no video")
    (two / "0.mkv").write_bytes(b"")
    source = Videos([two])
    assert len(source) == 22
    for index, name in ((0, "0.mkv"), (13, "aa.mkv")):
        assert source.name(index) == f"{name}:000000"
        for read in (source.image, source.raw, source.box):
            with pytest.raises(UnreadableImage, match=f"{name} is not a readable video"):
                read(index)
    assert [number(source.image(index)) for index in (1, 12, 14, 21)] == [0, 11, 100, 107]
    assert source.unsampled().name(0) == "a.mkv:000000"


def test_a_video_that_goes_away_is_unreadable(two: Path) -> None:
    source = Videos([two])
    (two / "b.mkv").unlink()
    with pytest.raises(UnreadableImage, match=r"b\.mkv is not a readable video \(No such file"):
        source.image(15)
    assert number(source.image(2)) == 2


def test_videos_of_one_name_are_told_apart(two: Path, make_videos: Callable[[Path], Path]) -> None:
    other = make_videos(two.parent / "other")
    source = Videos([two / "a.mkv", other / "a.mkv"])
    names = [source.name(index) for index in range(len(source))]
    assert len(set(names)) == len(names)
    assert (names[0], names[12]) == ("two/a.mkv:000000", "other/a.mkv:000000")


@pytest.fixture
def make_videos() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        exact(folder / "a.mkv", [coded(frame) for frame in range(4)])
        return folder

    return make


def test_what_is_no_source_of_videos(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"There is no file or folder .*nowhere\.mp4\."):
        Videos([tmp_path / "nowhere.mp4"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrigpointError, match=r"empty holds no videos \(\.avi, .*\.wmv\)\."):
        Videos([tmp_path / "empty"])
    for name in ("a.mp4", "b.avi"):
        (tmp_path / name).write_text("no video")
    with pytest.raises(
        TrigpointError, match=r"None of the 2 videos could be read; the first: a\.mp4 is not a read"
    ):
        Videos([tmp_path])


def test_a_folder_that_cannot_be_read_is_counted(tmp_path: Path, close: Callable[[Path], None]) -> None:
    write(tmp_path / "open" / "a.mp4", 3)
    write(tmp_path / "closed" / "b.mp4", 3)
    close(tmp_path / "closed")
    videos = Videos([tmp_path])
    assert [videos.name(index) for index in range(len(videos))] == [
        "a.mp4:000000",
        "a.mp4:000001",
        "a.mp4:000002",
        "closed:000000",
    ]
    with pytest.raises(UnreadableImage, match=r"closed is not a readable video \(Permission denied\)"):
        videos.image(3)
