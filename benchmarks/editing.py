"""What an edit changes: where the image changes, and whether the landmarks end where they were put.

python benchmarks/editing.py mtfl:FOLDER [--model faces-10] [--faces 100] [--reach 0.06] [--picture FILE]

Faces of the test split. The mouth's landmarks are those that lie, on average over the faces, within --reach
edges of the crop of an annotated mouth corner or of the middle between both. Each face gets a move of one
length, in a direction of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from tables import show
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import contact_sheet, write_image
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import open_source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.render import enlarge, targets

NEAR = 0.15  # pixels this close to a moved landmark may change
MOUTH = (3, 4)  # of the five annotated points: the corners


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """Faces with five annotated points, the last two the mouth's corners."""
    model: str = "faces-10"
    """A run folder, or the name of a shipped model."""
    faces: int = 100
    """How many faces, and pairs of faces."""
    reach: float = 0.06
    """How far from the annotated mouth a landmark of the mouth may lie, in edges of the crop."""
    seed: int = 0
    """Decides faces, directions and pairs."""
    picture: Path | None = None
    """Also write a grid of edits to this file."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    random = np.random.default_rng(options.seed)
    editor, source = Editor.load(options.model), open_source(options.source, "test")
    if source.annotations is None:
        raise TrigpointError("The source has no annotated mouth corners.")
    chosen = random.permutation(len(source))[: options.faces]
    pixels, mouths = [], []
    for index in map(int, chosen):
        image, place = square(source, index, editor.predictor.config)
        pixels.append(image)
        mouths.append(place.to_unit(source.annotations.points[index])[list(MOUTH)])
    squares = np.stack(pixels)
    codes = editor.encode_squares(squares, [Placement(0, 0, 1, 1)] * len(squares))
    landmarks = np.stack([code.landmarks for code in codes])
    corners = np.stack(mouths)
    wanted = np.concatenate((corners, corners.mean(1, keepdims=True)), axis=1)  # (n, 3, 2)
    gaps = np.linalg.norm(landmarks[:, :, None] - wanted[:, None], axis=-1).mean(0).min(-1)  # (K,)
    moving = np.flatnonzero(gaps < options.reach)
    print(f"the mouth's landmarks: {', '.join(map(str, moving))}")
    before = editor.decode_many(codes)
    angles = random.uniform(0, 2 * np.pi, len(codes))
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=-1)
    plain = distances(editor.redetect(before), landmarks)
    rows = [
        {"what": "no edit: the reconstruction", "change": None, "found": plain.mean(), "found, moved": None}
    ]
    edits: dict[float, list[Code]] = {}
    for length in (0.01, 0.02, 0.03, 0.04, 0.05):
        edits[length] = [
            code.moved({int(k): tuple(length * step) for k in moving})
            for code, step in zip(codes, directions, strict=True)
        ]
        after = editor.decode_many(edits[length])
        put = np.stack([code.landmarks for code in edits[length]])
        off = distances(editor.redetect(after), put)
        rows.append(
            {
                "what": f"mouth moved by {length:.0%}",
                "change": locality(before, after, landmarks[:, moving], put[:, moving]),
                "found": off.mean(),
                "found, moved": off[:, moving].mean(),
            }
        )
    others = np.roll(random.permutation(len(codes)), 1)
    dressed = [code.dressed(codes[int(other)]) for code, other in zip(codes, others, strict=True)]
    off = distances(editor.redetect(editor.decode_many(dressed)), landmarks)
    rows.append({"what": "another's appearance", "change": None, "found": off.mean(), "found, moved": None})
    show([{key: "" if value is None else value for key, value in row.items()} for row in rows], options.json)
    print(
        f"change: mean change of pixels within {NEAR} of the moved landmarks over that elsewhere.\n"
        f"found: mean distance of re-detected landmarks from where they were put, in edges of the image.\n"
        f"{len(codes)} faces; reconstruction error (RMS) {rms(before, squares):.2%} of the colour range."
    )
    if options.picture:
        write_image(options.picture, grid(editor, codes, edits[0.05], dressed))


def distances(found: NDArray[np.float64], put: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.norm(found - put, axis=-1)  # (n, K)


def rms(made: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> float:
    return float(np.sqrt(np.square(made.astype(float) - wanted).mean()) / 255)


def locality(
    before: NDArray[np.uint8], after: NDArray[np.uint8], start: NDArray[np.float64], end: NDArray[np.float64]
) -> float:
    """The mean change near the moved landmarks, where they were and where they are, over that elsewhere."""
    size = before.shape[1]
    change = np.abs(after.astype(float) - before).mean(-1)  # (n, h, w)
    centres = (np.arange(size) + 0.5) / size
    cells = np.stack(np.meshgrid(centres, centres), axis=-1)  # (h, w, 2) as (x, y)
    places = np.concatenate((start, end), axis=1)  # (n, 2m, 2)
    gaps = np.linalg.norm(cells[None, :, :, None] - places[:, None, None], axis=-1).min(-1)
    near = gaps < NEAR
    return float(change[near].mean() / change[~near].mean())


def grid(editor: Editor, codes: list[Code], edits: list[Code], dressed: list[Code]) -> NDArray[np.uint8]:
    """Rows of faces, no photo among them: reconstruction, what is moved, the edit, another's appearance."""
    tiles = []
    for i in range(min(6, len(codes))):
        made = editor.decode_many([codes[i], edits[i], dressed[i]])
        tiles += [enlarge(made[0]), targets(made[0], codes[i], edits[i]), enlarge(made[1]), enlarge(made[2])]
    return contact_sheet(tiles, columns=4)


if __name__ == "__main__":
    main()
