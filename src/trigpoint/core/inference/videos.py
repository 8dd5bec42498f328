"""Landmarks of videos: decoding, detecting and writing overlap; memory does not grow with a video's length.

The points of a video are kept in a file without a name while it is being read; the wanted formats are
written from there, each to a temporary name first. So a video is either finished or untouched, and a call
that was killed goes on with the first video that is not finished.
"""

from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.formats import FORMATS, Keypoints, require
from trigpoint.core.files.record import Record, identity
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.compared import compared, noted
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import printable
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.landmarks import LOW
from trigpoint.core.progress import Progress
from trigpoint.core.sources.subject import Subject, prepare_subject
from trigpoint.core.sources.video import Video

BATCH = 32
AHEAD = 4  # batches decoded ahead of the detector
SMOOTH_SECONDS = 0.25  # window of --smooth
OVERLAY, RECORD = ".overlay.mp4", ".record.json"  # how names end: of a video with its landmarks drawn, ...


@dataclass(frozen=True)
class Outputs:
    """What is wanted of each video."""

    folder: Path
    formats: Sequence[str] = ("csv",)
    overlay: bool = False
    trails: int = 0  # frames that a landmark's trail lasts on the overlay
    smooth: bool = False
    overwrite: bool = False  # replace what an earlier call wrote there

    def files(self, video: Path) -> dict[str, Path]:
        """Format to file, the overlay among them."""
        files = {
            name: self.folder / f"{video.stem}{FORMATS[name].ending}" for name in dict.fromkeys(self.formats)
        }
        return files | ({"overlay": self.folder / f"{video.stem}{OVERLAY}"} if self.overlay else {})

    def options(self, name: str) -> dict[str, int]:
        """Of one of those files alone."""
        return {"trails": self.trails} if name == "overlay" else {}


@dataclass(frozen=True)
class Work:
    """What is left to do of a video: the files that are not there yet."""

    video: Path
    record: Record
    missing: dict[str, Path]  # format to file
    stale: list[str]  # results of a replaced detection that stay

    def __bool__(self) -> bool:
        return bool(self.missing)


def plan(
    predictor: Predictor,
    video: Path,
    outputs: Outputs,
    crop: Placement | None = None,
    keypoints: KeypointMap | None = None,
) -> Work:
    """Compare with what an earlier call left: refuses results of something else, or of a changed video."""
    files = outputs.files(video)
    _refuse_to_replace(video, files.values())
    box = crop and [crop.x, crop.y, crop.width, crop.height]
    settings = compared(predictor, keypoints, {"box": box, "smooth": outputs.smooth})
    record = Record(outputs.folder / f"{video.stem}{RECORD}", settings, outputs.overwrite)
    now = identity(video)
    if not record.knows(video.name, now):
        if record.inputs and not record.pending:
            raise TrigpointError(
                f"{record.path} is of another video, {printable(next(iter(record.inputs)))}; --overwrite "
                "replaces its results, or choose another --out."
            )
        record.inputs = {video.name: now}
    missing = {name: file for name, file in files.items() if not record.has(file, **outputs.options(name))}
    return Work(video, record, missing, record.stale(files.values()))


def _refuse_to_replace(video: Path, files: Iterable[Path]) -> None:
    for file in files:
        if file.exists() and video.exists() and file.samefile(video):
            raise TrigpointError(f"{printable(str(file))} is an input of this call: choose another --out.")


@dataclass(frozen=True)
class Done:
    """One finished video."""

    frames: int
    seconds: float
    missing: int  # frames that could not be decoded
    low: NDArray[np.float64]  # (K,) share of the frames with low confidence


def detect_video(
    predictor: Predictor,
    path: Path,
    outputs: Outputs,
    title: str,
    crop: Placement | None = None,
    keypoints: KeypointMap | None = None,
) -> Done:
    """Detect on every frame of one video and write what is wanted and not there yet.

    `crop` overrides the region the model was trained on. With `keypoints` these are written, in place of the
    landmarks.
    """
    require(outputs.formats)
    work = plan(predictor, path, outputs, crop, keypoints)
    names = keypoints.names if keypoints else predictor.names
    video = Video(path)
    try:
        subject = subject_of(video, predictor, crop)
        outputs.folder.mkdir(parents=True, exist_ok=True)
        kept = scratch(outputs.folder, (len(video), len(names), 3))
        size = (0, 0)

        def prepare(frame: int, image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Placement]:
            nonlocal size
            prepared = predictor.prepare(subject.image(image), crop or subject.box(frame))
            size = (image.shape[1], image.shape[0])
            return prepared

        with Progress(title, len(video), unit="frames") as bar, Ahead(video, prepare) as batches:
            for frames, prepared in batches:
                squares, places = zip(*prepared, strict=True)
                found = predictor.detect_prepared(np.stack(squares), places)
                if keypoints is not None:
                    found = keypoints.of(found, places)
                kept[frames, :, :2] = np.stack([one.points for one in found])
                kept[frames, :, 2] = np.stack([one.confidence for one in found])
                bar.update(frames[-1] + 1)
            missing = batches.missing
            seconds = bar.elapsed
        if missing == len(video):
            raise UnreadableImage(f"none of the {len(video)} frames of {path.name} can be decoded")
        if outputs.smooth:
            smooth_points(kept, video.rate)
        result = Keypoints(path, kept, tuple(names), video.rate, size)
    finally:
        video.close()
    work.record.noted = noted(predictor, seconds)
    write(result, work, outputs)
    low = sum((points[:, :, 2] < LOW).sum(0) for _, points in result.chunks())
    read = len(kept) - missing
    return Done(read, seconds, missing, np.asarray(low / read, np.float64))


