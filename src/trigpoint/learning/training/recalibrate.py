"""Batch-norm statistics of the final model, from a random subset of the training set (app. F.3).

The running averages kept during training mix weights of different ages and originals with warped
images; the paper found that they hurt, and `tests/training/test_recalibrate.py` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trigpoint.learning.model.autoencoder import Autoencoder


def recalibrate(model: Autoencoder, batches: Iterable[Tensor], part: nn.Module | None = None) -> None:
    """Replace all batch-norm statistics by averages over the batches; the model ends in eval mode.

    With `part` only the statistics of that part of the model.
    """
    part = part or model
    norms = [module for module in part.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative average
    model.eval()
    part.train()
    with torch.no_grad():
        for images in batches:
            if part is model.detector:  # which needs no other
                model.detect(images)
                continue
            detection, descriptors = model.encode(images)
            model.decode(detection.landmarks, descriptors)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()
