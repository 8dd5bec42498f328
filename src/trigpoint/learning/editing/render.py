"""Edits and morphs as pictures: a strip, a GIF, a video, or the paper's figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import contact_sheet, draw_landmarks, write_image
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.editing.editor import Appearance, Code, Editor

if TYPE_CHECKING:
    from PIL import Image

Picture = NDArray[np.uint8]
SAMPLED = 64  # pixels of an edge: what the colours of a GIF's picture are chosen on
TILE = 192  # pixels of a picture in a figure
ENDINGS = (".png", ".jpg", ".gif", ".mp4")


def enlarge(image: Picture, size: int = TILE) -> Picture:
    """(n, n, C) -> (size, size, 3), smooth."""
    scaled = cv2.resize(to_channels(image, 3), (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(scaled, np.uint8)


def targets(image: Picture, before: Code, after: Code) -> Picture:
    """A tile with the landmarks' new places as red dots, and grey lines from where they were."""
    canvas = enlarge(image)
    for old, new in zip(before.landmarks * TILE, after.landmarks * TILE, strict=True):
        start, end = (tuple(np.round((point - 0.5) * 16).astype(int).tolist()) for point in (old, new))
        cv2.line(canvas, start, end, (150, 150, 150), 1, cv2.LINE_AA, 4)
        cv2.circle(canvas, end, 3 * 16, (230, 30, 30), -1, cv2.LINE_AA, 4)
    return canvas


def figure(editor: Editor, square: Picture, before: Code, edits: Sequence[Code]) -> Picture:
    """The paper's layout: input, reconstruction with landmarks, then the targets and image of each edit."""
    decoded = editor.decode_many([before, *edits])
    reconstruction = draw_landmarks(enlarge(decoded[0]), before.landmarks * TILE)
    tiles = [enlarge(square), reconstruction]
    for edit, image in zip(edits, decoded[1:], strict=True):
        tiles += [targets(decoded[0], before, edit), enlarge(image)]
    return contact_sheet(tiles, columns=len(tiles))


def write_frames(path: Path, frames: Iterable[Picture], rate: float = 25.0) -> None:
    """Pictures of one size as what the name's ending says: a strip (.png, .jpg), a GIF or an MP4.

    Written to a temporary name first, so that the file is whole or not there.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise TrigpointError(f"Cannot write {path}: its name must end in {', '.join(ENDINGS)}.")
    remaining = (to_channels(frame, 3) for frame in frames)
    first = next(remaining, None)
    if first is None:
        raise TrigpointError(f"Cannot write {path}: there are no pictures.")
    pictures = chain([first], remaining)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".part-{path.name}")
    try:
        if ending == ".mp4":  # large photos: only one picture is in memory at a time
            with VideoWriter(part, (first.shape[1], first.shape[0]), rate) as writer:
                for picture in pictures:
                    writer.add(picture)
        elif ending == ".gif":
            part.write_bytes(gif(list(pictures), rate))
        else:
            row = list(pictures)
            write_image(part, contact_sheet(row, columns=len(row)) if len(row) > 1 else first)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def gif(pictures: Sequence[Picture], rate: float) -> bytes:
    """An endless GIF."""
    import io

    stream = io.BytesIO()
    first, *rest = map(few_colours, pictures)
    first.save(stream, "GIF", save_all=True, append_images=rest, duration=round(1000 / rate), loop=0)
    return stream.getvalue()


def few_colours(picture: Picture) -> Image.Image:
    """At most 256 colours, chosen on a part of the pixels: of 256x256 the choice would take a quarter of a
    second, and ten seconds for a morph."""
    from PIL import Image

    whole = Image.fromarray(picture)
    part = whole.resize((min(SAMPLED, whole.width), min(SAMPLED, whole.height)), Image.Resampling.NEAREST)
    return whole.quantize(palette=part.quantize(256), dither=Image.Dither.NONE)


def mp4(pictures: Sequence[Picture], rate: float) -> bytes:
    """A short video, as bytes."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "video.mp4"
        write_frames(file, pictures, rate)
        return file.read_bytes()


def strip(pictures: Sequence[Picture], rate: float = 0.0) -> bytes:
    """Pictures side by side as a PNG; there is no rate, it is here to be called as the others are."""
    sheet = cv2.cvtColor(contact_sheet(pictures, columns=len(pictures)), cv2.COLOR_RGB2BGR)
    return bytes(cv2.imencode(".png", sheet)[1].tobytes())


def morph_codes(
    start: Code,
    end: Code,
    frames: int,
    extrapolate: float = 1.0,
    landmarks: Sequence[int] | None = None,
    appearance: Appearance = "keep",
) -> list[Code]:
    """The way from one image to another in equal steps, or past it with `extrapolate` above 1."""
    if frames < 2:
        raise TrigpointError(f"A morph has at least 2 frames; got {frames}.")
    if not math.isfinite(extrapolate):
        raise TrigpointError(f"A morph goes a finite way; got {extrapolate}.")
    shares = np.linspace(0, extrapolate, frames)
    return [start.towards(end, float(share), landmarks, appearance) for share in shares]
