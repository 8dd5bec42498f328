"""Readers in a process of their own: what they return; what becomes of one that fails, hangs or crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trigpoint.core import apart
from trigpoint.core.apart import ReaderFailed

READERS = """
import ctypes, os, sys, time
import numpy as np

def doubled(values, name):
    return {"name": name, "none": None}, {"values": 2 * np.array(values), "text": np.array([b"a", b"bc"])}

def where(): return [os.getcwd(), sys.path[0], os.environ["HDF5_PLUGIN_PRELOAD"]], {}
def fails(): raise ValueError("no table\\nmore of it")
def fails_silently(): raise KeyError
def leaves(): sys.exit(0)
def crashes(): ctypes.string_at(0)
def hangs():
    while True: pass
def sleeps(): time.sleep(600)
def grows(): return len(bytearray(3 * 2**30)), {}
def nests():
    def deeper(): return deeper()
    return deeper(), {}
def objects(): return None, {"values": np.array([{}], object)}
def last(names):
    from trigpoint.core import apart
    for name in apart.each(names):
        if name == "c":
            ctypes.string_at(0)
    return None, {}
def rambles(): return 2**25 * "x", {}
def talks():
    print("x" * 2**20)
    print("x" * 2**20, file=sys.stderr)
    return 1, {}
"""


@pytest.fixture(autouse=True)
def _readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `some_readers` where the process finds it."""
    (tmp_path / "some_readers.py").write_text(READERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_text_and_arrays_come_back() -> None:
    found, arrays = apart.call("some_readers:doubled", [1, 2.5], "snöut")
    assert found == {"name": "snöut", "none": None}
    assert arrays["values"].tolist() == [2, 5]
    assert arrays["text"].tolist() == [b"a", b"bc"]
    assert apart.call("some_readers:talks")[0] == 1


def test_it_works_in_a_folder_of_its_own_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module beside the user's files is none of ours."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "readers").mkdir()
    (tmp_path / "some_readers.py").rename(tmp_path / "readers" / "some_readers.py")
    monkeypatch.setenv("PYTHONPATH", "readers")
    (folder, first, plugins), _ = apart.call("some_readers:where")
    assert not Path(folder).exists()
    assert Path(first) == Path(apart.__file__).parents[2]
    assert plugins == "::"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fails", "^no table$"),
        ("fails_silently", "^KeyError$"),
        ("leaves", "^the reader crashed on it, code 0$"),
        ("nests", "^it is nested too deeply$"),
        ("objects", "^the reader crashed on it, code 1$"),
        ("is_missing", "has no attribute 'is_missing'"),
    ],
)
def test_a_reader_that_fails_says_why(name: str, reason: str) -> None:
    with pytest.raises(ReaderFailed, match=reason):
        apart.call(f"some_readers:{name}")


@pytest.mark.skipif(os.name == "nt", reason="signals are of POSIX")
def test_a_reader_that_crashes_does_not_crash_us() -> None:
    with pytest.raises(ReaderFailed, match=r"^the reader crashed on it, signal 11$"):
        apart.call("some_readers:crashes")


def test_of_many_files_the_one_is_named_that_failed() -> None:
    assert apart.call("some_readers:last", ["a", "b"])[0] is None
    with pytest.raises(ReaderFailed) as caught:
        apart.call("some_readers:last", ["a", "b", "c", "d"])
    assert caught.value.reading == "c"


@pytest.mark.parametrize("name", ["hangs", "sleeps"])
def test_a_reader_that_never_ends_is_ended(name: str) -> None:
    with pytest.raises(ReaderFailed, match=r"^it was not read within 1 seconds$"):
        apart.call(f"some_readers:{name}", seconds=1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process's memory")
def test_a_reader_that_grows_is_stopped() -> None:
    with pytest.raises(ReaderFailed, match=r"^it takes more memory than a reader is given$"):
        apart.call("some_readers:grows")


def test_an_answer_that_would_fill_our_memory_is_refused() -> None:
    with pytest.raises(ReaderFailed, match=r"^it holds more than is read$"):
        apart.call("some_readers:rambles")


def test_readers_start_without_torch() -> None:
    """Starting a process for each file is worth it only while that is quick."""
    core = Path(apart.__file__).parent
    modules = [file.stem for file in (core / "readers").glob("[a-z]*.py")]
    assert {"frame", "hdf5"} <= set(modules)
    names = "".join(f", trigpoint.core.readers.{module}" for module in modules)
    found = "[name for name in ('torch', 'pandas', 'cv2') if name in sys.modules]"
    code = f"import sys, trigpoint.core.apart{names}; print({found})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(core.parents[1])},
    )
    assert done.stdout.strip() == "[]"
