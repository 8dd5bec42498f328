"""A trained model, computed by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.errors import TrigpointError
from trigpoint.core.runs import Run
from trigpoint.learning.checkpoint import digest, load_tensors, load_weights
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection
from trigpoint.learning.model.views import look
from trigpoint.learning.nets.hourglass import folded
from trigpoint.learning.tensors import to_bytes, to_tensor

BATCH = 64  # images computed at once


def load(run: Run, views: int | None = None) -> TorchBackend:
    if not run.model_file.is_file():
        raise TrigpointError(
            f"The run {run.folder} is not finished: it has no model.safetensors; go on with --resume."
        )
    config, shape = run.config(), run.shape()
    model = Autoencoder(config.model)
    load_weights(model, load_tensors(run.model_file)[0], run.model_file)
    if views is not None and views > 1 and shape is None:
        raise TrigpointError(f"{run.folder} does not know its mean shape, so it cannot take several views.")
    return TorchBackend(model, shape, config.views if views is None else views)


class TorchBackend:
    """A model in evaluation mode. It detects by a copy whose batch norms are folded into its convolutions."""

    def __init__(
        self, model: Autoencoder, shape: Sequence[Sequence[float]] | None = None, views: int = 1
    ) -> None:
        self.model = model.eval()
        self.detector = folded(model.detector)
        self.shape = None if shape is None else torch.tensor(shape)  # (K, 2) mean landmarks in training
        self.views = views if shape is not None else 1

    @cached_property
    def digest(self) -> str:
        return digest(self.model.state_dict())

    @property
    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}

    @torch.inference_mode()
    def detect(self, squares: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found = [look(self.model, part, self.shape, self.views, self.detector) for part in batches(squares)]
        points, confidence = (torch.cat(parts).double().numpy() for parts in zip(*found, strict=True))
        return points, confidence

    def detect_once(self, squares: NDArray[np.uint8]) -> NDArray[np.float64]:
        return self._once(squares, lambda found: found.landmarks.double())

    def maps(self, squares: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self._once(squares, lambda found: found.maps)

    @torch.inference_mode()
    def _once(self, squares: NDArray[np.uint8], wanted: Callable[[Detection], Tensor]) -> NDArray[Any]:
        parts = [wanted(self.detector(self.model.pad(part))) for part in batches(squares)]
        return np.asarray(torch.cat(parts).numpy())

    @torch.inference_mode()
    def encode(self, squares: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float32] | None]:
        points, descriptors = [], []
        for part in batches(squares):
            padded = self.model.pad(part)
            detection = self.detector(padded)
            points.append(detection.landmarks.double())
            described = self.model.describe(padded, detection)
            descriptors += [] if described is None else [described]
        return torch.cat(points).numpy(), torch.cat(descriptors).numpy() if descriptors else None

    @torch.inference_mode()
    def decode(
        self, points: NDArray[np.float64], descriptors: NDArray[np.float32] | None
    ) -> NDArray[np.uint8]:
        parts = []
        for first in range(0, len(points), BATCH):
            some = slice(first, first + BATCH)
            described = None if descriptors is None else torch.from_numpy(np.array(descriptors[some]))
            decoded = self.model.decode(torch.from_numpy(np.array(points[some])).float(), described)
            parts.append(to_bytes(decoded))
        return np.concatenate(parts)


def batches(squares: NDArray[np.uint8]) -> list[Tensor]:
    return [to_tensor(squares[first : first + BATCH]) for first in range(0, len(squares), BATCH)]
