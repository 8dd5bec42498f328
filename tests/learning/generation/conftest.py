"""What the tests of generation share: the threes of the digits, and the small generator in use."""

from __future__ import annotations

import pytest

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.generation.sampler import Sampler


@pytest.fixture(scope="session")
def threes() -> Digits:
    return Digits("3")


@pytest.fixture(scope="session")
def settings(generator_run: GeneratorRun) -> GeneratorConfig:
    """Small networks for the images of digits-7, a few steps."""
    return generator_run.settings()


@pytest.fixture(scope="session")
def sampler(generator_run: GeneratorRun) -> Sampler:
    return Sampler.load(generator_run.folder)


@pytest.fixture
def predictor() -> Predictor:
    """digits-7, to do with as one likes."""
    return Predictor.load("digits-7")
