"""Batch-norm statistics of the final model, from a random subset of the training set (app. G.3).

The running averages kept during training mix weights of different ages and originals with warped
images; the paper found that they hurt, and `tests/learning/nets/test_norms.py` shows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def recalibrated(model: nn.Module, part: nn.Module | None = None) -> Iterator[None]:
    """The statistics of `part`, all of the model unless told, become the plain average over the batches that
    are put through it within; the model ends in evaluation mode."""
    part = part or model
    norms = [module for module in part.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative average
    model.eval()
    part.train()
    with torch.no_grad():
        yield
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()
