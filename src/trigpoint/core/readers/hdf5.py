"""What is read of a user's HDF5 file: its own groups and datasets, of a bounded size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2**28  # bytes of one array


def opened(path: str) -> Any:
    """The file; the process ends with its reading."""
    import h5py

    return h5py.File(path, "r")


def group(parent: Any, name: str) -> Any:
    import h5py

    return _own(parent, name, h5py.Group, "group")


def dataset(parent: Any, name: str) -> Any:
    import h5py

    return own_values(_own(parent, name, h5py.Dataset, "dataset"), name)


def own_values(found: Any, name: str) -> Any:
    """A dataset whose values lie in this file: HDF5 can name other files to read them from."""
    import h5py

    if not isinstance(found, h5py.Dataset):
        raise ValueError(f"it has no dataset {name}")
    if found.is_virtual or found.external:
        raise ValueError(f"its dataset {name} lies in another file")
    return found


def _own(parent: Any, name: str, kind: type, word: str) -> Any:
    import h5py

    link = parent.get(name, getlink=True)
    if link is not None and not isinstance(link, h5py.HardLink):
        raise ValueError(f"its {word} {name} is a link")
    found = parent.get(name)
    if not isinstance(found, kind):
        raise ValueError(f"it has no {word} {name}")
    return found


def array(node: Any, rows: slice = slice(None)) -> NDArray[Any]:
    """The values of a dataset, or of some rows of it, whose size is checked before they are read."""
    if node.shape is None or node.dtype.hasobject:
        raise ValueError(f"its dataset {node.name} holds something else than numbers or text")
    count = len(range(*rows.indices(node.shape[0]))) if node.shape else 1
    size = count * int(np.prod(node.shape[1:], dtype=object)) * node.dtype.itemsize
    if size > MOST:
        raise ValueError(f"its dataset {node.name} has {size:,} bytes; the limit is {MOST:,}")
    return np.asarray(node[rows] if node.shape else node[()])


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
