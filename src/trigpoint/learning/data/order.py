"""The order in which a training sees its images: from seed and step alone, so that it resumes exactly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BATCH = 64  # images, where nothing is learnt


class Order:
    """The rows of each batch out of a set's, sorted; a fresh permutation every epoch.

    Sets smaller than a batch are drawn with repetition.
    """

    def __init__(self, rows: NDArray[np.int64], batch_size: int, seed: int) -> None:
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.epoch, self.permuted = -1, rows

    def batch(self, step: int) -> NDArray[np.int64]:
        count, size = len(self.rows), self.batch_size
        if count < size:
            chosen = np.random.default_rng((self.seed, 1, step)).integers(0, count, size)
            return np.sort(self.rows[chosen])
        epoch, place = divmod(step, count // size)
        if epoch != self.epoch:
            order = np.random.default_rng((self.seed, 0, epoch)).permutation(count)
            self.epoch, self.permuted = epoch, self.rows[order]
        return np.sort(self.permuted[place * size : (place + 1) * size])


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of a set's rows, evenly spread."""
    return np.linspace(0, count - 1, min(most, count)).astype(np.int64)


def sliced(rows: NDArray[np.int64], size: int = BATCH) -> Iterator[NDArray[np.int64]]:
    """Rows in batches, the last one shorter."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
