"""`trigpoint data`: list the sources; inspect one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from trigpoint.app.cli.video_options import VideoOptions
from trigpoint.core.io import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trigpoint.core.geometry import Placement


@dataclass(frozen=True)
class List:
    """List the sources that trigpoint can read."""


@dataclass(frozen=True)
class Inspect:
    """Say what a source holds, and draw a contact sheet of it.

    Example: trigpoint data inspect photos/ --sheet photos.png
    """

    source: Positional[tuple[str, ...]]
    """A folder of images or videos, image files, videos, a SLEAP file, or a source name."""
    split: Literal["train", "labels", "test"] = "train"
    """Which images: for discovery, for fitting regressors, for testing."""
    sheet: Path | None = None
    """Where to write the contact sheet (PNG or JPEG); annotations are drawn where there are any."""
    video: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)
    images: int = 48
    """How many images the contact sheet shows."""
    json: Path | None = None
    """Also write the findings to this file."""


def main(argv: Sequence[str]) -> int:
    verb = Annotated[List, tyro.conf.subcommand("list")] | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    args: Any = tyro.cli(verb, prog="trigpoint data", args=argv)
    return inspect(args) if isinstance(args, Inspect) else show_list()


def show_list() -> int:
    from trigpoint.core.sources import DATASETS

    say(f"{'FOLDER or FILE...':20}your own images or videos: any common format, size and aspect")
    for name, dataset in DATASETS.items():
        words = (
            name if dataset.embedded else f"{name}:{'FILE' if name in ('csv', 'coco', 'slp') else 'FOLDER'}"
        )
        variants = f" ({', '.join(f'{name}-{one}' for one in dataset.variants)})" if dataset.variants else ""
        say(f"{words:20}{dataset.text}{variants}")
    return 0


def inspect(args: Inspect) -> int:
    import numpy as np

    from trigpoint.core.config.tree import Config, with_values
    from trigpoint.core.errors import TrigpointError, UnreadableImage
    from trigpoint.core.files.overlay import contact_sheet, draw_landmarks, write_image
    from trigpoint.core.io import printable, spare, write_atomically
    from trigpoint.core.progress import Progress
    from trigpoint.core.sources import files_of, left_out, open_source, videos_and_images
    from trigpoint.core.sources.images import has_colour
    from trigpoint.core.sources.sleap import SleapLabels
    from trigpoint.core.sources.video import Videos
    from trigpoint.learning.data.prepared import square

    if args.images < 1:
        raise TrigpointError(f"--images must be at least 1; got {args.images}.")
    video = with_values(Config(), args.video.assignments()).video
    source = open_source(args.source, args.split, video)
    for out in (args.json, args.sheet):
        spare(out, files_of(source))
    if isinstance(source, SleapLabels):
        say(*source.summary)
    if note := left_out(*videos_and_images([Path(word) for word in args.source])):
        say(note, error=True)
    sizes: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    coloured = 0
    with Progress("reading", len(source)) as bar:
        for index in range(len(source)):
            try:
                image = source.image(index)
            except UnreadableImage as error:
                unreadable[source.name(index)] = str(error)
            else:
                size = f"{image.shape[1]}x{image.shape[0]}"
                sizes[size] = sizes.get(size, 0) + 1
                coloured += has_colour(image)
            bar.update(index + 1)
    readable = len(source) - len(unreadable)
    if not readable:
        name, reason = next(iter(unreadable.items()))
        first = f"{printable(name)}: {printable(reason)}"
        raise TrigpointError(f"None of the {len(source)} images could be read; the first, {first}.")
    common = sorted(sizes.items(), key=lambda item: -item[1])
    annotations = source.annotations
    found: dict[str, Any] = {
        "source": source.description,
        "split": args.split,
        "images": len(source),
        "unreadable": unreadable,
        "coloured": coloured,
        "sizes": dict(common),
    }
    kinds = f"{coloured:,} in colour, {readable - coloured:,} grey"
    say(f"{len(source):,} images in {source.description} ({args.split}): {kinds}")
    shown = ", ".join(f"{size} ({count:,})" for size, count in common[:5])
    say(f"{len(common)} different size{'s' * (len(common) > 1)}: {shown}{', ...' * (len(common) > 5)}")
    if annotations is not None:
        known = np.isfinite(annotations.points).all(axis=-1)
        complete = int(known.all(axis=-1).sum())
        found |= {
            "landmarks": list(annotations.names),
            "complete_annotations": complete,
            "annotated": dict(zip(annotations.names, known.sum(0).tolist(), strict=True)),
        }
        plural = "s" * (complete != 1)
        say(f"{len(annotations.names)} annotated landmarks, complete on {complete:,} image{plural}")
        if complete < len(source):
            counts = zip(annotations.names, known.sum(0), strict=True)
            say("  " + ", ".join(f"{name} {count:,}" for name, count in counts))
    if source.attributes is not None:
        found["attributes"] = {}
        for column, name in enumerate(source.attributes.names):
            classes, numbers = np.unique(source.attributes.values[:, column], return_counts=True)
            counted = dict(zip(map(str, classes.tolist()), numbers.tolist(), strict=True))
            found["attributes"][name] = counted
            if column < 8:
                text = ", ".join(f"{'unknown' if c == '-1' else c}: {n:,}" for c, n in counted.items())
                say(f"attribute {name}: {text}")
        if len(source.attributes.names) > 8:
            say(f"... and {len(source.attributes.names) - 8} more attributes")
    for name, reason in list(unreadable.items())[:10]:
        say(f"unreadable: {name}: {reason}")
    if len(unreadable) > 10:
        say(f"... and {len(unreadable) - 10:,} more unreadable images")
    if args.json is not None:
        write_atomically(args.json, f"{json.dumps(found, indent=2)}\n".encode())
    if args.sheet is not None:
        config = Config()
        tile = 128
        tiles: list[NDArray[np.uint8]] = []
        for index in np.linspace(0, len(source) - 1, min(args.images, len(source))).astype(int):
            if source.name(int(index)) in unreadable:
                continue
            pixels, place = square(source, int(index), config, size=tile)
            if isinstance(source, Videos):
                tiles.append(before_preparation(source.raw(int(index)), place, tile))
            points = np.empty((0, 2))
            if annotations is not None:
                points = place.to_unit(annotations.points[index]) * tile
            tiles.append(draw_landmarks(pixels, points))
        if not tiles:
            raise TrigpointError("None of the images chosen for the contact sheet could be read.")
        write_image(args.sheet, contact_sheet(tiles, columns=8))
        say(f"contact sheet: {args.sheet}")
        if isinstance(source, Videos):
            say("each frame twice: as the camera saw it with the crop drawn, and as the model sees it")
    return 0


def before_preparation(frame: NDArray[np.uint8], place: Placement, tile: int) -> NDArray[np.uint8]:
    """The whole frame as a tile, with the part that the model sees marked."""
    import cv2
    import numpy as np

    from trigpoint.core import geometry

    whole = geometry.fit_box(frame.shape[1], frame.shape[0], "pad")
    picture = geometry.extract(frame, replace(whole, fill=255), tile)
    corners = whole.to_unit(place.to_original(np.array([(0.0, 0.0), (1.0, 1.0)]))) * tile
    (left, top), (right, bottom) = corners.round().astype(int).tolist()
    cv2.rectangle(picture, (left, top), (right - 1, bottom - 1), (255, 60, 60), 1)
    return picture
