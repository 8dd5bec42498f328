"""Human3.6M: videos of six upright actions, cut out by their masks, in the layout its owners distribute.

    FOLDER/S1/Videos/Directions 1.54138969.mp4
    FOLDER/S1/MyPoseFeatures/D2_Positions/Directions 1.54138969.cdf            32 joints in pixels
    FOLDER/S1/MySegmentsMat/ground_truth_bs/Directions 1.54138969.mat or .mp4  foreground masks

As in the paper, S1, S5 to S9 train and S11 tests; the background becomes grey; a square box brings bodies to
one scale and their feet to one height. The paper does not say how: see `boxes`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import ACTIONS
from trigpoint.core.sources.base import Annotations, Attributes, Source, Split, require, require_pixels
from trigpoint.core.sources.video import Video

SUBJECTS = {"train": ("S1", "S5", "S6", "S7", "S8", "S9"), "test": ("S11",)}
GREY = 128
_LEG = ("hip", "knee", "ankle", "toe base", "toe end")
_ARM = ("collar", "shoulder", "elbow", "wrist", "thumb", "thumb end", "hand", "hand end")
# In the order of the files. Some coincide: spine and pelvis, collars and neck, thumbs and wrists, both hands.
JOINTS = (
    "pelvis",
    *(f"right {joint}" for joint in _LEG),
    *(f"left {joint}" for joint in _LEG),
    *("spine", "back", "neck", "head", "head top"),
    *(f"left {joint}" for joint in _ARM),
    *(f"right {joint}" for joint in _ARM),
)
SWAPS = tuple((JOINTS.index(f"left {joint}"), JOINTS.index(f"right {joint}")) for joint in _LEG + _ARM)
# The box: the shares that leg and trunk have in the height of the dataset's skeleton, ankle to head top;
# the edge in such heights; what is left below the lower foot, in edges.
LEG_SHARE, TRUNK_SHARE, EDGE, BELOW = 0.55, 0.45, 1.4, 0.05
TOGETHER = 16  # files of poses that one process reads
AHEAD = (8, 512)  # masks read at once: after a jump, and at most while they are asked for in order

Masks = Callable[[int], NDArray[np.bool_]]


class Human36M(Source):
    attributes: Attributes | None = None
    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.description = f"human36m-{variant}:{folder}" if variant else f"human36m:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        subjects = SUBJECTS["test" if split == "test" else "train"]
        present = [name for name in subjects if (require(folder, "Human3.6M") / name).is_dir()]
        if not present:
            require(folder / subjects[0], "Human3.6M")
        self.videos = [
            video
            for name in present
            for video in sorted(require(folder / name / "Videos", "Human3.6M").glob("*.mp4"))
            if _action(video) in ((variant,) if variant else ACTIONS)
        ]
        if not self.videos:
            raise TrigpointError(
                f"{folder} has no video of {variant or 'the six actions'} by {', '.join(present)}."
            )
        self.masks = [_mask_file(video) for video in self.videos]
        poses = _read_poses(self.videos)
        self.starts = np.cumsum([0, *(len(pose) for pose in poses)])
        points = np.concatenate(poses)
        actions = np.repeat([ACTIONS.index(_action(video)) for video in self.videos], np.diff(self.starts))
        self.boxes = boxes(points)
        self.annotations = Annotations(JOINTS, points, None, "image edge", SWAPS)
        self.attributes = Attributes(("action",), actions.astype(np.int64)[:, None])
        self._opened: tuple[int, Video, Masks] | None = None  # one video at a time: reading in order is quick

    def __len__(self) -> int:
        return int(self.starts[-1])

    def name(self, index: int) -> str:
        number, frame = self._where(index)
        video = self.videos[number]
        return f"{video.parent.parent.name}/{video.stem}/{frame:06d}"

    def file(self, index: int) -> Path:
        return self.videos[self._where(index)[0]]

    def image(self, index: int) -> NDArray[np.uint8]:
        number, frame = self._where(index)
        if self._opened is None or self._opened[0] != number:
            self._opened = None
            self._opened = number, Video(self.videos[number]), open_masks(self.masks[number])
        _, video, masks = self._opened
        image, mask = video.read(frame, "rgb24"), masks(frame)
        if mask.shape != image.shape[:2]:
            raise UnreadableImage(f"the mask has {mask.shape} pixels, the frame {image.shape[:2]}")
        return np.where(mask[:, :, None], image, np.uint8(GREY))

    def box(self, index: int) -> Placement | None:
        x, y, edge = self.boxes[index].tolist()
        return Placement(x, y, edge, edge, fill=GREY)

    def _where(self, index: int) -> tuple[int, int]:
        """The video, and the frame in it."""
        number = int(np.searchsorted(self.starts, index, "right")) - 1
        return number, index - int(self.starts[number])


def boxes(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Left, top and edge (n, 3) of the squares that bodies (n, 32, 2) are cut out with.

    Seen from any side a limb only ever gets shorter, so the height is what the longer leg, or what the trunk
    from pelvis to head top, whichever says more, would have in a body that stands straight: crouching and
    bowing hardly change it. The pelvis lies in the middle, the lower foot a margin above the lower edge.
    """

    def length(*joints: str) -> NDArray[np.float64]:
        chain = points[:, [JOINTS.index(joint) for joint in joints]]
        return np.linalg.norm(np.diff(chain, axis=1), axis=-1).sum(1)

    legs = [length(*(f"{side} {joint}" for joint in _LEG[:3])) for side in ("left", "right")]
    trunk = length("pelvis", "back", "neck", "head", "head top")
    height = np.maximum(np.maximum(*legs) / LEG_SHARE, trunk / TRUNK_SHARE)
    edge = np.maximum(EDGE * height, 1.0)
    feet = [JOINTS.index(f"{side} {joint}") for side in ("left", "right") for joint in _LEG[2:]]
    bottom = points[:, feet, 1].max(1) + BELOW * edge
    return np.stack((points[:, 0, 0] - edge / 2, bottom - edge, edge), 1)


