"""A table of numbers with levels of column names, as pandas keeps one in HDF5 in its format `fixed`.

Written with h5py: neither pandas nor PyTables is needed, versions of them do not matter, and no attribute is
a pickle. The layout is that of pandas 2 and 3 (`pandas.io.pytables.BlockManagerFixed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.io import reserve

ARRAY = ("ARRAY", "2.4")  # a kind of node, as PyTables calls it, and the version of it
NOTHING: Mapping[str, str | int] = {}
OVERHEAD = 1 << 18  # bytes at most that a file has beside its values and names


def write_frame(
    path: Path,
    key: str,
    levels: Sequence[tuple[str, Sequence[str]]],
    rows: int | Sequence[str],
    chunks: Iterable[tuple[int, NDArray[np.float64]]],
) -> None:
    """`levels` are the names of the column levels and their cells, one for each column; `chunks` the first
    row and the values (n, columns) of one stretch after the other. `rows` are the names of the rows, or how
    many there are, numbered from 0."""
    import h5py

    count, widest = (rows, 8) if isinstance(rows, int) else (len(rows), max(map(_bytes, rows), default=0))
    text = sum(_bytes(cell) for _, cells in levels for cell in cells)
    reserve(path, OVERHEAD + count * (widest + 16 + 8 * len(levels[0][1])) + 16 * text)
    with h5py.File(path, "w") as file:
        _describe(file, "GROUP", "1.0", {"PYTABLES_FORMAT_VERSION": "2.1"})
        group = file.create_group(key)
        about: dict[str, str | int] = {"pandas_type": "frame", "encoding": "UTF-8", "errors": "strict"}
        about |= {"ndim": 2, "nblocks": 1, "axis1_variety": "regular"}
        for axis in ("axis0", "block0_items"):
            about |= {f"{axis}_variety": "multi", f"{axis}_nlevels": len(levels)}
            for number, (name, cells) in enumerate(levels):
                different = list(dict.fromkeys(cells))
                words = np.array([word.encode() for word in different])
                codes = np.array([different.index(cell) for cell in cells], np.int32)
                level = group.create_dataset(f"{axis}_level{number}", data=words)
                _describe(level, *ARRAY, {"kind": "string", "name": name})
                _describe(group.create_dataset(f"{axis}_label{number}", data=codes), *ARRAY)
        _describe(group, "GROUP", "1.0", about)
        if isinstance(rows, int):
            index: NDArray[Any] = np.arange(rows)
            kind = "integer"
        else:
            index = np.array([name.encode() for name in rows])
            kind = "string"
        _describe(group.create_dataset("axis1", data=index), *ARRAY, {"kind": kind})
        values = group.create_dataset("block0_values", (count, len(levels[0][1])), np.float64)
        _describe(values, *ARRAY)
        for start, block in chunks:
            values[start : start + len(block)] = block


def _bytes(text: str) -> int:
    return len(text.encode())


def _describe(node: Any, kind: str, version: str, about: Mapping[str, str | int] = NOTHING) -> None:
    """What PyTables and pandas note about a node. They take text as such if it is UTF-8 of a fixed length."""
    import h5py

    flavour = {"FLAVOR": "numpy"} if kind == "ARRAY" else {}
    for name, value in ({"CLASS": kind, "VERSION": version, "TITLE": ""} | flavour | dict(about)).items():
        if isinstance(value, str):
            text = value.encode()
            node.attrs.create(name, text, dtype=h5py.string_dtype("utf-8", max(len(text), 1)))
        else:
            node.attrs[name] = np.int64(value)
    if kind == "ARRAY":
        node.attrs["transposed"] = np.uint8(1)  # pandas keeps a column of the table as a row
