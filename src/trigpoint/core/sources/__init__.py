"""Where images come from: `open_source` turns the words of the command line into a source."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from trigpoint.core.config.tree import EVERY_FRAME, VideoConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Annotations, Attributes, Source, Split, Subset

__all__ = [
    "Annotations",
    "Attributes",
    "DATASETS",
    "Dataset",
    "Source",
    "Split",
    "Subset",
    "files_of",
    "left_out",
    "open_source",
    "videos_and_images",
    "whole_word",
]


@dataclass(frozen=True)
class Dataset:
    """One named source: `name:PATH`, or `name-variant:PATH`. Its class takes (path, split, variant)."""

    kind: str  # module:class below trigpoint.core.sources
    text: str
    variants: tuple[str, ...] = ()
    embedded: bool = False  # needs no path; what follows the colon is a choice of its own


ACTIONS = ("directions", "discussion", "greeting", "posing", "waiting", "walking")
DATASETS = {
    "digits": Dataset("digits:Digits", "5,000 embedded MNIST digits; digits:3 for one class", embedded=True),
    "figures": Dataset(
        "figures:Figures",
        "embedded drawings of a clothed, moving figure with exact joints, to test experiments on",
        ("front", "back"),
        embedded=True,
    ),
    "celeba": Dataset("celeba:CelebA", "CelebA faces, aligned or not, with MAFL's splits", ("unaligned",)),
    "aflw": Dataset("aflw:AFLW", "AFLW faces by their annotated boxes"),
    "mtfl": Dataset("mtfl:MTFL", "MTFL faces with five landmarks and four attributes", ("from-zero",)),
    "cats": Dataset("cats:Cats", "cat heads (CAT), seven of nine landmarks"),
    "cars": Dataset("cars:Cars", "profile cars of PASCAL3D+, six landmarks"),
    "shoes": Dataset("shoes:Shoes", "shoes on white: UT Zappos50k, or any folder of product photos"),
    "human36m": Dataset("human36m:Human36M", "Human3.6M, six actions or one, 32 joints", ACTIONS),
    "mnist": Dataset("mnist:MNIST", "MNIST's own idx files; mnist-3 for one class", tuple("0123456789")),
    "animals": Dataset(
        "animals:Animals", "Animals with Attributes: five species in profile, all facing left"
    ),
    "horses": Dataset("horses:Horses", "Weizmann horses cut out by their masks"),
    "deeplabcut": Dataset("deeplabcut:open_project", "a DeepLabCut project: its videos, its labelled frames"),
    "csv": Dataset("annotated:LandmarkTable", "your images with landmarks in a CSV file"),
    "coco": Dataset("annotated:CocoKeypoints", "your images with landmarks in a COCO keypoints file"),
    "slp": Dataset("sleap:SleapLabels", "the labelled frames of a SLEAP file"),
}


def open_source(
    words: str | Path | Sequence[str | Path], split: Split = "train", video: VideoConfig = EVERY_FRAME
) -> Source:
    """A folder, a list of image files or of videos, a SLEAP file, or `name:path`.

    `split` matters where the dataset has splits, `video` where there are videos.
    """
    if isinstance(words, str | Path):
        words = [words]
    if not any(str(word) for word in words):
        raise TrigpointError(
            "Name a source: a folder of images, image files, or one of `trigpoint data list`."
        )
    first = str(words[0])
    name, colon, rest = first.partition(":")
    if len(words) == 1 and not Path(first).exists():
        base, _, variant = name.partition("-")
        dataset = DATASETS.get(base)
        if dataset is not None and (colon or dataset.embedded):
            if variant and variant not in dataset.variants:
                known = ", ".join(f"{base}-{one}" for one in dataset.variants) or "none"
                raise TrigpointError(f"There is no source named {name!r}; variants of {base}: {known}.")
            module, _, kind = dataset.kind.partition(":")
            opener = getattr(importlib.import_module(f"trigpoint.core.sources.{module}"), kind)
            if base in ("deeplabcut", "slp"):
                return cast(Source, opener(Path(rest), split, video))
            return cast(Source, opener(rest if dataset.embedded else Path(rest), split, variant))
        if colon and len(name) > 1:  # one letter before a colon is a drive, not a dataset
            raise TrigpointError(f"There is no source named {name!r}; `trigpoint data list` shows them all.")
    if len(words) == 1 and Path(first).suffix.lower() == ".slp" and Path(first).is_file():
        return open_source(f"slp:{first}", split, video)
    from trigpoint.core.sources.folder import Folder
    from trigpoint.core.sources.video import Videos

    paths = [Path(word) for word in words]
    videos, images = videos_and_images(paths)
    return Videos(paths, video) if videos > images else Folder(paths)


def files_of(source: Source) -> Iterator[Path | None]:
    """The file that names them, where there is one, and those of the images."""
    yield from (Path(word.partition(":")[2] or word) for word in source.words)
    yield from (source.file(index) for index in range(len(source)))


def videos_and_images(paths: Sequence[Path]) -> tuple[int, int]:
    """How many of each are among files and folders. They are read as what there is more of."""
    from trigpoint.core.sources.folder import image_files
    from trigpoint.core.sources.video import video_files

    return len(video_files(paths)), len(image_files(paths))


def left_out(videos: int, images: int) -> str | None:
    """A sentence where images lie among videos, or videos among images, and are not read."""
    if not (videos and images):
        return None
    kinds = [(videos, "video"), (images, "image")]
    if videos <= images:
        kinds.reverse()
    (read, this), (rest, other) = [
        (f"{count:,}", f"{kind} is" if count == 1 else f"{kind}s are") for count, kind in kinds
    ]
    return f"{read} {this} read, {rest} {other} left out."


def whole_word(word: str) -> str:
    """The same for a source from whichever folder it is named: its path made whole, if it has one."""
    name, colon, rest = word.partition(":")
    if Path(word).exists():
        return str(Path(word).resolve())
    return f"{name}:{Path(rest).resolve()}" if colon and Path(rest).exists() else word
