"""Names from outside are shown and written without harm, and nothing is written outside the folder named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cairns.errors import CairnsError
from cairns.io import below, cell, named, printable, write_atomically


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("photo 1.jpg", "photo 1.jpg"),
        ("Katze-\u732b-\u00e9\u0301.jpg", "Katze-\u732b-\u00e9\u0301.jpg"),
        ("\U0001f469\u200d\U0001f52c.png", "\U0001f469\u200d\U0001f52c.png"),
        ("a\x1b[2Jb.jpg", r"a\x1b[2Jb.jpg"),
        ("a\nb\r.jpg", r"a\x0ab\x0d.jpg"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("a\u2028b", r"a\u2028b"),
        (os.fsdecode(b"caf\xe9.jpg"), r"caf\xe9.jpg"),
    ],
)
def test_a_name_is_shown_without_what_moves_a_terminal(name: str, shown: str) -> None:
    assert printable(name) == shown
    printable(name).encode()  # which surrogates would refuse


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1.jpg", "@SUM(A1)"])
def test_a_cell_is_no_formula_and_gives_its_name_back(name: str) -> None:
    assert cell(name)[0] == "'"
    assert named(cell(name)) == name


@pytest.mark.parametrize("name", ["plain.jpg", "'quoted'.jpg", "a=b.jpg"])
def test_other_names_are_cells_as_they_are(name: str) -> None:
    assert cell(name) == name == named(name)


def test_a_path_stays_below_its_folder(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "link").symlink_to(elsewhere)
    assert below(out, "a/b.png") == out / "a" / "b.png"
    assert below(out, "a/../b.png").resolve() == out / "b.png"
    for name in ("../b.png", str(elsewhere / "b.png"), "a/../../b.png", "link/b.png", ".", "a/.."):
        with pytest.raises(CairnsError, match="outside of"):
            below(out, name)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        write_atomically(file, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert file.read_bytes() == b"old"
