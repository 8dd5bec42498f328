"""Frames of videos, any of them by its number, and many videos as one source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from errno import EINVAL
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.config.tree import EVERY_FRAME, VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.io import ffmpeg_name, no_file
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.folder import closed_folders, is_file, paths_apart, walk
from trigpoint.core.sources.subject import Subject, prepare_subject

EXTENSIONS = frozenset(
    {".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".ts", ".mts", ".ogv"}
)
# The containers behind these names, and the raw streams that cameras leave. FFmpeg would read others as lists
# of further files and addresses (HLS, concat), or as a pattern of names (image2).
CONTAINERS = ("mov", "matroska", "avi", "mpeg", "mpegts", "asf", "flv", "ogg")
STREAMS = ("h264", "hevc", "mpegvideo", "m4v")
ALLOWED = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS + STREAMS)}
NEAR = 48  # frames it is quicker to decode than to jump over


class Video:
    """Any frame of a video by its number; the next ones are quick. One frame is in memory at a time."""

    def __init__(self, path: Path) -> None:
        import av

        self.path, self.error = path, av.error.FFmpegError
        if reason := no_file(path):
            raise UnreadableImage(f"{path.name} is not a readable video ({reason})")
        try:
            self._open()
            # When frames are shown: read without decoding them. An edit list discards what it cut off.
            packets: list[Any] = [
                (packet.pts, packet.is_keyframe)
                for packet in self.container.demux(self.stream)
                if packet.size and not packet.is_discard
            ]
        except (self.error, IndexError) as error:
            reason = "no video in it" if isinstance(error, IndexError) else _reason(error)
            raise UnreadableImage(f"{path.name} is not a readable video ({reason})") from None
        if not packets:
            raise UnreadableImage(f"{path.name} has no frames")
        times = [time for time, _ in packets]
        self.timed = None not in times and len(set(times)) == len(times) and self._in_order(times)
        # Frames without a time of their own are counted from the start.
        self.times: list[int] = sorted(times) if self.timed else list(range(len(times)))
        self.keys: list[int] = sorted(time for time, key in packets if key) if self._jumps() else []
        known = [time for time in times if time is not None]
        span = (max(known) - min(known)) * self.stream.time_base if known else 0
        # Frames a second, on average.
        self.rate = float((len(times) - 1) / span) if span else float(self.stream.average_rate or 30)
        self.frames: Iterator[tuple[int, Any]] = iter(())  # being decoded
        self.last: int | None = None  # the frame decoded last

    def _open(self) -> None:
        import av

        name = ffmpeg_name(self.path)
        self.container: Any = av.open(name, container_options=ALLOWED, metadata_errors="ignore")
        self.stream: Any = self.container.streams.video[0]
        if self.stream.codec_context is None:
            raise UnreadableImage(f"{self.path.name} is not a readable video (its codec is not known)")
        self.stream.thread_type = "AUTO"

    def _in_order(self, times: list[int]) -> bool:
        """Whether frames are shown in the order of their times. In AVI files those of a stream that refers
        to later frames may be the order in which they are stored."""
        if times != sorted(times) or not self.stream.codec_context.has_b_frames:
            return True
        self.container.close()
        self._open()
        try:
            shown = [frame.pts for frame in islice(self.container.decode(self.stream), NEAR)]
        except self.error:
            return False
        return None not in shown and shown == sorted(shown)

    def _jumps(self) -> bool:
        """Whether decoding may begin at any key frame. How old encoders wrote H.264 4:4:4, FFmpeg knows from
        a note in the first packet, which a jump makes it forget."""
        return self.timed and self.stream.codec_context.profile != "High 4:4:4 Predictive"

    def __len__(self) -> int:
        return len(self.times)

    def read(self, frame: int, form: str = "rgb24") -> NDArray[np.uint8]:
        """One frame as `rgb24` (H, W, 3) or `gray` (H, W), turned upright. Raises UnreadableImage."""
        if frame >= len(self.times):
            raise UnreadableImage(f"{self.path.name} ends after {len(self.times)} frames")
        wanted, ahead = self.times[frame], self._ahead(frame)
        self.last = None
        try:
            if not ahead:
                self._seek(wanted)
            time, found = next(pair for pair in self.frames if pair[0] >= wanted)
        except (self.error, StopIteration) as error:
            reason = "the video ends before it" if isinstance(error, StopIteration) else _reason(error)
            raise UnreadableImage(f"frame {frame} of {self.path.name} cannot be decoded ({reason})") from None
        if time != wanted:
            raise UnreadableImage(f"frame {frame} of {self.path.name} is missing")
        self.last = frame
        return upright(found, form)

    def _ahead(self, frame: int) -> bool:
        """Whether decoding goes on to a frame as quickly as from the key frame before it."""
        if self.last is None or frame <= self.last:
            return False
        key = bisect_right(self.keys, self.times[frame])
        return frame - self.last <= NEAR or key == 0 or self.keys[key - 1] <= self.times[self.last]

    def _seek(self, wanted: int) -> None:
        """Decode from a key frame at or before a time on. Some containers jump too far, and frames that are
        shown before the key frame they are stored after need the one before: then from further back."""
        before, back = bisect_right(self.keys, wanted), 1
        while back <= before:
            with suppress(self.error):
                self.container.seek(self.keys[before - back], stream=self.stream)
                self.frames = self._decoded()
                first = next(self.frames, None)
                if first is not None and first[0] <= wanted:
                    self.frames = chain([first], self.frames)
                    return
            back *= 2
        self.container.close()
        self._open()
        self.frames = self._decoded()

    def _decoded(self) -> Iterator[tuple[int, Any]]:
        """Frames with their times, or their numbers where they have none."""
        for count, shown in enumerate(self.container.decode(self.stream)):
            if not self.timed:
                yield count, shown
            elif shown.pts is not None:
                yield int(shown.pts), shown

    def close(self) -> None:
        self.container.close()


def upright(frame: Any, form: str = "rgb24") -> NDArray[np.uint8]:
    """A decoded frame as an array, turned as its metadata say."""
    pixels = np.asarray(frame.to_ndarray(format=form))
    turns = round(getattr(frame, "rotation", 0) / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


def _reason(error: BaseException) -> str:
    if getattr(error, "errno", None) == EINVAL:
        return f"it is not of the formats {', '.join(CONTAINERS)}, or damaged"
    return getattr(error, "strerror", None) or str(error).split("\n")[0] or type(error).__name__


def is_video(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def video_files(paths: Sequence[Path]) -> list[Path]:
    """The videos among files and folders; a folder stands for all videos below it."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = (file for file in walk(path)[0] if is_video(file) and not file.name.startswith("."))
            found += filter(is_file, below)
        elif is_video(path):
            found.append(path)
    return found


