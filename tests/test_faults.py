"""A few faults of tools/faults.py: each verb is broken off, or finds the disk full, and is repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="the tool needs Linux's namespaces and /proc")
def test_what_is_broken_off_is_repeated_with_the_same_results(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools/faults.py", "--moments", "2", "--disk", "1"]
    done = subprocess.run(
        [*command, "--work", tmp_path / "work"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    cases = (tmp_path / "work/cases.jsonl").read_text().splitlines()
    assert len(cases) >= 12
