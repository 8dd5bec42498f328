"""Parsers that a damaged file can crash, or keep busy for ever, run in a process of their own: HDF5, CDF,
MATLAB and SQLite files of a user are read there, within limits of time and memory.

The function is named, not sent; its arguments and answer are JSON and arrays of numbers, never a pickle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SECONDS = 20.0
MEMORY = 2 * 2**30  # bytes of addresses, libraries included; where the system can limit them
ANSWER = 2**29  # bytes of a file that the process may write
ANSWER_FILE = "answer.npz"
TEXT = "json"  # the array that holds the answer's text

Answer = tuple[Any, Mapping[str, NDArray[Any]]]


class ReaderFailed(Exception):
    """What became of the process; to be put into a sentence that names the file."""


def call(function: str, *arguments: Any, seconds: float = SECONDS) -> Answer:
    """`module:function`, called in a process of its own: it returns something that JSON can say, and arrays.

    Raises ReaderFailed with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="cairns-") as folder:
        command = [sys.executable, "-P", "-m", "cairns.apart", function, str(seconds)]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(arguments).encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(folder),
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ReaderFailed(f"it was not read within {seconds:.0f} seconds") from None
        except OSError as error:
            raise ReaderFailed(f"no process could be started to read it: {error.strerror}") from None
        return _answer(Path(folder) / ANSWER_FILE, done.returncode)


def _environment(folder: str) -> dict[str, str]:
    """The parent's, but for where this package is, one thread, and no plugins of HDF5."""
    home = str(Path(__file__).resolve().parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths)), "HDF5_PLUGIN_PRELOAD": "::"}
    own |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
    return {**os.environ, **own}


def _answer(path: Path, code: int) -> Answer:
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
    _limit(float(seconds))
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
    np.savez(ANSWER_FILE, **{TEXT: text, **arrays})  # type: ignore[arg-type]


def _limit(seconds: float) -> None:
    """Where the system has such limits. The time is limited here too: the parent may be gone."""
    with suppress(ImportError):
        import resource

        limits = {
            resource.RLIMIT_CPU: int(seconds) + 1,
            resource.RLIMIT_FSIZE: ANSWER,
            resource.RLIMIT_CORE: 0,
        }
        if sys.platform != "darwin":  # which takes the limit and lets programs exceed it, or refuses it
            limits[resource.RLIMIT_AS] = MEMORY
        for kind, most in limits.items():
            with suppress(ValueError, OSError):
                hard = resource.getrlimit(kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main(*sys.argv[1:])
