"""`trigpoint detect`: find a model's landmarks on images and videos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say
from trigpoint.core.words import counted

if TYPE_CHECKING:
    from trigpoint.core.geometry import Placement
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.core.keypoints import KeypointMap


@dataclass(frozen=True)
class Detect:
    """Find a model's landmarks on images or videos.

    Example: trigpoint detect runs/photos holiday/*.jpg --overlay
             trigpoint detect faces-10 party.jpg --overlay      finds every face on the photo first
             trigpoint detect runs/mouse videos/ --format dlc --keypoints keypoints.json

    Writes into --out, for images (NAME is `landmarks`) and for each video:
      NAME.csv            image, frame, subject, landmark, x, y, confidence (pixels of the original image);
                          of images always, of videos with --format csv
      NAME.dlc.csv, .h5   DeepLabCut (--format dlc)
      NAME.coco.json      COCO keypoints (--format coco)
      NAME.slp            SLEAP (--format slp)
      NAME.overlay.mp4    the video with its landmarks drawn (--overlay); of images overlays/
      NAME.record.json    what made all that: finished work is skipped, new images are added to the table,
                          and results of another model, of other options or of a changed input are refused
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    inputs: Positional[tuple[str, ...]]
    """Image files or videos, folders of them, or a source name such as digits."""
    out: Path = Path("landmarks")
    """The folder to write."""
    format: str = "csv"
    """csv, dlc, coco, slp, or several of them with commas between."""
    keypoints: Path | None = None
    """Write the keypoints that `trigpoint fit` fitted, in place of the landmarks."""
    overlay: bool = False
    """Draw the landmarks onto a copy of each image or video."""
    trails: int = 0
    """On the overlay of a video: for how many frames a landmark leaves a trail."""
    smooth: bool = False
    """Of videos: smooth each landmark over time (Savitzky-Golay, a quarter of a second)."""
    box: str | None = None
    """Where the subject is on every image or frame, in pixels: LEFT,TOP,WIDTH,HEIGHT."""
    subjects: Literal["auto", "whole"] = "auto"
    """auto: each face, for a model of faces; the crop that a model was trained on. whole: the whole image."""
    views: int | None = None
    """How many views of each image, in place of the model's own number; 1 is fastest."""
    overwrite: bool = False
    """Do it again, and replace what an earlier call left in --out."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Detect, prog="trigpoint detect", args=argv)
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.geometry import parse_box
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.core.inference.videos import OVERLAY
    from trigpoint.core.keypoints import KeypointMap
    from trigpoint.core.sources import left_out
    from trigpoint.core.sources.folder import closed_folders, image_files
    from trigpoint.core.sources.video import video_files

    if args.out.is_file():
        raise TrigpointError(f"{args.out} is a file; --out names a folder.")
    if args.box and args.subjects == "whole":
        raise TrigpointError("Give --box or --subjects whole, not both.")
    if args.trails and not args.overlay:
        raise TrigpointError("--trails are drawn on the overlay: add --overlay.")
    box = parse_box(args.box) if args.box else None
    names = formats(args.format)
    paths = [Path(word) for word in args.inputs]
    # What an earlier call drew into --out is no video to detect on.
    own = {file.resolve() for file in args.out.glob(f"*{OVERLAY}")}
    videos = [video for video in video_files(paths) if video.resolve() not in own]
    images = image_files(paths)
    if note := left_out(len(videos), len(images)):
        say(note, error=True)
    of_videos = len(videos) > len(images)
    missing = next((path for path in paths if not path.exists()), None)
    if of_videos and missing is not None:
        raise TrigpointError(f"There is no file or folder {missing}.")
    keypoints = KeypointMap.load(args.keypoints) if args.keypoints else None
    predictor = Predictor.load(args.model, args.views)
    if keypoints is not None and keypoints.landmarks != predictor.landmarks:
        raise TrigpointError(
            f"{args.keypoints} was fitted to {keypoints.landmarks} landmarks, "
            f"{args.model} has {predictor.landmarks}."
        )
    task = Task(predictor, box, keypoints, names)
    if not of_videos:
        return on_images(args, task)
    return on_videos(args, task, videos, closed_folders(paths))


@dataclass(frozen=True)
class Task:
    """What the command line names, opened."""

    predictor: Predictor
    box: Placement | None
    keypoints: KeypointMap | None
    formats: tuple[str, ...]


def on_images(args: Detect, task: Task) -> int:
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.inference.images import OVERLAYS, Wanted, detect_images
    from trigpoint.core.sources import open_source
    from trigpoint.core.sources.folder import Folder

    if args.smooth or args.trails:
        raise TrigpointError("--smooth and --trails are for videos.")
    predictor = task.predictor
    every = replace(predictor.config.video, every=1, frames=0)
    source = open_source(args.inputs, video=every)
    if isinstance(source, Folder):
        source.leave_out(args.out / OVERLAYS)
    wanted = Wanted(args.out, task.formats, args.overlay, args.overwrite)
    done = detect_images(
        predictor, source, wanted, box=task.box, subjects=args.subjects, keypoints=task.keypoints
    )
    for name, reason in done.skipped.items():
        say(f"skipped {name}: {reason}", error=True)
    for name in done.empty:
        say(f"no {predictor.subject} found on {name}", error=True)
    if done.uncropped:
        width, height = predictor.config.video.frame or (0, 0)
        size = f"frames of {width}x{height} pixels" if width else "frames of a size that its run does not say"
        say(
            f"The crop that this model was trained on is for {size}: it was not applied to "
            f"{counted(done.uncropped, 'image')}; --box says where the subject is.",
            error=True,
        )
    if done.gone:
        more = f" and {len(done.gone) - 1:,} more" if len(done.gone) > 1 else ""
        say(
            f"{wanted.table} keeps the rows of {done.gone[0]}{more}, not among the images of this call.",
            error=True,
        )
    say_stale(done.stale)
    points = (
        f"{len(task.keypoints.names)} keypoints" if task.keypoints else f"{predictor.landmarks} landmarks"
    )
    if done.images:
        what = f"{counted(done.subjects, predictor.subject)} on " if done.subjects != done.images else ""
        added = f", {done.before:,} before" if done.before else ""
        say(f"{points} on {what}{counted(done.images, 'image')}{added}: {wanted.table}")
    elif not (done.drawn or done.written):
        say(f"{wanted.table} is already there; --overwrite does it again.")
    for file in done.written:
        say(f"written: {file}")
    if done.drawn:
        say(f"drawn: {args.out / OVERLAYS}")
    return failed(len(done.skipped), len(source), "image")


def on_videos(args: Detect, task: Task, videos: Sequence[Path], closed: Sequence[Path]) -> int:
    """`closed` are folders that cannot be read: each counts as one video that cannot be."""
    from trigpoint.core.errors import TrigpointError, UnreadableImage
    from trigpoint.core.inference.videos import Outputs, detect_video, plan

    predictor, box, keypoints = task.predictor, task.box, task.keypoints
    outputs = Outputs(args.out, task.formats, args.overlay, args.trails, args.smooth, args.overwrite)
    if args.trails < 0:
        raise TrigpointError(f"--trails must be 0 or more; got {args.trails}.")
    if predictor.subject and not box and args.subjects == "auto":
        raise TrigpointError(
            f"{args.model} looks for a {predictor.subject} on images, not on videos: --box says where it is "
            "on every frame, --subjects whole that it fills the frame."
        )
    stems = [video.stem for video in videos]
    double = next((stem for stem in stems if stems.count(stem) > 1), None)
    if double is not None:
        raise TrigpointError(
            f"Two videos are called {double}: their results would be too. Detect on them apart."
        )
    names = keypoints.names if keypoints else predictor.names
    # All of them are compared with what is there before the first is looked at.
    works = [plan(predictor, video, outputs, box, keypoints) for video in videos]
    skipped = 0
    for number, work in enumerate(works, 1):
        video = work.video
        if not work:
            say(f"{video.name} is finished already; --overwrite does it again.")
            continue
        title = video.name if len(videos) == 1 else f"{video.name} ({number} of {len(videos)})"
        try:
            done = detect_video(predictor, video, outputs, title, box, keypoints)
        except UnreadableImage as error:
            if len(videos) == 1:
                raise TrigpointError(f"{error}.") from None
            skipped += 1
            say(f"skipped {video.name}: {error}", error=True)
            continue
        say_stale(work.stale)
        written = ", ".join(file.name for file in work.missing.values())
        speed = f"{done.frames / done.seconds:.0f} frames/s" if done.seconds else ""
        say(f"{video.name}: {counted(done.frames, 'frame')}, {speed}: {written}")
        if done.missing:
            say(f"  {counted(done.missing, 'frame')} could not be decoded and are left empty", error=True)
        faint = [f"{names[k]} {share:.0%}" for k, share in enumerate(done.low) if share > 0.2]
        if faint and keypoints is None:
            say(f"  of low confidence on many frames: {', '.join(faint)}")
    if skipped == len(videos):
        raise TrigpointError(f"None of the {len(videos)} videos could be read.")
    for folder in closed:
        say(f"skipped the folder {folder}: it cannot be read", error=True)
    return failed(skipped + len(closed), len(videos) + len(closed), "video")


def say_stale(names: Sequence[str]) -> None:
    if names:
        say(f"kept from the detection before, as nothing else was asked for: {', '.join(names)}", error=True)


def failed(count: int, of: int, kind: str) -> int:
    """The exit code, and the count where some inputs could not be used."""
    if count:
        say(f"{count:,} of {counted(of, kind)} could not be read.", error=True)
    return 1 if count else 0


def formats(words: str) -> tuple[str, ...]:
    """`dlc,coco` -> the formats to write; DeepLabCut's are two files."""
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.files.formats import FORMATS

    names: list[str] = []
    for word in words.split(","):
        if word not in FORMATS:
            raise TrigpointError(f"There is no format {word!r}; the formats are csv, dlc, coco and slp.")
        names += ["dlc", "h5"] if word == "dlc" else [word]
    return tuple(names)
