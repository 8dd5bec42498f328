"""Names from outside are shown and written without harm, and nothing is written outside the folder named."""

from __future__ import annotations

import io
import os
import socket
import sys
from pathlib import Path

import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import below, cell, named, no_file, printable, regular, say, write_atomically


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
        with pytest.raises(TrigpointError, match="outside of"):
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


def test_lines_are_said_without_what_moves_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J", os.fsdecode(b"caf\xe9"), "Katze \u732b")
    say("b\nc", error=True)
    assert capfd.readouterr() == ("a\\x1b[2J\ncaf\\xe9\nKatze \u732b\n", "b\\x0ac\n")


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    say("\u00e9\u732b")
    assert stream.buffer.getvalue() == b"\\xe9\\u732b\n"


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device"])
def test_only_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.json"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listener.bind(str(path))
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
        assert no_file(path)
        with pytest.raises(TrigpointError, match=r"a\.json cannot be read"):
            regular(path)


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    assert no_file(Path("a\0b")) == "no file has such a name"


def test_files_and_what_is_not_there_are_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert no_file(tmp_path / "a") is None
    for name in "ab":
        assert regular(tmp_path / name) == tmp_path / name
