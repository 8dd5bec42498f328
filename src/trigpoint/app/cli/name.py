"""`trigpoint name`: give landmarks names by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class Name:
    """Give landmarks names; files written by `trigpoint detect` use them from then on.

    Example: trigpoint name runs/mouse 3=snout 5=tailbase
    """

    model: Positional[Path]
    """A run folder."""
    names: Positional[tuple[str, ...]] = ()
    """NUMBER=NAME, as many as you like; NUMBER= takes a name away. Without any, the names are listed."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Name, prog="trigpoint name", args=argv)
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.keypoints import LONGEST, check_names
    from trigpoint.core.runs import Run

    run = Run(args.model)
    count = run.config().model.landmarks
    names = run.names()
    for word in args.names:
        number, equals, name = word.partition("=")
        if not equals or not number.isdecimal():
            raise TrigpointError(f"Give NUMBER=NAME, such as 3=snout; got {word[:80]!r}.")
        if len(number) > LONGEST or int(number) >= count:
            raise TrigpointError(f"The landmarks of {args.model} are 0 to {count - 1}; got {number[:80]}.")
        names[int(number)] = name.strip() or number
    if args.names:
        check_names(names, "the landmarks")
        run.rename(names)
    for k, given in enumerate(names):
        say(f"{k:4}  {given if given != str(k) else ''}".rstrip())
    return 0
