"""Parsers that a damaged file can crash, or keep busy for ever, run in a process of their own: HDF5, CDF,
MATLAB and SQLite files of a user are read there, within limits of time and memory.

The function is named, not sent; its arguments and answer are JSON and arrays of numbers, never a pickle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SECONDS = 10  # of computing, where the system can limit it
WAITING = 4  # times as long in all: a busy machine computes slowly
MEMORY = 1400 * 2**20  # bytes of addresses, libraries included; where the system can limit them
ANSWER = 2**29  # bytes of a file that the process may write
SAID = 2**25  # bytes of the JSON in it: as objects it takes ten times as much, in our own process
ANSWER_FILE, READING_FILE = "answer.npz", "reading.txt"
TOO_MUCH = b'{"failed": "it holds more than is read"}'
TEXT = "json"  # the array that holds the answer's text
TOO_LONG = -getattr(signal, "SIGXCPU", 1000)  # how a process ends that has computed for too long

Answer = tuple[Any, Mapping[str, NDArray[Any]]]


class ReaderFailed(Exception):
    """What became of the process, to be put into a sentence that names the file; and which it was of many."""

    def __init__(self, reason: str, reading: str = "") -> None:
        super().__init__(reason)
        self.reading = reading


def each(paths: Sequence[str]) -> Iterator[str]:
    """In the process: one file after the other, and a note of it for ReaderFailed."""
    for path in paths:
        Path(READING_FILE).write_text(path, "utf-8", "surrogateescape")
        yield path


def call(function: str, *arguments: Any, seconds: int = SECONDS) -> Answer:
    """`module:function`, called in a process of its own: it returns something that JSON can say, and arrays.

    Raises ReaderFailed with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="trigpoint-") as folder:
        command = [sys.executable, "-P", "-m", "trigpoint.core.apart", function, str(seconds)]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(arguments).encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(folder),
                timeout=seconds * WAITING,
                check=False,
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = TOO_LONG
        except OSError as error:
            raise ReaderFailed(f"no process could be started to read it: {error.strerror}") from None
        try:
            return _answer(Path(folder) / ANSWER_FILE, code, seconds)
        except ReaderFailed as failure:
            reading = Path(folder) / READING_FILE
            if reading.exists():
                failure.reading = reading.read_text("utf-8", "surrogateescape")
            raise


def _environment(folder: str) -> dict[str, str]:
    """The parent's, but for where this package is, one thread, and no plugins of HDF5."""
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths)), "HDF5_PLUGIN_PRELOAD": "::"}
    own |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
    return {**os.environ, **own}


def _answer(path: Path, code: int, seconds: int) -> Answer:
    if code == TOO_LONG:
        raise ReaderFailed(f"it was not read within {seconds} seconds")
    try:
        with np.load(path, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        said = json.loads(arrays.pop(TEXT).tobytes())
    except (OSError, ValueError, KeyError, EOFError):  # it ended before it had written all of it
        how = f"signal {-code}" if code < 0 else f"code {code}"
        raise ReaderFailed(f"the reader crashed on it, {how}") from None
    if "failed" in said:
        raise ReaderFailed(said["failed"])
    return said["found"], arrays


def main(function: str, seconds: str) -> None:
    """In the process."""
    _limit(int(seconds))
    said: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]] = {}
    try:
        import importlib

        module, _, name = function.partition(":")
        found, arrays = getattr(importlib.import_module(module), name)(*json.load(sys.stdin))
        said = {"found": found}
    except MemoryError:
        said = {"failed": "it takes more memory than a reader is given"}
    except RecursionError:
        said = {"failed": "it is nested too deeply"}
    except Exception as error:  # whatever a damaged file makes the library raise
        said = {"failed": (str(error).split("\n")[0] or type(error).__name__)[:300]}
    if any(array.dtype.hasobject for array in arrays.values()):  # which would be sent as pickles
        raise TypeError("only numbers and text of a fixed length are sent")
    text = np.frombuffer(json.dumps(said).encode(), np.uint8)
    if len(text) > SAID:
        arrays, text = {}, np.frombuffer(TOO_MUCH, np.uint8)
    np.savez(ANSWER_FILE, **{TEXT: text, **arrays})  # type: ignore[arg-type]


def _limit(seconds: int) -> None:
    """Where the system has such limits. The time is limited here too: the parent may be gone."""
    with suppress(ImportError):
        import resource

        limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: ANSWER, resource.RLIMIT_CORE: 0}
        if sys.platform != "darwin":  # which takes the limit and lets programs exceed it, or refuses it
            limits[resource.RLIMIT_AS] = MEMORY
        for kind, most in limits.items():
            with suppress(ValueError, OSError):
                hard = resource.getrlimit(kind)[1]
                unlimited = hard == resource.RLIM_INFINITY
                # One more: who computes for too long first gets a signal that says so, and is killed later.
                resource.setrlimit(kind, (most, most + 1) if unlimited else (min(most, hard), hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
