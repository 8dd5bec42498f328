"""MATLAB files: structs as dictionaries, and the masks of Human3.6M."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.apart import each
from trigpoint.core.readers.hdf5 import MOST, array, opened, own_values

FEW = 64  # numbers that an array of a struct may have to be kept
DEPTH = 16
BITS = 2**26  # bytes of masks in one answer


def read_structs(paths: Sequence[str], names: Sequence[str]) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Of each file the variable names[0], or its field names[1] and so on; or why there is none."""
    return [_struct(path, names) for path in each(paths)], {}


def _struct(path: str, names: Sequence[str]) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        found: Any = loadmat(path, struct_as_record=False, squeeze_me=True, variable_names=names[:1])
        found = found[names[0]]
        for name in names[1:]:
            found = getattr(found, name)
        return {"value": _plain(found)}
    except MemoryError:
        raise
    except Exception as error:  # whatever a damaged file makes the reader raise
        return {"reason": str(error).split("\n")[0] or type(error).__name__}


def _plain(value: Any, depth: int = 0) -> Any:
    """Structs as dictionaries, arrays of them as lists, numbers as lists of few; None for everything else."""
    if depth > DEPTH:
        raise ValueError("its structs are nested too deeply")
    fields = getattr(value, "_fieldnames", None)
    if fields is not None:
        return {name: _plain(getattr(value, name), depth + 1) for name in fields}
    if isinstance(value, str):
        return value
    values = np.asarray(value)
    if values.dtype.kind == "O":
        return [_plain(one, depth + 1) for one in values.ravel()]
    if values.dtype.kind in "biuf" and values.size <= FEW:
        return values.astype(np.float64).ravel().tolist()
    return None


def read_masks(path: str, first: int, most: int) -> tuple[Any, dict[str, NDArray[Any]]]:
    """How many masks there are, and the shapes of the next ones from `first` on, at most so many; their
    pixels are the bits of the arrays `0`, `1`, ..."""
    with open(path, "rb") as stream:
        is_hdf5 = stream.read(10) == b"MATLAB 7.3"
    count, plane = _cells_of_hdf5(path) if is_hdf5 else _cells(path)
    shapes: list[tuple[int, ...]] = []
    bits: dict[str, NDArray[Any]] = {}
    for number in range(first, min(first + most, count)):
        mask = _mask(plane(number))
        shapes.append(mask.shape)
        bits[str(len(bits))] = np.packbits(mask)
        if sum(packed.size for packed in bits.values()) > BITS:
            break
    return {"count": count, "shapes": shapes}, bits


def _mask(plane: Any) -> NDArray[np.bool_]:
    if not isinstance(plane, np.ndarray) or plane.dtype.kind not in "biuf" or plane.ndim not in (2, 3):
        raise ValueError("a mask is no picture")
    if plane.ndim == 3 and not plane.shape[2]:
        raise ValueError("a mask has no plane")
    return np.asarray((plane[:, :, 0] if plane.ndim == 3 else plane) > 0)


def _cells(path: str) -> tuple[int, Callable[[int], Any]]:
    from scipy.io import loadmat

    cells = np.asarray(loadmat(path, variable_names=["Masks"])["Masks"]).ravel()
    return len(cells), lambda number: cells[number]


def _cells_of_hdf5(path: str) -> tuple[int, Callable[[int], Any]]:
    """References to arrays, whose axes are in the opposite order."""
    import h5py

    file = opened(path)
    cells = own_values(file.get("Masks"), "Masks")
    if h5py.check_ref_dtype(cells.dtype) is not h5py.Reference or cells.size * 8 > MOST:
        raise ValueError("its Masks are no cells")
    references = np.asarray(cells[()]).ravel()

    def plane(number: int) -> NDArray[Any]:
        return array(own_values(file[references[number]], f"Masks {number}")).T

    return len(references), plane