def _action(video: Path) -> str:
    """`Walking 1.54138969.mp4` is walking; `WalkDog.54138969.mp4` is none of the six."""
    matched = re.fullmatch(r"([A-Za-z]+)( \d+)?\.\d+", video.stem)
    name = matched[1].lower() if matched else ""
    return name if name in ACTIONS else ""


def _mask_file(video: Path) -> Path:
    folder = require(video.parent.parent / "MySegmentsMat" / "ground_truth_bs", "Human3.6M")
    path = folder / video.name
    if not path.exists():
        path = require(folder / f"{video.stem}.mat", "Human3.6M")
        with path.open("rb") as stream:
            is_hdf5 = stream.read(10) == b"MATLAB 7.3"
        if is_hdf5 and importlib.util.find_spec("h5py") is None:  # say at once what is missing
            raise TrigpointError(
                f"{path} is a MATLAB 7.3 file, which needs the package h5py: pip install h5py."
            )
    return path


def _read_poses(videos: Sequence[Path]) -> list[NDArray[np.float64]]:
    """The joints (frames, 32, 2) of each video."""
    folders = [video.parent.parent / "MyPoseFeatures" / "D2_Positions" for video in videos]
    files = [
        require(folder / f"{video.stem}.cdf", "Human3.6M")
        for folder, video in zip(folders, videos, strict=True)
    ]
    if importlib.util.find_spec("cdflib") is None:
        raise TrigpointError("Human3.6M needs the package cdflib: pip install 'trigpoint[human36m]'.")
    found = []
    for start in range(0, len(files), TOGETHER):
        paths = [str(file.resolve()) for file in files[start : start + TOGETHER]]
        try:
            _, arrays = apart.call(
                "trigpoint.core.readers.cdf:read_variable", paths, "Pose", seconds=apart.SECONDS + len(paths)
            )
        except apart.ReaderFailed as failure:
            raise TrigpointError(
                f"{failure.reading or paths[0]}: expected a CDF file with the variable Pose ({failure})."
            ) from None
        found += [_checked(arrays[str(number)], path) for number, path in enumerate(paths)]
    return found


def _checked(values: NDArray[np.float64], path: str) -> NDArray[np.float64]:
    if values.ndim == 0 or values.shape[-1] != 2 * len(JOINTS) or values.size == 0:
        raise TrigpointError(f"{path}: expected poses of 64 numbers a frame; got an array of {values.shape}.")
    require_pixels(values, path)
    if not np.isfinite(values).all():
        raise TrigpointError(f"{path}: expected a number for every joint; some are missing.")
    return values.reshape(-1, len(JOINTS), 2)


def open_masks(path: Path) -> Masks:
    """The foreground of each frame, of a video or of a MATLAB file."""
    if path.suffix == ".mp4":
        video = Video(path)
        return lambda frame: video.read(frame, "gray") > 127
    return MatlabMasks(path)


class MatlabMasks:
    """Read in stretches that grow while frames are asked for in order: a process starts for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count: int | None = None
        self.start, self.read = 0, AHEAD[0] // 2
        self.shapes: list[tuple[int, int]] = []
        self.bits: Mapping[str, NDArray[np.uint8]] = {}
        self.failure: UnreadableImage | None = None  # the file is not tried again

    def __call__(self, frame: int) -> NDArray[np.bool_]:
        if not self.start <= frame < self.start + len(self.shapes):
            if self.count is None or frame < self.count:
                self._read(frame)
            if self.count is not None and frame >= self.count:
                raise UnreadableImage(f"{self.path.name} ends after {self.count} masks")
        number = frame - self.start
        height, width = self.shapes[number]
        bits = np.unpackbits(self.bits[str(number)], count=height * width)
        return bits.reshape(height, width).astype(bool)

    def _read(self, frame: int) -> None:
        if self.failure is not None:
            raise self.failure
        in_order = frame == self.start + len(self.shapes)
        self.read = min(2 * self.read, AHEAD[1]) if in_order else AHEAD[0]
        try:
            found, self.bits = apart.call(
                "trigpoint.core.readers.matlab:read_masks", str(self.path.resolve()), frame, self.read
            )
        except apart.ReaderFailed as failure:
            self.failure = UnreadableImage(
                f"{self.path.name}: expected a MATLAB file with the cells Masks ({failure})"
            )
            raise self.failure from None
        self.count, self.start, self.shapes = found["count"], frame, found["shapes"]
