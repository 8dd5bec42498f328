"""`trigpoint edit`: move landmarks, the image follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say, spare

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trigpoint.learning.editing.editor import Code


@dataclass(frozen=True)
class Edit:
    """Move landmarks of an image, and see the image follow.

    Example: trigpoint edit faces-10 me.jpg --move 3:0.04,0 7:-0.04,0 --out wider.png
             trigpoint edit faces-10 me.jpg --field twist:0.5 --as warped --out twisted.jpg
             trigpoint edit faces-10 me.jpg --dress other.jpg --out swapped.png
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    image: Positional[Path]
    """The image to edit."""
    out: Path
    """The picture to write, .png or .jpg."""
    move: tuple[str, ...] = ()
    """LANDMARK:DX,DY, in edges of the crop; as many as you like."""
    field: str | None = None
    """All landmarks along a smooth field, NAME:STRENGTH: twist, swell, widen, lengthen, lean, smile."""
    dress: Path | None = None
    """Take the appearance of this image."""
    kind: Annotated[Literal["decoded", "warped", "blended", "figure"], tyro.conf.arg(name="as")] = "decoded"
    """decoded: the decoder's image. warped: the photo's own pixels, moved. blended: the same with the
    decoder's changes added. figure: the paper's layout of input, reconstruction, targets and result."""
    box: str | None = None
    """Where the subject is on the image, in pixels: LEFT,TOP,WIDTH,HEIGHT."""
    overwrite: bool = False
    """Replace the picture if it exists."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Edit, prog="trigpoint edit", args=argv)
    from trigpoint.core.errors import TrigpointError, UnreadableImage
    from trigpoint.core.geometry import parse_box
    from trigpoint.learning.editing.editor import Editor
    from trigpoint.learning.editing.photo import put_back
    from trigpoint.learning.editing.render import enlarge, figure, write_frames

    check_out(args.out, args.overwrite, (".png", ".jpg"), (args.image, args.dress))
    if not (args.move or args.field or args.dress):
        raise TrigpointError("Say what to edit: --move, --field or --dress.")
    if args.dress and args.kind == "warped":
        raise TrigpointError("Another appearance needs the decoder: --as decoded, blended or figure.")
    editor = Editor.load(args.model)
    photo = read_photo(args.image)
    try:
        square, place = editor.prepare(photo, parse_box(args.box) if args.box else None)
    except UnreadableImage as error:  # the box lies outside of it
        raise TrigpointError(f"{args.image}: {error}.") from None
    before = editor.encode_squares(square[None], [place])[0]
    after = edited(before, args)
    if args.dress is not None:
        after = after.dressed(editor.encode(read_photo(args.dress)))
    if args.kind == "decoded":
        picture = enlarge(editor.decode(after), 4 * editor.predictor.config.model.image_size)
    elif args.kind == "figure":
        picture = figure(editor, square, before, [after])
    else:
        picture = put_back(editor, photo, before, after, blend=args.kind == "blended")
    del photo  # which may be large
    write_frames(args.out, [picture])
    say(f"{args.kind}: {args.out}")
    return 0


def edited(code: Code, args: Edit) -> Code:
    from trigpoint.core.errors import TrigpointError
    from trigpoint.learning.editing.fields import carried

    for word in args.move:
        number, _, step = word.partition(":")
        try:
            dx, dy = (float(part) for part in step.split(","))
            code = code.moved({int(number): (dx, dy)})
        except ValueError:
            raise TrigpointError(
                f"--move takes LANDMARK:DX,DY, such as 3:0.05,0; got {word[:80]!r}."
            ) from None
    if args.field is not None:
        name, _, strength = args.field.partition(":")
        try:
            amount = float(strength or 0.3)
        except ValueError:
            raise TrigpointError(
                f"--field takes NAME:STRENGTH, such as twist:0.3; got {args.field[:80]!r}."
            ) from None
        code = code.with_landmarks(carried(code.landmarks, name, amount))
    return code


def check_out(out: Path, overwrite: bool, endings: Sequence[str], inputs: Sequence[Path | None]) -> None:
    """Refuse a name that nothing can be written to, a file nobody said to replace, or one that is read."""
    from trigpoint.core.errors import TrigpointError

    if out.suffix.lower() not in endings:
        raise TrigpointError(f"Cannot write {out}: its name must end in {', '.join(endings)}.")
    if out.is_dir():
        raise TrigpointError(f"Cannot write {out}: it is a folder.")
    if out.exists() and not overwrite:
        raise TrigpointError(f"{out} exists; --overwrite replaces it.")
    spare(out, inputs)


def read_photo(path: Path) -> NDArray[np.uint8]:
    """An image file, or an error that names it."""
    from trigpoint.core.errors import TrigpointError, UnreadableImage
    from trigpoint.core.sources.images import read_image

    if not path.is_file():
        raise TrigpointError(f"There is no file {path}.")
    try:
        return read_image(path)
    except UnreadableImage as error:
        raise TrigpointError(f"{path}: {error}.") from None
