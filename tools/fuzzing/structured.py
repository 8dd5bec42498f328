"""HDF5, MATLAB and SQLite files changed by the libraries that write them, so that they stay files of their
kind: other shapes and kinds of numbers, huge sizes, links, hostile attributes, missing parts."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from fuzzing.mutate import CELLS, bent_json, opcodes

NAMES = ("x", "../x", "axis0", "values", "")
ARRAYS = (
    np.empty(0),
    np.zeros(()),
    np.zeros((1, 1)),
    np.zeros((3, 0)),
    np.full(5, np.nan),
    np.full((2, 2), np.inf),
    np.full(4, 1e308),
    np.full(4, -1.0),
    np.full(4, 2**62),
    np.array([-(2**31), 2**31 - 1], np.int32),
    np.array([255, 0, 9], np.uint8),
    np.zeros((2, 3, 4)),
    np.zeros((2, 2), np.complex128),
    np.array([True, False]),
    np.zeros(3, [("x", "<f8"), ("y", "<i4")]),
    np.array([b"a", b"\xff\xfe"]),
    np.array([b"x" * 4000] * 3),
)


def bent_hdf5(random: Random, path: Path) -> None:
    for _ in range(random.choice((1, 1, 2))):
        with h5py.File(path, "r+") as file:
            found: list[Any] = [file]
            file.visititems(lambda _, node, found=found: found.append(node))
            node = random.choice(found)
            if (len(node.attrs) and random.random() < 0.4) or len(found) == 1:
                _attribute(random, node)
            elif node != file:
                with suppress(TypeError, ValueError, OSError, RuntimeError, OverflowError):
                    _node(random, file, node)


def _attribute(random: Random, node: Any) -> None:
    names = list(node.attrs) or ["json"]
    name = random.choice(names)
    value = node.attrs.get(name)
    how = random.randrange(8)
    if how == 0:
        del node.attrs[name]
    elif how == 1:
        node.attrs[name] = random.choice((-1, 0, 2**40, 1e308, np.nan, np.inf))
    elif how == 2:
        node.attrs[name] = random.choice(ARRAYS[:11])
    elif how == 3:
        node.attrs[name] = h5py.Empty("f")
    elif how <= 5 and isinstance(value, bytes | np.bytes_) and len(value) < 30_000:
        node.attrs[name] = np.bytes_(opcodes(random, bytes(value))[:60_000])
    elif isinstance(value, str | bytes) and value[:1] in ("{", b"{"):
        text = value if isinstance(value, bytes) else value.encode()
        with suppress(ValueError, UnicodeEncodeError):
            node.attrs[name] = np.bytes_(bent_json(random, text)[:60_000])
    else:
        with suppress(ValueError, UnicodeEncodeError):
            node.attrs[name] = random.choice(CELLS[:40])


def _node(random: Random, file: Any, node: Any) -> None:
    name, parent = node.name, node.parent
    how = random.randrange(12)
    small = isinstance(node, h5py.Dataset) and node.shape is not None and node.size < 10**6
    if how <= 3 and small and node.size:  # some of its values
        values = node[()]
        if values.dtype.names:
            field = random.choice(values.dtype.names)
            part = values[field]
        else:
            part = values
        flat = part.reshape(-1) if isinstance(part, np.ndarray) else None
        if flat is not None and flat.dtype.kind in "iufb":
            count = random.choice((1, 1, len(flat)))
            at = random.randrange(len(flat))
            top = np.iinfo(flat.dtype).max if flat.dtype.kind in "iu" else 1e308
            chosen = random.choice((0, 1, 7, top, -1 if flat.dtype.kind != "u" else 3))
            if flat.dtype.kind == "f":
                chosen = random.choice((np.nan, np.inf, -np.inf, 1e308, -1e9, 0.0))
            flat[at : at + count] = chosen
            if values.dtype.names:
                values[field] = flat.reshape(part.shape)
            node[...] = values
        elif flat is not None and flat.dtype.kind == "O" and flat.dtype.metadata is not None:
            old = flat[random.randrange(len(flat))]
            if isinstance(old, bytes) and old[:1] == b"{":
                flat[random.randrange(len(flat))] = bent_json(random, old)
                node[...] = values
        return
    attributes = dict(node.attrs)
    kept = node[()] if small else None
    del parent[name]
    if how == 4:
        return
    if how == 5:
        made = parent.create_dataset(
            name, (random.choice((10**9, 2**40, 2**62)),), random.choice(("f8", "u1", "i8"))
        )
    elif how == 6:
        made = parent.create_dataset(name, (10**6, 10**5), "f8", chunks=(64, 64), compression="gzip")
    elif how == 7:
        parent[name] = random.choice(
            (
                h5py.SoftLink("/"),
                h5py.SoftLink(name),
                h5py.ExternalLink("/etc/hostname", "/"),
                h5py.SoftLink("/none"),
            )
        )
        return
    elif how == 8:
        made = parent.create_group(name)
    elif how == 9:
        made = parent.create_dataset(name, data=h5py.Empty("f8"))
    elif how == 10 and kept is not None and np.ndim(kept):  # longer, shorter, turned
        changed = random.choice((kept[:1], kept[1:], np.concatenate((kept, kept)), kept[None], kept.T))
        made = parent.create_dataset(name, data=changed)
    else:
        made = parent.create_dataset(name, data=random.choice(ARRAYS))
    for key, value in attributes.items():
        made.attrs[key] = value


# ---- MATLAB 5


def bent_struct(random: Random, tree: Any) -> Any:
    """A tree of dictionaries, lists and arrays for `scipy.io.savemat`, one of its values replaced."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in pairs:
            places.append((node, key))
            walk(value)

    walk(tree)
    holder, key = random.choice(places)
    how = random.randrange(6)
    if how <= 2:
        holder[key] = random.choice((*ARRAYS, "car", "", "x" * 3000, 7.0, -1, np.nan, np.inf, 1e300))
    elif how == 3:
        holder[key] = {"a": {"b": {"c": 1.0}}}
    elif how == 4 and len(holder) > 1:
        del holder[key]
    else:
        deep: Any = 1.0
        for _ in range(random.choice((3, 20, 200))):
            deep = {"d": deep}
        holder[key] = deep
    return tree


