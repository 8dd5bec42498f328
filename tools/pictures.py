"""Pictures for the docs that show no photo: only what a decoder or a generator made.

python tools/pictures.py contact RUN SOURCE docs/images/shoes.png     # reconstructions with their landmarks
python tools/pictures.py samples RUN SOURCE docs/images/new-faces.png # landmarks, then samples that have them

Images are those of the source's test split, or of all of it where it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from trigpoint.core.files.overlay import contact_sheet, draw_landmarks, write_image
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import open_source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.render import enlarge
from trigpoint.learning.generation.sampler import Sampler, sheet

TILE, COLUMNS = 112, 8
ROWS = {"contact": 3, "samples": 6}
GREY = 128


@dataclass(frozen=True)
class Options:
    what: Positional[Literal["contact", "samples"]]
    """What to draw."""
    run: Positional[str]
    """A model; for samples the run of a generator."""
    source: Positional[str]
    """Where the structures come from."""
    out: Positional[Path]
    """The picture to write."""
    seed: int = 0
    """Decides images and samples."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    editor = Editor.load(options.run)
    codes = encoded(editor, options, ROWS[options.what] * (COLUMNS if options.what == "contact" else 1))
    if options.what == "contact":
        decoded = [enlarge(image, TILE) for image in editor.decode_many(codes)]
        tiles = [
            draw_landmarks(image, code.landmarks * TILE) for image, code in zip(decoded, codes, strict=True)
        ]
        write_image(options.out, contact_sheet(tiles, COLUMNS))
        return
    sampler = Sampler.load(options.run)
    landmarks = np.stack([code.landmarks for code in codes]).astype(np.float32)
    blank = np.full((len(codes), TILE, TILE, 3), GREY, np.uint8)
    latents = torch.from_numpy(sampler.latents(COLUMNS, options.seed))
    write_image(options.out, sheet(sampler.generator, blank, landmarks, latents))


def encoded(editor: Editor, options: Options, count: int) -> list[Code]:
    source = open_source(options.source, "test", editor.predictor.config.video)
    chosen = np.random.default_rng(options.seed).permutation(len(source))[:count]
    images: list[NDArray[np.uint8]] = [square(source, int(i), editor.predictor.config)[0] for i in chosen]
    return editor.encode_squares(np.stack(images), [Placement(0, 0, 1, 1)] * len(images))


if __name__ == "__main__":
    main()
