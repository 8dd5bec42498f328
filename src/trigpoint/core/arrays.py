"""Arrays in files of a run, in NumPy's formats: written whole or not at all, read with a wary eye.

A damaged header may claim any size. So what is wanted is said first, and no more is allocated.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import regular, write_atomically

Edge = int | range  # of an array: so long, or one of these lengths


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """A compressed .npz."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    write_atomically(path, stream.getvalue())


def save_array(path: Path, array: NDArray[Any]) -> None:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    write_atomically(path, stream.getvalue())


def load_packed(path: Path, name: str, dtype: DTypeLike, wanted: Sequence[Edge]) -> NDArray[Any]:
    """One array of a .npz; refused unless it is of that kind and shape."""
    try:
        with ZipFile(regular(path)) as archive, archive.open(f"{name}.npy") as stream:
            shape, order = header(stream, np.dtype(dtype), wanted)
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            data = stream.read(size)
            if len(data) < size or stream.read(1):  # at its end the archive's checksum is compared
                raise ValueError("it is not as long as it should be")
    except FileNotFoundError:
        raise TrigpointError(f"There is no file {path}.") from None
    except TrigpointError:
        raise
    except Exception as error:  # whatever a damaged archive makes the library raise
        raise TrigpointError(f"{path} is damaged: {reason(error)}.") from None
    return np.frombuffer(data, dtype).reshape(shape, order=order).copy()


def load_array(path: Path, dtype: DTypeLike, wanted: Sequence[Edge]) -> NDArray[Any]:
    """The array of a .npy, left on disk; refused unless it is of that kind and shape."""
    try:
        with regular(path).open("rb") as stream:
            shape, order = header(stream, np.dtype(dtype), wanted)
            place, size = stream.tell(), int(np.prod(shape)) * np.dtype(dtype).itemsize
        if path.stat().st_size != place + size:
            raise ValueError("it is not as long as it should be")
        return np.memmap(path, dtype, "r", place, shape, order)
    except FileNotFoundError:
        raise TrigpointError(f"There is no file {path}.") from None
    except TrigpointError:
        raise
    except Exception as error:  # whatever a damaged header makes the library raise
        raise TrigpointError(f"{path} is damaged: {reason(error)}.") from None


def header(stream: IO[bytes], dtype: np.dtype[Any], wanted: Sequence[Edge]) -> tuple[tuple[int, ...], Any]:
    """The shape and the order of an array, and the stream after its header."""
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("it is of another version of the format")
    shape, by_columns, kind = npy.read_array_header_1_0(stream)
    fits = len(shape) == len(wanted) and all(
        length in edge if isinstance(edge, range) else length == edge
        for length, edge in zip(shape, wanted, strict=True)
    )
    if kind != dtype or not fits:
        raise ValueError(f"it holds {kind} of shape {shape}")
    return shape, "F" if by_columns else "C"


def reason(error: Exception) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:200]
