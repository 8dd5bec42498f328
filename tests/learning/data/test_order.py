"""In which order images are trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trigpoint.learning.data.order import Order


def rows_of(count: int, size: int, step: int, seed: int) -> NDArray[np.int64]:
    """The rows of one batch out of the first `count`."""
    return Order(np.arange(count), size, seed).batch(step)


def test_a_batch_s_rows_are_sorted_and_of_the_set() -> None:
    chosen = np.arange(5, 200, 3)
    order = Order(chosen, 8, seed=1)
    for step in (9, 0, 3):  # in whatever order they are asked for
        rows = order.batch(step)
        np.testing.assert_array_equal(rows, np.sort(rows))
        np.testing.assert_array_equal(rows, chosen[rows_of(65, 8, step, 1)])


def test_every_row_comes_once_an_epoch() -> None:
    first = np.concatenate([rows_of(60, 5, step, 1) for step in range(12)])
    second = np.concatenate([rows_of(60, 5, step, 1) for step in range(12, 24)])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(60))
    assert first.tolist() != second.tolist()


def test_rows_left_over_are_others_in_each_epoch() -> None:
    """62 rows make 12 batches of 5: two are left out, but not always the same."""
    epochs = [np.concatenate([rows_of(62, 5, 12 * e + s, 0) for s in range(12)]) for e in range(4)]
    assert all(len(set(epoch.tolist())) == 60 for epoch in epochs)
    assert len({frozenset(range(62)) - frozenset(epoch.tolist()) for epoch in epochs}) > 1


def test_rows_follow_from_seed_and_step_alone() -> None:
    np.testing.assert_array_equal(rows_of(60, 5, 7, 3), rows_of(60, 5, 7, 3))
    assert rows_of(60, 5, 7, 3).tolist() != rows_of(60, 5, 7, 4).tolist()
    assert rows_of(60, 5, 7, 3).tolist() != rows_of(60, 5, 8, 3).tolist()


def test_a_set_smaller_than_a_batch_is_drawn_with_repetition() -> None:
    rows = np.concatenate([rows_of(3, 8, step, 0) for step in range(20)])
    assert len(rows) == 160
    assert set(rows.tolist()) == {0, 1, 2}


def test_a_set_of_exactly_one_batch_is_used_whole() -> None:
    assert sorted(rows_of(8, 8, 5, 0).tolist()) == list(range(8))
