"""What the golden cases call of the package: the one place that knows its name and where things are."""

from __future__ import annotations

from pathlib import Path

import cairns as package
from cairns import Editor, Predictor
from cairns.cli import VERBS, main
from cairns.generation.config import PRESETS as GENERATOR_PRESETS
from cairns.geometry import Placement
from cairns.presets import PAPER_PRESETS, preset

PACKAGE = package.__name__
SOURCE = Path(package.__file__).parents[1]

__all__ = [
    "GENERATOR_PRESETS",
    "PACKAGE",
    "PAPER_PRESETS",
    "SOURCE",
    "VERBS",
    "Editor",
    "Placement",
    "Predictor",
    "main",
    "package",
    "preset",
]