def subject_of(video: Video, predictor: Predictor, crop: Placement | None) -> Subject:
    """How the frames are prepared, as in training; a `crop` that is given need not be looked for."""
    config = predictor.config.video
    try:
        return prepare_subject(video, replace(config, follow=False) if crop else config)
    except TrigpointError as error:  # this video shows no subject; others may
        raise UnreadableImage(str(error).rstrip(".")) from None


def scratch(folder: Path, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """NaN in a file without a name, which goes with the process however that ends."""
    blank = np.full(shape[1:], np.nan, np.float32).tobytes()
    with tempfile.TemporaryFile(dir=folder) as stream:
        for _ in range(shape[0]):
            stream.write(blank)  # in full: a hole in the file would be found only when the disk is full
        stream.flush()
        return np.memmap(stream, np.float32, "r+", shape=shape)


def write(result: Keypoints, work: Work, outputs: Outputs) -> None:
    """The files that are missing: none appears before all are complete, and the record last."""
    files, record = work.missing, work.record
    parts = {name: file.with_name(f".part-{file.name}") for name, file in files.items()}
    try:
        for name, part in parts.items():
            if name == "overlay":
                write_overlay(part, result, outputs.trails)
            else:
                FORMATS[name].write(part, result)
        record.expect(files.values())
        for name, part in parts.items():
            part.replace(files[name])
            record.add(files[name], **outputs.options(name))
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    record.save()


class Ahead:
    """Batches of (frame numbers, prepared frames), made in a thread while the caller works on those before.

    A frame is prepared, hence small, before it waits: large frames do not pile up.
    """

    def __init__(self, video: Video, prepare: Callable[[int, NDArray[np.uint8]], Any]) -> None:
        self.video, self.prepare = video, prepare
        self.missing = 0
        self.waiting: queue.Queue[Any] = queue.Queue(AHEAD)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._decode, daemon=True)

    def __enter__(self) -> Ahead:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        while self.thread.is_alive():
            try:
                self.waiting.get(timeout=0.05)
            except queue.Empty:
                continue
        self.thread.join()

    def __iter__(self) -> Iterator[tuple[list[int], list[Any]]]:
        while True:
            item = self.waiting.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _decode(self) -> None:
        frames: list[int] = []
        prepared: list[Any] = []
        try:
            for frame in range(len(self.video)):
                if self.stop.is_set():
                    return
                try:
                    prepared.append(self.prepare(frame, self.video.read(frame)))
                except UnreadableImage:
                    self.missing += 1
                    continue
                frames.append(frame)
                if len(frames) == BATCH:
                    self._give((frames, prepared))
                    frames, prepared = [], []
            if frames:
                self._give((frames, prepared))
            self._give(None)
        except BaseException as error:  # told to the one who waits
            self._give(error)

    def _give(self, item: Any) -> None:
        while not self.stop.is_set():
            try:
                self.waiting.put(item, timeout=0.2)
                return
            except queue.Full:
                continue


def smooth_points(points: NDArray[np.float32], rate: float) -> None:
    """Savitzky-Golay in place: each coordinate by the parabola that fits best over a quarter of a second.

    One landmark at a time, so that little of a long video is in memory. Frames without points stay without.
    """
    from scipy.signal import savgol_filter

    window = max(5, round(SMOOTH_SECONDS * rate)) | 1
    if len(points) <= window:
        return
    for k in range(points.shape[1]):
        for axis in range(2):
            values = np.array(points[:, k, axis], np.float64)
            known = np.isfinite(values)
            if known.sum() <= window:
                continue
            times = np.arange(len(values))
            filled = np.interp(times, times[known], values[known])
            points[known, k, axis] = savgol_filter(filled, window, 2, mode="interp")[known]


def write_overlay(part: Path, result: Keypoints, trails: int) -> None:
    """The video again with the points drawn on it: a second pass over the frames.

    A frame that cannot be decoded is the one before it again, so that frames keep their numbers.
    """
    from trigpoint.core.files.overlay import draw_landmarks, draw_trails

    video = Video(result.video)
    image = np.zeros((result.size[1], result.size[0], 3), np.uint8)
    try:
        with VideoWriter(part, result.size, result.rate) as writer:
            for frame in range(len(video)):
                with contextlib.suppress(UnreadableImage):
                    image = video.read(frame)
                points = np.asarray(result.points[frame], np.float64)
                shown = image
                if trails:
                    recent = np.asarray(result.points[max(0, frame - trails) : frame + 1, :, :2], np.float64)
                    shown = draw_trails(shown, recent)
                writer.add(draw_landmarks(shown, points[:, :2], np.nan_to_num(points[:, 2])))
    finally:
        video.close()
