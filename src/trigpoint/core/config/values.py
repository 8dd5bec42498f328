"""Configs as plain values: read from JSON, changed by the path of a value, checked against their bounds.

A config is a frozen dataclass of plain values and other such dataclasses. What a number may be stands beside
its field, `rate: Annotated[float, Range(above=0)]`, and holds for every way in which the value came.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from trigpoint.core.errors import TrigpointError

T = TypeVar("T")
SHOWN = 80  # characters of a wrong value in a sentence


@dataclass(frozen=True)
class Range:
    """What a number may be, its bounds included; `above` is a bound that is not. Of a tuple: each number."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf

    def check(self, value: float, where: str) -> None:
        if self.least <= value <= self.most and value > self.above:
            return
        if math.isfinite(self.least) and math.isfinite(self.most):
            wanted = f"between {self.least} and {self.most}"
        else:
            bounds = (("at least", self.least), ("above", self.above), ("at most", self.most))
            wanted = " and ".join(f"{word} {bound}" for word, bound in bounds if math.isfinite(bound))
        raise TrigpointError(f"{where} must be {wanted}; got {_shown(value)}.")


def build(kind: type[T], tree: Any, where: str = "") -> T:
    """A config from plain values; unknown names, wrong kinds and impossible numbers are refused."""
    return typing.cast(T, _build(kind, tree, where))


def checked(config: T, where: str = "") -> T:
    """A config made in Python, refused like one that was read."""
    return build(type(config), dataclasses.asdict(typing.cast(Any, config)), where)


def as_tree(config: Any) -> dict[str, Any]:
    """A config as JSON has it."""
    return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(config))))


def with_values(config: T, assignments: Sequence[str], where: str = "") -> T:
    """Change single values by their path, as `--set losses.sep=0 train.seed=3` does."""
    tree = as_tree(config)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise TrigpointError(f"--set takes name=value, such as seed=3; got {_shown(assignment)}.")
        *parents, leaf = path.split(".")
        node: Any = tree
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        if not isinstance(node, dict) or leaf not in node or isinstance(node[leaf], dict):
            known = node if isinstance(node, dict) else tree
            raise TrigpointError(f"--set: there is no value {_shown(path)}; there are {', '.join(known)}.")
        try:
            node[leaf] = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or a number of thousands of digits
            node[leaf] = text
    return build(type(config), tree, where)


def assignments(before: Any, after: Any) -> list[str]:
    """What `with_values` takes to make one config of another of its kind."""
    return _differences(as_tree(before), as_tree(after))


def _differences(before: dict[str, Any], after: dict[str, Any], parents: str = "") -> list[str]:
    found = []
    for name, value in after.items():
        path = f"{parents}{name}"
        if isinstance(value, dict):
            found += _differences(before[name], value, f"{path}.")
        elif value != before[name]:
            found.append(f"{path}={value if isinstance(value, str) else json.dumps(value)}")
    return found


@cache
def _fields(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _build(kind: Any, value: Any, where: str, bounds: Sequence[Range] = ()) -> Any:
    if typing.get_origin(kind) is typing.Annotated:
        kind, *bounds = typing.get_args(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TrigpointError(f"{where or 'A config'} must be an object; got {_shown(value)}.")
        fields = _fields(typing.cast(Hashable, kind))
        if unknown := sorted(set(value) - set(fields)):
            raise TrigpointError(f"{where or 'The config'} has an unknown name {_shown(unknown[0])}.")
        parts = {
            name: _build(fields[name], part, f"{where}.{name}".strip(".")) for name, part in value.items()
        }
        return typing.cast(Any, kind)(**parts)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TrigpointError(f"{where} must be a list; got {_shown(value)}.")
        if inner[-1] is not ... and len(value) != len(inner):
            raise TrigpointError(f"{where} must have {len(inner)} values; got {_shown(value)}.")
        return tuple(_build(inner[0], part, where, bounds) for part in value)
    if origin is Literal:
        if value not in inner or type(value) not in map(type, inner):
            raise TrigpointError(f"{where} must be one of {', '.join(map(str, inner))}; got {_shown(value)}.")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise TrigpointError(f"{where} is too large a number.") from None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TrigpointError(f"{where} must be of type {kind.__name__}; got {_shown(value)}.")
    if kind is float and not math.isfinite(value):
        raise TrigpointError(f"{where} must be a finite number; got {_shown(value)}.")
    for bound in bounds:
        bound.check(value, where)
    return value


def _shown(value: Any) -> str:
    """What was found, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
