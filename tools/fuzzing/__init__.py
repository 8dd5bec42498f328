"""The parts of tools/fuzz.py: mutations, the targets, and the process that tries one input."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # what is tried is the code beside it
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # a process that has threads cannot be forked
