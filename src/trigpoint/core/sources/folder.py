"""A folder of images, nested as it likes, or a list of image files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import EXTENSIONS, read_image


def is_image(file: Path) -> bool:
    return file.suffix.lower() in EXTENSIONS and not file.name.startswith(".") and is_file(file)


def is_file(path: Path) -> bool:
    """Of what a folder lists: also where it may not be looked at. Reading it tells the reason."""
    try:
        return path.is_file()
    except OSError:
        return True


def image_files(paths: Sequence[Path]) -> list[Path]:
    """The images among files and folders; a folder stands for all images below it, in alphabetical order."""
    found: list[Path] = []
    for path in paths:
        found += filter(is_image, walk(path)[0] if path.is_dir() else [path])
    return found


def closed_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders among the paths and below them that cannot be read, so that what they hold is not known."""
    return [folder for path in paths if path.is_dir() for folder in walk(path)[1]]


def walk(folder: Path) -> tuple[list[Path], list[Path]]:
    """What lies below a folder and is none, and the folders that cannot be read. Links to folders are not
    followed."""
    files: list[Path] = []
    closed: list[Path] = []
    for base, _, names in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        files += [Path(base, name) for name in names]
    return sorted(files), sorted(closed)


def paths_apart(files: Sequence[Path]) -> list[str]:
    """The files' paths below the folder that all of them lie in."""
    whole = [file.resolve() for file in files]
    base = os.path.commonpath([file.parent for file in whole])
    return [path.relative_to(base).as_posix() for path in whole]


class Folder(Source):
    def __init__(self, paths: Sequence[Path]) -> None:
        """Folders and files; a folder stands for all image files below it, in alphabetical order."""
        self.words = tuple(str(path) for path in paths)
        self.description = self.words[0] if len(paths) == 1 else f"{len(paths)} files and folders"
        self.files: list[tuple[Path, str]] = []
        for path in paths:
            if path.is_dir():
                files, closed = walk(path)
                found = [file for file in files if is_image(file)]
                if not found and closed:
                    raise TrigpointError(f"The folder {closed[0]} cannot be read, and no image was found.")
                if not found:
                    raise TrigpointError(
                        f"The folder {path} holds no images ({', '.join(sorted(EXTENSIONS))}), "
                        "also not in the folders below it."
                    )
                found += closed  # each is one image that cannot be read, so that it is counted and named
                self.files += [(file, file.relative_to(path).as_posix()) for file in found]
            elif path.is_file():
                self.files.append((path, path.name))
            else:
                raise TrigpointError(f"There is no file or folder {path}.")
        if len({name for _, name in self.files}) < len(self.files):
            # Two images of one name: tell them apart by where they lie.
            files = [file for file, _ in self.files]
            self.files = list(zip(files, paths_apart(files), strict=True))

    def leave_out(self, folder: Path) -> None:
        """Images below this folder are none of this source, unless they were named one by one."""
        given = {Path(word) for word in self.words}
        inner = folder.resolve()
        self.files = [
            (file, name)
            for file, name in self.files
            if file in given or not file.resolve().is_relative_to(inner)
        ]

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        return self.files[index][1]

    def file(self, index: int) -> Path:
        return self.files[index][0]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.files[index][0])
