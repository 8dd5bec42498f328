"""JSON of a file that may be damaged: refused unless it is of the kind that was written.

A kind is a plain one (`int`, a count; `float`, finite; `str`), `list[kind]`, `dict[str, kind]`, `kind | None`
or a TypedDict, of which further names are left alone: another version may have written them.
"""

from __future__ import annotations

import json
import math
import types
import typing
from pathlib import Path
from typing import Any

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import regular

LARGEST = 2**53  # of a count
FARTHEST = 1e100  # from zero, of a number that is to be computed with


class Mismatch(ValueError):
    """What is not of its kind, as a clause."""


def read_json(path: Path, kind: Any) -> Any:
    """The content of a file; a TrigpointError names the file and what in it is wrong."""
    try:
        return parse(regular(path).read_bytes(), kind)
    except FileNotFoundError:
        raise TrigpointError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise TrigpointError(f"{path} is damaged: {error}.") from None


def parse(text: str | bytes, kind: Any) -> Any:
    """Raises ValueError."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check(value, kind)
    return value


def check(value: Any, kind: Any, where: str = "it") -> None:
    """Raises Mismatch."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if value is not None:
            check(value, inner[0], where)
    elif typing.is_typeddict(kind):
        expect(isinstance(value, dict), value, where, "an object")
        for name, part in typing.get_type_hints(kind).items():
            if name in value:
                check(value[name], part, within(where, name))
            elif name in kind.__required_keys__:
                raise Mismatch(f"{where} has no {name}")
    elif origin is dict:
        expect(isinstance(value, dict), value, where, "an object")
        for name, part in value.items():
            check(part, inner[1], within(where, name))
    elif origin is list:
        expect(isinstance(value, list), value, where, "a list")
        for number, part in enumerate(value):
            check(part, inner[0], f"{where}[{number}]")
    elif kind is float:
        number_ = type(value) in (int, float) and -FARTHEST < value < FARTHEST and math.isfinite(value)
        expect(number_, value, where, "a number")
    elif kind is int:
        expect(type(value) is int and 0 <= value <= LARGEST, value, where, "a count")
    else:
        expect(type(value) is kind, value, where, {str: "text", dict: "an object"}[kind])


def expect(whole: bool, value: Any, where: str, what: str) -> None:
    if not whole:
        raise Mismatch(f"{where} must be {what}; got {shown(value)}")


def within(where: str, name: str) -> str:
    return name if where == "it" else f"{where}.{name}"


def shown(value: Any) -> str:
    """A value in a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
