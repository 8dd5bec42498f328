"""A pandas DataFrame of numbers in an HDF5 file, as DeepLabCut keeps its labels: both of pandas' layouts,
read by h5py alone. PyTables would unpickle what it finds in attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.readers.hdf5 import array, dataset, group, opened, text
from trigpoint.core.readers.plain_pickle import NotPlain, plain

KEY = "df_with_missing"
LEVELS = ("scorer", "bodyparts", "coords")
Column = tuple[str, ...]


def read_frame(path: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Columns as lists of words, the words of each row's name, and `values` (rows, columns). No columns where
    the file holds something else than a table of three levels of columns."""
    file = opened(path)
    kept = group(file, _key(file))
    kind = text(kept.attrs.get("pandas_type", b""))
    if kind == "frame_table":
        rows, columns = _table(kept)
    elif kind == "frame":
        rows, columns = _fixed(kept)
    else:
        rows, columns = [], {}
    if not columns or any(len(column) != len(LEVELS) for column in columns):
        return {"columns": [], "rows": []}, {"values": np.empty((0, 0))}
    if any(len(column) != len(rows) for column in columns.values()):
        raise ValueError(f"it does not hold {len(rows)} rows, as many as it has names of")
    values = np.array(list(columns.values()), np.float64).T
    return {"columns": list(columns), "rows": rows}, {"values": values}


def _key(file: Any) -> str:
    keys = [KEY] if KEY in file else [name for name in file if "pandas_type" in group(file, name).attrs]
    if len(keys) != 1:
        raise ValueError(f"it holds {len(keys)} tables of pandas, not one")
    return keys[0]


# ---- the layout `table`: one HDF5 table, and the columns' names in pickled attributes


def _table(kept: Any) -> tuple[list[str], dict[Column, NDArray[Any]]]:
    table = dataset(kept, "table")
    fields = table.dtype.names or ()
    if "index" not in fields or table.ndim != 1:
        raise ValueError("its table has no index")
    rows = array(table)
    found: dict[Column, NDArray[Any]] = {}
    for field in (name for name in fields if name.startswith("values_block_")):
        names = _columns(_attribute(table, f"{field}_kind"))
        block = rows[field].reshape(len(rows), -1)
        found |= _named(names, _numbers(block).T)
    return list(map(_word, rows["index"])), _in_order(found, _order(kept))


def _order(kept: Any) -> list[Column]:
    """`non_index_axes` is [(1, [columns])]."""
    axes = _attribute(kept, "non_index_axes")
    if not (isinstance(axes, list) and len(axes) == 1 and isinstance(axes[0], tuple) and len(axes[0]) == 2):
        raise ValueError("its attribute non_index_axes is damaged")
    return _columns(axes[0][1])


def _attribute(node: Any, name: str) -> Any:
    value = node.attrs.get(name)
    if not isinstance(value, bytes):
        raise ValueError(f"its attribute {name} is missing or of another kind")
    try:
        return plain(bytes(value))
    except NotPlain as error:
        raise ValueError(f"its attribute {name} is {error}") from None


def _columns(names: Any) -> list[Column]:
    if not isinstance(names, list):
        raise ValueError("it does not say what its columns are called")
    # A table with one level of columns has words in place of tuples of them.
    found = [name if isinstance(name, tuple) else (name,) for name in names]
    if not all(isinstance(word, str) for column in found for word in column):
        raise ValueError("it does not say what its columns are called")
    return found


# ---- the layout `fixed`: an array of each block, and of each axis the words and which of them where


def _fixed(kept: Any) -> tuple[list[str], dict[Column, NDArray[Any]]]:
    found: dict[Column, NDArray[Any]] = {}
    for number in range(min(int(kept.attrs.get("nblocks", 0)), 64)):
        values = array(dataset(kept, f"block{number}_values"))
        if values.ndim != 2:
            raise ValueError(f"its block {number} has {values.ndim} axes, not two")
        found |= _named(list(_axis(kept, f"block{number}_items")), _numbers(values).T)
    rows = ["/".join(words) for words in _axis(kept, "axis1")]
    return rows, _in_order(found, list(_axis(kept, "axis0")))


def _axis(kept: Any, name: str) -> Iterator[Column]:
    """What the rows, or the columns, are called."""
    if text(kept.attrs.get(f"{name}_variety", b"")) != "multi":
        return ((_word(value),) for value in array(dataset(kept, name)))
    levels = []
    for level in range(min(int(kept.attrs.get(f"{name}_nlevels", 0)), 16)):
        words = array(dataset(kept, f"{name}_level{level}"))
        codes = array(dataset(kept, f"{name}_label{level}"))
        if codes.dtype.kind not in "iu" or codes.ndim != 1 or words.ndim != 1:
            raise ValueError(f"what its {name} is called is damaged")
        if len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(words):
            raise ValueError(f"what its {name} is called is damaged")
        # -1 says that there is none
        levels.append([_word(words[code]) if code >= 0 else "" for code in codes.tolist()])
    return zip(*levels, strict=True)


# ---- both


def _named(names: list[Column], values: NDArray[Any]) -> dict[Column, NDArray[Any]]:
    if len(names) != len(values) or len(set(names)) != len(names):
        raise ValueError(f"it has {len(values)} columns, and {len(set(names))} names of them")
    return dict(zip(names, values, strict=True))


def _in_order(found: dict[Column, NDArray[Any]], order: list[Column]) -> dict[Column, NDArray[Any]]:
    if sorted(found) != sorted(order):
        raise ValueError(f"it names {len(order)} columns, and holds others")
    return {name: found[name] for name in order}


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "iuf":
        raise ValueError("it holds something else than numbers")
    return values


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value.item() if isinstance(value, np.generic) else value)
