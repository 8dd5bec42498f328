"""All that is measured of a generator, in one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.progress import Progress
from trigpoint.core.sources.base import Source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.generation.quality import FEATURES, cycle_distances, diversity, kernel_distance
from trigpoint.learning.generation.sampler import Sampler


def measure(sampler: Sampler, source: Source, references: int, features: str, seed: int) -> dict[str, Any]:
    """Structure, diversity and realism of samples on the structure of `references` images.

    As many other images are the real ones that samples, reconstructions and the references themselves are
    compared with; a source with too few images is halved.
    """
    count = min(references, len(source) // 2)
    if count < 2:
        raise TrigpointError(f"Measuring needs at least 4 images; the source has {len(source)}.")
    chosen = np.random.default_rng(seed).permutation(len(source))
    pixels = []
    with Progress("reading", 2 * count) as bar:
        for index in chosen:
            try:
                pixels.append(square(source, int(index), sampler.predictor.config)[0])
            except UnreadableImage:
                continue
            bar.update(len(pixels))
            if len(pixels) == 2 * count:
                break
    count = len(pixels) // 2
    if count < 2:
        raise TrigpointError("Measuring needs at least 4 readable images.")
    given, others = np.stack(pixels[:count]), np.stack(pixels[count : 2 * count])
    editor = Editor(sampler.predictor)
    unit = Placement(0, 0, 1, 1)
    codes = [
        code
        for start in range(0, count, 64)
        for code in editor.encode_squares(given[start : start + 64], [unit] * len(given[start : start + 64]))
    ]
    landmarks = np.stack([code.landmarks for code in codes])
    near, far = cycle_distances(sampler, landmarks, seed)
    spread, real = diversity(sampler, landmarks, others, seed)
    extract = FEATURES[features]
    target = extract(others)
    made = sampler.generate(landmarks, sampler.latents(count, seed))
    sets = {"samples": made, "reconstructions": editor.decode_many(codes), "real": given}
    kernel = {}
    for name, images in sets.items():
        mean, deviation = kernel_distance(extract(images), target, seed)
        kernel[name] = {"mean": mean, "deviation": deviation}
    return {
        "references": count,
        "landmarks": sampler.predictor.landmarks,
        "seed": seed,
        "cycle_distance": float(near.mean()),
        "shuffled_distance": float(far.mean()),
        "sample_distance": spread,
        "real_distance": real,
        "features": features,
        "kernel_distance": kernel,
    }


def as_text(result: dict[str, Any]) -> str:
    near, far = result["cycle_distance"], result["shuffled_distance"]
    spread, real = result["sample_distance"], result["real_distance"]
    lines = [
        f"{result['references']} references, K = {result['landmarks']}, seed {result['seed']}",
        f"structure   landmarks found again within {near:.2%} of the image edge; {far:.2%} from another "
        f"reference's ({far / max(near, 1e-12):.1f} times)",
        f"diversity   samples of one reference are {spread:.3f} apart, real images {real:.3f} "
        f"({spread / max(real, 1e-12):.0%})",
        f"realism     kernel distance to as many other real images ({result['features']} features):",
    ]
    lines += [
        f"              {name:16} {value['mean']:8.4f} +- {value['deviation']:.4f}"
        for name, value in result["kernel_distance"].items()
    ]
    return "\n".join(lines)
