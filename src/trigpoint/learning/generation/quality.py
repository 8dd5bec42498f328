"""How good generated images are: do they keep the structure, do they differ, do they look real."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.generation.sampler import Sampler

SAMPLES = 16  # of one reference, for the diversity
REFERENCES = 8  # whose diversity is averaged
SUBSETS, SUBSET = 50, 200  # of the kernel distance: how many, and of how many images at most

Bytes = NDArray[np.uint8]
Features = Callable[[Bytes], NDArray[np.float64]]


def redetect(sampler: Sampler, images: Bytes) -> NDArray[np.float64]:
    """Landmarks (n, K, 2) found on images (n, size, size, C), in unit coordinates."""
    return sampler.predictor.backend.detect_once(images)


def cycle_distances(
    sampler: Sampler, landmarks: NDArray[np.floating], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of one sample per reference: the mean distance of its landmarks from the reference's, and from those of
    another reference drawn at random; both (n,), in image edges."""
    made = sampler.generate(landmarks, sampler.latents(len(landmarks), seed))
    found = redetect(sampler, made)
    others = derangement(len(landmarks), seed)
    near = np.linalg.norm(found - landmarks, axis=-1).mean(-1)
    far = np.linalg.norm(found - landmarks[others], axis=-1).mean(-1)
    return near, far


def derangement(count: int, seed: int) -> NDArray[np.int64]:
    """A permutation in which nothing stays where it is."""
    order = np.random.default_rng(seed).permutation(count)
    places = np.empty(count, np.int64)
    places[order] = np.roll(order, 1)
    return places


def diversity(
    sampler: Sampler, landmarks: NDArray[np.floating], real: Bytes, seed: int
) -> tuple[float, float]:
    """Mean pairwise distance of samples of one reference (averaged over some), and that of real images."""
    spreads = []
    for i in range(min(REFERENCES, len(landmarks))):
        same = np.repeat(np.asarray(landmarks[i : i + 1]), SAMPLES, axis=0)
        spreads.append(pairwise(sampler.generate(same, sampler.latents(SAMPLES, seed + i))))
    return float(np.mean(spreads)), pairwise(real[:SAMPLES])


def pairwise(images: Bytes) -> float:
    """Mean root-mean-square distance of the pixels of every two images, in [0, 1]."""
    if len(images) < 2:
        return 0.0
    flat = images.reshape(len(images), -1).astype(np.float64) / 255
    return float(pdist(flat).mean() / np.sqrt(flat.shape[1]))


def kernel_distance(
    first: NDArray[np.floating], second: NDArray[np.floating], seed: int = 0
) -> tuple[float, float]:
    """KID of two sets of features (n, d): the unbiased squared MMD with the kernel (x.y / d + 1)^3.

    Mean and standard deviation over random subsets: about 0 for sets from one distribution. A subset has at
    most half of the images, so that subsets differ.
    """
    fewer = min(len(first), len(second))
    if fewer < 2:
        raise TrigpointError(f"A kernel distance needs at least 2 images on each side; got {fewer}.")
    size = min(SUBSET, max(2, fewer // 2))
    source = np.random.default_rng(seed)
    values = []
    for _ in range(SUBSETS):
        x = first[source.choice(len(first), size, replace=False)]
        y = second[source.choice(len(second), size, replace=False)]
        values.append(squared_mmd(x, y))
    return float(np.mean(values)), float(np.std(values))


def squared_mmd(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """The unbiased estimate, the kernel's diagonal left out."""

    def kernel(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
        return (np.asarray(a, np.float64) @ np.asarray(b, np.float64).T / a.shape[1] + 1) ** 3

    def within(a: NDArray[np.floating]) -> float:
        inner = kernel(a, a)
        return float((inner.sum() - np.trace(inner)) / (len(a) * (len(a) - 1)))

    return within(x) + within(y) - 2 * float(kernel(x, y).mean())


def pixel_features(images: Bytes) -> NDArray[np.float64]:
    """Every image as 8 x 8 mean colours in [-1, 1], (n, d): crude, and needs no other model."""
    import cv2

    small = [cv2.resize(image, (8, 8), interpolation=cv2.INTER_AREA).ravel() for image in images]
    return np.stack(small).astype(np.float64) / 127.5 - 1


def face_features(images: Bytes) -> NDArray[np.float64]:
    """dlib's embedding of faces, scaled so that the kernel sees plain inner products: (n, 128)."""
    import cv2

    from trigpoint.learning.evaluation.faces import SIZE, Dlib

    dlib = Dlib()
    found = []
    for image in images:
        enlarged = cv2.resize(to_channels(image, 3), (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)
        found.append(dlib.embed(np.asarray(enlarged, np.uint8)))
    features = np.stack(found).astype(np.float64)
    return features * np.sqrt(features.shape[1])


FEATURES: dict[str, Features] = {"dlib": face_features, "pixels": pixel_features}
