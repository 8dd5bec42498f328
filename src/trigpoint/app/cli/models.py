"""`trigpoint models`: shipped models with their measured error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from trigpoint.core.io import say


@dataclass(frozen=True)
class Models:
    """List the shipped models with what they were trained on and their measured error.

    Example: trigpoint models
    """

    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print JSON instead of a table."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Models, prog="trigpoint models", args=argv)
    from trigpoint.core.checked import read_json
    from trigpoint.core.inference.predictor import ZOO, shipped_models
    from trigpoint.core.written import Shipped

    rows = [
        {"name": name, **read_json(ZOO / name / "config.json", Shipped)["card"]} for name in shipped_models()
    ]
    if args.as_json:
        say(*json.dumps(rows, indent=2).split("\n"))
        return 0
    if not rows:
        say("No models are shipped with this version.")
    for row in rows:
        say(f"{row['name']:12}{row['error']}", f"{'':12}{row['data']}; {row['terms']}")
    return 0