# ---- SQLite

SPINS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


def bent_sqlite(random: Random, path: Path) -> None:
    """Cells, columns or tables replaced, among them by views that never end."""
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(random.choice((1, 1, 2))):
            table = random.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            column = random.choice(columns or ["x"])
            value = random.choice(
                (
                    None,
                    -1,
                    0,
                    2**63 - 1,
                    1e308,
                    float("inf"),
                    "",
                    "nan",
                    "x" * 3000,
                    b"\xff\0",
                    "../../x",
                    "\x1b[2J",
                    "/etc/hostname",
                    1e9,
                    "1e999",
                    b"",
                    ".",
                    "a/.",
                )
            )
            how = random.randrange(9)
            with suppress(sqlite3.Error):
                if how <= 3:
                    which = (
                        ""
                        if random.random() < 0.3
                        else " WHERE rowid = (SELECT max(rowid) FROM " + table + ")"
                    )
                    connection.execute(f"UPDATE {table} SET {column} = ?{which}", (value,))
                elif how == 4:
                    connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
                elif how == 5:
                    connection.execute(f"DROP TABLE {table}")
                elif how == 6:
                    connection.execute(f"DELETE FROM {table}")
                elif how == 7:
                    connection.execute(f"INSERT INTO {table} SELECT * FROM {table}")
                else:
                    words = random.choice(
                        (
                            f"x AS {column} FROM ({SPINS})",
                            f"randomblob(1e9) AS {column}",
                            f"load_extension('x') AS {column}",
                            f"zeroblob(1e6) AS {column}",
                        )
                    )
                    others = ", ".join(f"1 AS {name}" for name in columns if name != column)
                    connection.execute(f"DROP TABLE {table}")
                    connection.execute(
                        f"CREATE VIEW {table} AS SELECT {others + ', ' if others else ''}{words}"
                    )
