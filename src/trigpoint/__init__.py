"""trigpoint: discover an object's landmarks from unlabelled images.

import trigpoint
trigpoint.train("photos/", out="runs/photos", landmarks=10)
found = trigpoint.load("runs/photos").detect("photos/1.jpg")
print(found.points, found.confidence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trigpoint.core.version import __version__ as __version__

if TYPE_CHECKING:
    from trigpoint.api import load, train
    from trigpoint.core.config.tree import Config
    from trigpoint.core.errors import TrigpointError, TrigpointWarning
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.core.landmarks import Landmarks
    from trigpoint.learning.editing.editor import Code, Editor

__all__ = [
    "TrigpointError",
    "TrigpointWarning",
    "Code",
    "Config",
    "Editor",
    "Landmarks",
    "Predictor",
    "load",
    "train",
]

_HOMES = {
    "load": "trigpoint.api",
    "train": "trigpoint.api",
    "Config": "trigpoint.core.config.tree",
    "Code": "trigpoint.learning.editing.editor",
    "Editor": "trigpoint.learning.editing.editor",
    "TrigpointError": "trigpoint.core.errors",
    "TrigpointWarning": "trigpoint.core.errors",
    "Landmarks": "trigpoint.core.landmarks",
    "Predictor": "trigpoint.core.inference.predictor",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import trigpoint` and `trigpoint --help` stay fast."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'trigpoint' has no attribute {name!r}")
