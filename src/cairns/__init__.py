"""cairns: discover an object's landmarks from unlabelled images.

import cairns
cairns.train("photos/", out="runs/photos", landmarks=10)
found = cairns.load("runs/photos").detect("photos/1.jpg")
print(found.points, found.confidence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cairns.api import load, train
    from cairns.config import Config
    from cairns.editing.editor import Code, Editor
    from cairns.errors import CairnsError, CairnsWarning
    from cairns.predictor import Landmarks, Predictor

__version__ = "0.1.0"
__all__ = [
    "CairnsError",
    "CairnsWarning",
    "Code",
    "Config",
    "Editor",
    "Landmarks",
    "Predictor",
    "load",
    "train",
]

_HOMES = {
    "load": "cairns.api",
    "train": "cairns.api",
    "Config": "cairns.config",
    "Code": "cairns.editing.editor",
    "Editor": "cairns.editing.editor",
    "CairnsError": "cairns.errors",
    "CairnsWarning": "cairns.errors",
    "Landmarks": "cairns.predictor",
    "Predictor": "cairns.predictor",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import cairns` and `cairns --help` stay fast."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cairns' has no attribute {name!r}")
