"""What the tests of detection share."""

from __future__ import annotations

import pytest

from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run


@pytest.fixture(scope="session")
def predictor(colour_run: Run) -> Predictor:
    """Four landmarks on colour images. Do not change it."""
    return Predictor.load(colour_run.folder)
