"""Where images come from: `open_source` turns the words of the command line into a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cairns.errors import CairnsError
from cairns.sources.base import Annotations, Source, Subset

__all__ = ["NAMES", "Annotations", "Source", "Subset", "open_source"]

NAMES = {
    "FOLDER or FILE...": "your own images: any common format, size and aspect; folders may be nested",
    "digits": "5,000 embedded MNIST digits; digits:3 for one class",
    "mtfl:FOLDER": "MTFL faces, five annotated landmarks",
}


def open_source(
    words: str | Path | Sequence[str | Path], split: Literal["train", "test"] = "train"
) -> Source:
    """A folder, a list of image files, or `name:path`. `split` matters where the dataset has splits."""
    if isinstance(words, str | Path):
        words = [words]
    if not any(str(word) for word in words):
        raise CairnsError("Name a source: a folder of images, image files, or one of `cairns data list`.")
    first = str(words[0])
    name, colon, rest = first.partition(":")
    if len(words) == 1 and not Path(first).exists():
        if name == "digits":
            from cairns.sources.digits import Digits

            return Digits(rest)
        if name == "mtfl":
            from cairns.sources.mtfl import MTFL

            return MTFL(Path(rest), split)
        if colon and len(name) > 1:  # one letter before a colon is a drive, not a dataset
            raise CairnsError(f"There is no source named {name!r}; `cairns data list` shows them all.")
    from cairns.sources.folder import Folder

    return Folder([Path(word) for word in words])
