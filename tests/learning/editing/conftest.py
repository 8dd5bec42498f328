"""Editors of small untrained models."""

from __future__ import annotations

import pytest

from trigpoint.core.config.tree import Config
from trigpoint.core.inference.predictor import Predictor
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.model.autoencoder import Autoencoder


@pytest.fixture(scope="session")
def colour_editor(micro_colour: Config) -> Editor:
    """Images of 32 pixels, 4 landmarks, descriptors of 4 numbers."""
    return Editor(Predictor(TorchBackend(Autoencoder(micro_colour.model, seed=3)), micro_colour))


@pytest.fixture(scope="session")
def grey_editor(micro: Config) -> Editor:
    """Images of 28 pixels, 4 landmarks, no descriptors."""
    return Editor(Predictor(TorchBackend(Autoencoder(micro.model, seed=3)), micro))
