"""The short run of tools/fuzz.py: damaged and hostile files for every parser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[1] / "tools" / "fuzz.py"


def test_no_parser_fails_on_a_few_hundred_inputs(tmp_path: Path) -> None:
    words = [sys.executable, str(FUZZ), "--inputs", "400", "--keep", str(tmp_path / "failed")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
