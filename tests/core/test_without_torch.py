"""All of `core` can be had without torch: an exported model runs on it alone."""

from __future__ import annotations

import subprocess
import sys

IMPORTING = """
import importlib, pkgutil, sys
sys.modules["torch"] = None
import trigpoint.core
names = [module.name for module in pkgutil.walk_packages(trigpoint.core.__path__, "trigpoint.core.")]
for name in names:
    importlib.import_module(name)
assert len(names) > 50, names
assert not [name for name in sys.modules if name.startswith(("trigpoint.learning", "trigpoint.app"))]
"""


def test_every_module_of_core_is_imported_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
