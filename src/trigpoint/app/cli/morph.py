"""`trigpoint morph`: from one image to another by way of its landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class Morph:
    """Turn one image into another by moving its landmarks to the other's.

    Example: trigpoint morph faces-10 me.jpg you.jpg --out morph.mp4
             trigpoint morph faces-10 me.jpg you.jpg --landmarks 3,5,7 --extrapolate 1.5 --out strip.png
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    start: Positional[Path]
    """The image to start from."""
    end: Positional[Path]
    """The image whose landmarks are the goal."""
    out: Path
    """What to write: a strip (.png, .jpg), a .gif or an .mp4."""
    landmarks: str | None = None
    """Only these landmarks move, such as 3,5,7."""
    extrapolate: float = 1.0
    """How far to go: 1 ends at the other image, 1.5 half as far again past it."""
    appearance: Literal["keep", "blend"] = "keep"
    """Keep the first image's appearance, or blend into the other's."""
    frames: int | None = None
    """How many pictures (default 9 in a strip, 5 in a figure, 50 in a video)."""
    kind: Annotated[Literal["decoded", "warped", "blended", "figure"], tyro.conf.arg(name="as")] = "decoded"
    """decoded: the decoder's images. warped: the first photo's own pixels, moved. blended: the same with the
    decoder's changes added. figure: the paper's layout (a strip only)."""
    overwrite: bool = False
    """Replace the file if it exists."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Morph, prog="trigpoint morph", args=argv)
    from trigpoint.app.cli.edit import check_out, read_photo
    from trigpoint.core.errors import TrigpointError
    from trigpoint.learning.editing.editor import Editor
    from trigpoint.learning.editing.photo import put_back
    from trigpoint.learning.editing.render import ENDINGS, TILE, enlarge, figure, morph_codes, write_frames

    check_out(args.out, args.overwrite, ENDINGS, (args.start, args.end))
    still = args.out.suffix.lower() in (".png", ".jpg")
    if args.kind == "figure" and not still:
        raise TrigpointError("The figure is one picture: --out must end in .png or .jpg.")
    frames = args.frames
    if frames is None:
        frames = 5 if args.kind == "figure" else 9 if still else 50
    chosen = None
    if args.landmarks is not None:
        try:
            chosen = [int(word) for word in args.landmarks.split(",")]
        except ValueError:
            raise TrigpointError(
                f"--landmarks takes numbers such as 3,5,7; got {args.landmarks[:80]!r}."
            ) from None
    editor = Editor.load(args.model)
    photo = read_photo(args.start)
    square, place = editor.prepare(photo)
    start = editor.encode_squares(square[None], [place])[0]
    end = editor.encode(read_photo(args.end))
    codes = morph_codes(start, end, frames, args.extrapolate, chosen, args.appearance)
    if args.kind == "figure":
        write_frames(args.out, [figure(editor, square, start, codes[1:])])
    elif args.kind == "decoded":
        write_frames(args.out, (enlarge(image, TILE) for image in editor.decode_many(codes)))
    else:
        blend = args.kind == "blended"
        write_frames(args.out, (put_back(editor, photo, start, code, blend=blend) for code in codes))
    say(f"{args.kind}, {frames} pictures: {args.out}")
    return 0
