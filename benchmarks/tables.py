"""What the benchmarks share: a table on the terminal, the same rows as JSON, the best of a few timings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def show(rows: list[dict[str, Any]], json_file: Path | None) -> None:
    """Print rows of equal keys as a table; write them too where a file is named."""
    heads = list(rows[0])
    cells = [heads, *([written(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=2) + "\n")


def written(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else str(value)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of some calls, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]