class Videos(Source):
    """Frames of one or many videos, sampled and prepared as the config says."""

    of_videos = True

    def __init__(self, paths: Sequence[Path], config: VideoConfig = EVERY_FRAME) -> None:
        files = video_files(paths)
        for path in paths:
            if not path.exists():
                raise TrigpointError(f"There is no file or folder {path}.")
        if not files:
            raise TrigpointError(f"{paths[0]} holds no videos ({', '.join(sorted(EXTENSIONS))}).")
        self.words = tuple(str(path) for path in paths)
        self.description = self.words[0] if len(paths) == 1 else f"{len(files)} videos"
        files += closed_folders(paths)  # each is one video that cannot be read
        self.config = config
        self.files = files
        names = [file.name for file in files]
        self.names = names if len(set(names)) == len(names) else paths_apart(files)
        self.chosen: list[tuple[int, int]] = []  # video and frame of each image
        self.readable: list[Path] = []
        reasons: list[str] = []
        for number, file in enumerate(files):
            try:
                video = Video(file)
            except UnreadableImage as error:
                reasons.append(str(error))
                self.chosen.append((number, 0))  # one unreadable image, so that it is counted and named
                continue
            self.chosen += [(number, frame) for frame in sample(len(video), config)]
            self.readable.append(file)
            video.close()
        if not self.readable:
            raise TrigpointError(f"None of the {len(files)} videos could be read; the first: {reasons[0]}.")
        self._opened: tuple[int, Video, Subject] | None = None
        self._useless: dict[int, str] = {}  # videos whose subject cannot be told, and why
        self._seen: tuple[int, NDArray[np.uint8]] | None = None  # the last frame that was read

    def __len__(self) -> int:
        return len(self.chosen)

    def name(self, index: int) -> str:
        number, frame = self.chosen[index]
        return f"{self.names[number]}:{frame:06d}"

    def frame_of(self, index: int) -> tuple[int, int]:
        """The video, and the frame in it: what optical flow needs to know."""
        return self.chosen[index]

    def unsampled(self) -> Videos:
        """Every frame of the first readable video that has a subject, prepared in the same way."""
        config = replace(self.config, every=1, frames=0)
        for path in self.readable[:-1]:
            videos = Videos([path], config)
            with suppress(TrigpointError):
                videos._open(0)
                return videos
        return Videos(self.readable[-1:], config)

    def raw(self, index: int) -> NDArray[np.uint8]:
        """The frame as the camera saw it."""
        if self._seen is None or self._seen[0] != index:
            number, frame = self.chosen[index]
            self._seen = index, self._open(number)[0].read(frame)
        return self._seen[1]

    def file(self, index: int) -> Path:
        return self.files[self.chosen[index][0]]

    def image(self, index: int) -> NDArray[np.uint8]:
        return self._open(self.chosen[index][0])[1].image(self.raw(index))

    def foreground(self, index: int) -> NDArray[np.bool_] | None:
        """Where the subject is on the frame (H, W), if it is told from a background."""
        subject = self._open(self.chosen[index][0])[1]
        if subject.background is None:
            return None
        return subject.background.foreground(self.raw(index), subject.crop)

    def box(self, index: int) -> Placement | None:
        number, frame = self.chosen[index]
        return self._open(number)[1].box(frame)

    def _open(self, number: int) -> tuple[Video, Subject]:
        """One video at a time: reading in order is quick. One of many without a subject is skipped."""
        if number in self._useless:
            raise UnreadableImage(self._useless[number])
        if self._opened is None or self._opened[0] != number:
            if self._opened is not None:
                self._opened[1].close()
            self._opened = None
            video = Video(self.files[number])
            try:
                self._opened = number, video, prepare_subject(video, self.config)
            except UnreadableImage as error:
                video.close()
                if len(self.readable) == 1:
                    raise TrigpointError(str(error)) from None
                self._useless[number] = str(error).removesuffix(".")
                raise UnreadableImage(self._useless[number]) from None
        return self._opened[1:]

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self.image(index) for index in range(len(self)))


def sample(count: int, config: VideoConfig) -> list[int]:
    """The frames of a video that are used: every so many of its `count`, then at most so many of those."""
    frames = np.arange(0, count, config.every)
    if 0 < config.frames < len(frames):
        frames = frames[np.linspace(0, len(frames) - 1, config.frames).round().astype(int)]
    return frames.tolist()
