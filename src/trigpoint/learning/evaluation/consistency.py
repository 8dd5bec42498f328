"""Do landmarks follow a known warp? Measured on images, without labels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.config.tree import WarpConfig
from trigpoint.learning import tensors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.warps.tps import RandomTPS

# The warp of the measure, whatever a model was trained with, so that figures compare. Translation, rotation
# and scaling are the paper's. Its local jitter folds parts of an image over, where no landmark can follow.
MEASURE = WarpConfig(grid_jitter=0.02)


@torch.no_grad()
def warp_errors(
    model: Autoencoder, images: Tensor, config: WarpConfig = MEASURE, seed: int = 0
) -> NDArray[np.float64]:
    """Distances |g(l') - l| in image edges, (n, K): each image under one random warp.

    The warps use grid control points only, so that they are the same whatever the model detects.
    """
    tps = RandomTPS(config, model.config)
    generator = torch.Generator().manual_seed(seed)
    errors = []
    for batch in images.split(64):
        landmarks = model.detect(batch).landmarks
        warp = tps.draw(landmarks, generator, landmark_share=0.0)
        warped = tensors.sample(batch, warp.pixels).contiguous(memory_format=torch.channels_last)
        back = warp.map(model.detector(warped).landmarks)
        errors.append((back - landmarks).norm(dim=-1).double().numpy())
    return np.concatenate(errors)
