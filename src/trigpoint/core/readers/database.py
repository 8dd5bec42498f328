"""Queries of an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

CELL = 2**20  # bytes of one cell
ROWS = 2**21  # of one answer


def read_rows(path: str, queries: Sequence[str]) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The rows of each query. Nothing is written, not even a journal beside the file; what the file's own
    views and triggers may call is limited to what is harmless."""
    with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return [_rows(connection, query) for query in queries], {}


def _rows(connection: sqlite3.Connection, query: str) -> list[Any]:
    rows = connection.execute(query).fetchmany(ROWS + 1)
    if len(rows) > ROWS:
        raise ValueError(f"it has more than {ROWS:,} rows")
    if any(isinstance(cell, bytes) for row in rows for cell in row):
        raise ValueError("it holds something else than text and numbers")
    return rows
