"""A variable of files of NASA's Common Data Format, as Human3.6M keeps its poses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.apart import each


def read_variable(paths: Sequence[str], name: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Of each file the variable, as the arrays `0`, `1`, ...; or, at the first without, the reason."""
    import cdflib

    arrays = {}
    for number, path in enumerate(each(paths)):
        arrays[str(number)] = np.asarray(cdflib.CDF(path).varget(name), np.float64)
    return None, arrays
