"""`cairns detect`: find a model's landmarks on images."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional


@dataclass(frozen=True)
class Detect:
    """Find a model's landmarks on images.

    Example: cairns detect runs/photos holiday/*.jpg --out found --overlay

    Writes into --out:
      landmarks.csv       image, frame, landmark, x, y, confidence (pixels of the original image)
      overlays/           each image with its landmarks drawn (--overlay)
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    inputs: Positional[tuple[str, ...]]
    """Image files, folders of them, or a source name such as digits."""
    out: Path
    """The folder to write."""
    overlay: bool = False
    """Draw the landmarks onto a copy of each image."""
    overwrite: bool = False
    """Do it again where --out already holds the result."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Detect, prog="cairns detect", args=argv)
    from cairns.errors import CairnsError, UnreadableImage
    from cairns.files.overlay import draw_landmarks, write_image
    from cairns.files.table import LandmarkTable
    from cairns.predictor import Predictor
    from cairns.sources import open_source
    from cairns.training.progress import Progress

    table = args.out / "landmarks.csv"
    missing = args.overlay and not (args.out / "overlays").exists()
    if table.exists() and not missing and not args.overwrite:
        print(f"{table} is already there; --overwrite does it again.")
        return 0
    if args.out.is_file():
        raise CairnsError(f"{args.out} is a file; --out names a folder.")
    predictor = Predictor.load(args.model)
    source = open_source(args.inputs)
    args.out.mkdir(parents=True, exist_ok=True)
    pictures = overlay_names([source.name(index) for index in range(len(source))]) if args.overlay else {}
    skipped: dict[str, str] = {}
    batch = 64
    with LandmarkTable(table) as rows, Progress("detecting", len(source)) as bar:
        for start in range(0, len(source), batch):
            names, images, boxes = [], [], []
            for index in range(start, min(start + batch, len(source))):
                try:
                    images.append(source.image(index))
                except UnreadableImage as error:
                    skipped[source.name(index)] = str(error)
                    continue
                names.append(source.name(index))
                boxes.append(source.box(index))
            for name, image, found in zip(names, images, predictor.detect_many(images, boxes), strict=True):
                rows.add(name, found)
                if args.overlay:
                    picture = draw_landmarks(image, found.points, found.confidence)
                    write_image(args.out / "overlays" / pictures[name], picture)
            bar.update(min(start + batch, len(source)))
        if len(skipped) == len(source):
            name, reason = next(iter(skipped.items()))
            raise CairnsError(f"None of the {len(source)} images could be read; the first, {name}: {reason}.")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}", file=sys.stderr)
    print(f"{predictor.landmarks} landmarks on {len(source) - len(skipped)} images: {table}")
    return 0


def overlay_names(names: Sequence[str]) -> dict[str, str]:
    """`a.jpg` is drawn as `a.png`; where `a.png` exists beside it, both keep their endings before it."""
    plain = {name: str(Path(name).with_suffix(".png")) for name in names}
    taken = Counter(plain.values())
    return {name: short if taken[short] == 1 else f"{name}.png" for name, short in plain.items()}
