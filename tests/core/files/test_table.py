"""landmarks.csv."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from trigpoint.core.files.table import HEADER, LandmarkTable
from trigpoint.core.inference.predictor import Landmarks

FOUND = Landmarks(np.array([[1.234, 5.678], [-2.5, 100.0]]), np.array([0.98765, 0.5]))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_one_row_for_each_landmark_of_each_image(tmp_path: Path) -> None:
    with LandmarkTable(tmp_path / "landmarks.csv") as table:
        table.add("a.png", FOUND)
        table.add("deep/b.png", FOUND, frame=3, subject=1)
    rows = rows_of(tmp_path / "landmarks.csv")
    assert tuple(rows[0]) == HEADER == ("image", "frame", "subject", "landmark", "x", "y", "confidence")
    assert [(row["image"], row["frame"], row["subject"], row["landmark"]) for row in rows] == [
        ("a.png", "0", "0", "0"),
        ("a.png", "0", "0", "1"),
        ("deep/b.png", "3", "1", "0"),
        ("deep/b.png", "3", "1", "1"),
    ]
    assert float(rows[0]["x"]) == pytest.approx(1.234, abs=0.006)
    assert float(rows[0]["y"]) == pytest.approx(5.678, abs=0.006)
    assert float(rows[0]["confidence"]) == pytest.approx(0.98765, abs=0.0006)
    assert float(rows[1]["x"]) == -2.5


def test_landmarks_may_have_names(tmp_path: Path) -> None:
    with LandmarkTable(tmp_path / "landmarks.csv", ("left, eye", "1")) as table:
        table.add("a.png", FOUND)
    assert [row["landmark"] for row in rows_of(tmp_path / "landmarks.csv")] == ["left, eye", "1"]


@pytest.mark.parametrize("name", ["with, comma.png", 'with "quotes".png', "Grüße.png", "a'b.png"])
def test_odd_names_survive(tmp_path: Path, name: str) -> None:
    with LandmarkTable(tmp_path / "landmarks.csv") as table:
        table.add(name, FOUND)
    assert [row["image"] for row in rows_of(tmp_path / "landmarks.csv")] == [name, name]


def test_the_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "landmarks.csv"
    with LandmarkTable(path) as table:
        table.add("a.png", FOUND)
        assert not path.exists()
    assert path.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_keeps_the_old_table(tmp_path: Path) -> None:
    path = tmp_path / "landmarks.csv"
    path.write_text("old")

    def fail() -> None:
        with LandmarkTable(path) as table:
            table.add("a.png", FOUND)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
