"""Features kept on disk: computed once, resumed, or brought by the user."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources import whole_word
from trigpoint.learning.evaluation import embedding as module
from trigpoint.learning.evaluation.embedding import brought, embedding


def test_unfinished_rows_are_computed_and_finished_ones_kept(photos: Path, tmp_path: Path) -> None:
    """Two workers; then rows marked as undone are done again, others are not touched."""
    words = (str(photos),)
    first = embedding(words, "train", tmp_path / "cache", workers=2)
    assert first.shape == (12, 128)
    assert np.isfinite(first).all()
    (file,) = (tmp_path / "cache").iterdir()
    table = np.lib.format.open_memmap(file, "r+")
    table[3], table[5] = np.nan, 7.0
    table.flush()
    again = embedding(words, "train", tmp_path / "cache", workers=1)
    np.testing.assert_array_equal(again[3], first[3])
    assert (again[5] == 7).all()


def test_an_unreadable_image_has_a_row_of_zeros(photos: Path, tmp_path: Path) -> None:
    sorted(photos.iterdir())[2].write_bytes(b"no image")
    table = embedding((str(photos),), "train", tmp_path / "cache", workers=1)
    assert (table[2] == 0).all()
    assert (np.abs(table[[0, 1, 3]]).sum(1) > 0).all()


def test_the_key_is_the_same_from_wherever_a_source_is_named(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos.parent)
    assert whole_word("mtfl:photos") == whole_word(f"mtfl:{photos}")
    assert whole_word("photos") == whole_word(str(photos))
    assert whole_word("digits:3") == "digits:3"


def test_a_table_of_one_s_own(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.ones((5, 3)))
    assert brought(tmp_path / "good.npy", 5).shape == (5, 3)
    with pytest.raises(
        TrigpointError, match=r"\(6, width\), one row per image; got float64 of shape \(5, 3\)"
    ):
        brought(tmp_path / "good.npy", 6)


def test_a_pickled_or_damaged_table_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], object), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"nothing")
    np.save(tmp_path / "head.npy", np.ones((5, 3)))
    head = (tmp_path / "head.npy").read_bytes().replace(b"(5, 3)", b"(5, 3 ")
    (tmp_path / "head.npy").write_bytes(head)
    for name in ("objects.npy", "broken.npy", "absent.npy", "head.npy"):
        with pytest.raises(TrigpointError, match=r"is not a readable \.npy table"):
            brought(tmp_path / name, 1)
    os.mkfifo(tmp_path / "pipe.npy")  # which would be waited for
    with pytest.raises(TrigpointError, match="a pipe or a device, not a file"):
        brought(tmp_path / "pipe.npy", 1)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.cache_folder() == tmp_path / "trigpoint"
