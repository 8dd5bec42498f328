"""The short run of tools/fuzz.py: damaged and hostile files for every parser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[1] / "tools" / "fuzz.py"
# What is not mended yet.
LEFT_OUT = {"report", "resume", "generator-resume", "run-config"}


def test_no_parser_fails_on_a_few_hundred_inputs(tmp_path: Path) -> None:
    listed = [sys.executable, str(FUZZ), "--list"]
    known = set(subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout.split())
    assert known >= LEFT_OUT
    words = ["--inputs", "400", "--keep", str(tmp_path / "failed"), "--targets", *sorted(known - LEFT_OUT)]
    done = subprocess.run(
        [sys.executable, str(FUZZ), *words], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
