"""What the golden cases call of the package: the one place that knows its name and where things are."""

from __future__ import annotations

from pathlib import Path

import trigpoint as package
from trigpoint import Editor, Predictor
from trigpoint.app.cli import VERBS, main
from trigpoint.core.config.generator import PRESETS as GENERATOR_PRESETS
from trigpoint.core.config.presets import PAPER_PRESETS, preset
from trigpoint.core.geometry import Placement

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
