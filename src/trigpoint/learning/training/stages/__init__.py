"""The stages of training: what each trains, what it needs before its first step, and its losses.

A stage is one file that defines STAGE. Stages are chained as runs, each an ordinary run folder; none keeps a
state of its own between steps, so any of them resumes exactly.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from trigpoint.core.config.tree import Config
from trigpoint.core.runs import Run
from trigpoint.core.sources.base import Source
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.model.autoencoder import Autoencoder

if TYPE_CHECKING:
    from torch import Generator

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Images (B, C, n, n) in [0, 1], and the rows of the prepared set that they are."""

    images: Tensor
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Context:
    """What a stage may look at before its first step."""

    run: Run
    source: Source
    images: Prepared
    config: Config


def forward(model: Autoencoder, images: Tensor) -> None:
    """Through all of the model."""
    detection, descriptors = model.encode(images)
    model.decode(detection.landmarks, descriptors)


@dataclass(frozen=True)
class Stage:
    """Members that a stage does not need have defaults; the loop asks none which stage it is."""

    name: str
    trains: Callable[[Autoencoder], nn.Module]  # the part of a model whose weights change
    loss: Callable[[Autoencoder, Batch, Any, Config, int, Generator], dict[str, Tensor]]  # unweighted terms
    weights: Callable[[Config, int], dict[str, float]]  # of those terms, at a step
    derive: Callable[[Config], Config]  # from the config of the model that it goes on from
    prepare: Callable[[Context], Any] = lambda context: None  # the targets that `loss` is given
    start: Callable[[Tensors, Autoencoder, Any], Tensors] = lambda tensors, model, targets: tensors
    forward: Callable[[Autoencoder, Tensor], Any] = forward  # what batch-norm statistics are taken from
    moves_landmarks: bool = False
    from_scratch: bool = False  # whether it can do without a model to go on from
    fewer_landmarks: bool = False  # whether that model may have more of them
    trained: str = ""  # for the report: what alone was trained


def named(name: str) -> Stage:
    """A stage by its name in `config.train.stage`."""
    return cast(Stage, importlib.import_module(f"{__name__}.{name}").STAGE)
