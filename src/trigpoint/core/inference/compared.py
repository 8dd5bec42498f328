"""What of a call must be the same for its results to be those of another call."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.version import __version__


def compared(predictor: Predictor, keypoints: KeypointMap | None, options: dict[str, Any]) -> dict[str, Any]:
    """Model, preparation of images, names, keypoints and options, as a record compares them."""
    config = predictor.config
    video = asdict(config.video)
    del video["every"], video["frames"]  # of training alone
    network = {
        name: getattr(config.model, name) for name in ("image_size", "padded_size", "channels", "detector")
    }
    return {
        "model": predictor.backend.digest,
        "preparation": {"fit": config.fit, "subject": predictor.subject, "video": video, "network": network},
        "names": list(predictor.names),
        "keypoints": None if keypoints is None else [list(keypoints.names), keypoints.weights.tolist()],
        "options": {"views": predictor.backend.views, **options},
    }


def noted(predictor: Predictor, seconds: float) -> dict[str, Any]:
    """What a record says besides: it may differ."""
    versions = {"trigpoint": __version__, **predictor.backend.versions}
    return {"versions": versions, "device": "cpu", "seconds": round(seconds, 1)}
