"""Embedding features of every image of a source, computed in parallel and kept on disk.

The table is a memory-mapped .npy file with NaN where nothing has been computed yet, so an interrupted
computation goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.io import regular
from trigpoint.core.progress import Progress
from trigpoint.core.sources import Source, Split, open_source, whole_word
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.faces import SIZE, Dlib

WIDTH = 128
CHUNK = 16


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trigpoint"


def embedding(
    words: tuple[str, ...],
    split: Split,
    folder: Path | None = None,
    workers: int | None = None,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """dlib's features (n, 128) of a source's images, or of some `rows` of them; 0 where one is unreadable."""
    Dlib()  # says at once what is missing
    source = open_source(words, split)
    named = "\n".join((*map(whole_word, words), split)).encode(errors="surrogateescape")
    key = hashlib.sha256(named).hexdigest()[:16]
    path = (folder or cache_folder()) / f"dlib-{key}-{len(source)}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        empty = np.lib.format.open_memmap(path, "w+", np.float32, (len(source), WIDTH))
        empty[:] = np.nan
    table = np.lib.format.open_memmap(path, "r+")
    wanted = np.arange(len(source)) if rows is None else rows
    todo = wanted[np.isnan(table[wanted, 0])]
    if not len(todo):
        return np.asarray(table[wanted])
    chunks = [todo[start : start + CHUNK] for start in range(0, len(todo), CHUNK)]
    workers = workers or os.cpu_count() or 1
    # Fresh processes: a forked one would inherit the locks of torch's threads.
    with (
        ProcessPoolExecutor(workers, get_context("spawn"), _start, (words, split)) as pool,
        Progress("embedding", len(wanted)) as bar,
    ):
        waiting = [pool.submit(_embed, chunk) for chunk in chunks]
        done = len(wanted) - len(todo)
        for future in as_completed(waiting):
            finished, features = future.result()
            table[finished] = features
            done += len(finished)
            bar.update(done)
    table.flush()
    return np.asarray(table[wanted])


def brought(path: Path, count: int) -> NDArray[np.float32]:
    """Features that the user brings: a .npy table with one row per image of the split, in its order."""
    regular(path)
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # whatever a damaged header makes NumPy raise
        reason = str(error).split("\n")[0] or type(error).__name__
        raise TrigpointError(f"{path} is not a readable .npy table: {reason}.") from None
    if getattr(table, "ndim", 0) != 2 or len(table) != count or not np.issubdtype(table.dtype, np.number):
        raise TrigpointError(
            f"{path} must hold numbers of shape ({count}, width), one row per image; "
            f"got {getattr(table, 'dtype', type(table).__name__)} of shape {getattr(table, 'shape', '')}."
        )
    return np.asarray(table, np.float32)


_worker: dict[str, Any] = {}


def _start(words: tuple[str, ...], split: Split) -> None:
    _worker["source"], _worker["dlib"] = open_source(words, split), Dlib()


def _embed(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    source: Source = _worker["source"]
    features = np.zeros((len(rows), WIDTH), np.float32)
    for i, row in enumerate(rows):
        try:
            features[i] = _worker["dlib"].embed(square(source, int(row), Config(), SIZE)[0])
        except UnreadableImage:
            continue
    return rows, features
