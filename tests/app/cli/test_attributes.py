"""`trigpoint attributes` from the words to the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trigpoint.app.cli import main
from trigpoint.core.runs import Run
from trigpoint.core.sources import open_source

SOURCE = "figures:60"


def test_features_of_one_s_own_beside_landmarks(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table brought along holds the answers, so the SVM on it is right and landmarks do no harm."""
    files = []
    for split in ("labels", "test"):
        known = open_source(SOURCE, split).attributes  # type: ignore[arg-type]
        assert known is not None
        files.append(tmp_path / f"{split}.npy")
        np.save(files[-1], known.values.astype(np.float32))
    words = ["attributes", str(tiny_run.folder), SOURCE, "--embedding", *map(str, files),
             "--json", str(tmp_path / "table.json")]  # fmt: skip
    assert main(words) == 0
    table = json.loads((tmp_path / "table.json").read_text())
    assert table["features"] == {"landmarks": 10, "embedding": 5, "both": 15}
    assert (table["train_images"], table["test_images"]) == (60, 60)
    for row in table["rows"]:
        assert row["embedding"] == 100
        assert row["both"] > row["majority"]
    printed = capsys.readouterr().out
    for row in table["rows"]:
        assert row["attribute"] in printed
    assert "K = 5, fitted on 60 images, measured on 60 of figures:60 (test split)" in printed


def test_landmarks_alone_need_no_embedding(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attributes", str(tiny_run.folder), SOURCE, "--features", "landmarks"]) == 0
    printed = capsys.readouterr().out
    assert "landmarks" in printed
    assert "embedding" not in printed


def test_fewer_labels_are_spread_over_the_source(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["attributes", str(tiny_run.folder), SOURCE, "--features", "landmarks", "--labels"]
    assert main([*words, "40", "--json", str(tmp_path / "table.json")]) == 0
    table = json.loads((tmp_path / "table.json").read_text())
    assert (table["train_images"], table["test_images"]) == (40, 60)
    assert main([*words, "0"]) == 2
    assert "--labels must be at least 1" in capsys.readouterr().err


def test_a_source_without_attributes_gets_a_sentence(
    tiny_run: Run, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attributes", str(tiny_run.folder), str(photos), "--features", "landmarks"]) == 2
    assert "has no annotated attributes" in capsys.readouterr().err


def test_a_table_of_the_wrong_length_gets_a_sentence(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "short.npy", np.zeros((3, 2)))
    words = ["attributes", str(tiny_run.folder), SOURCE, "--embedding", *[str(tmp_path / "short.npy")] * 2]
    assert main(words) == 2
    assert "(60, width), one row per image" in capsys.readouterr().err
