"""Do the pixels under a landmark change from image to image? Measured without labels.

Each image is compared with the scene, which is the median of all of them: of frames by a camera that does not
move that is the place without the subject, of photos their common ground, such as the white of a product
photo. A landmark on what stays the same in most images has the scene under it.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.learning import tensors

NOISE = 1.0  # pixels of the prepared image: blur against the noise of camera and compression, as of `mask_of`
PATCH = 0.025  # image edges: Gaussian under a landmark that is looked at, about a disc of twice that radius
ALIKE = 2 / 255  # images that differ by less (RMS) differ by noise alone


def differences(images: Tensor) -> NDArray[np.float32]:
    """Images (n, C, s, s) -> how far each pixel is from the scene (n, s, s), in the channel where it is most.

    An image that is brighter or darker than the others as a whole, as by a lamp or the camera's exposure,
    does not count: a pixel may be as far off as the median pixel of its image is.
    """
    pixels = images.permute(0, 2, 3, 1).numpy()
    soft = np.stack([cv2.GaussianBlur(one, (0, 0), NOISE).reshape(one.shape) for one in pixels])
    apart = soft - np.median(soft, axis=0)
    shifted = apart - np.median(apart, axis=(1, 2), keepdims=True)
    return np.asarray(np.minimum(np.abs(apart), np.abs(shifted)).max(-1), np.float32)


def alike(images: Tensor) -> bool:
    """Whether nothing but noise tells the images from each other."""
    return rms(differences(images)) < ALIKE


def changes(images: Tensor, landmarks: Tensor) -> NDArray[np.float64]:
    """How much the pixels under each landmark (n, K, 2) change, (K,): 0 not at all, 1 as much as images do.

    The median over the images, so that a subject that passes by does not count, over the RMS difference of
    all pixels. Of images that are alike it is 0.
    """
    apart = differences(images)
    usual = rms(apart)
    if usual < ALIKE:
        return np.zeros(landmarks.shape[1])
    around = np.stack([cv2.GaussianBlur(one, (0, 0), PATCH * apart.shape[-1]) for one in apart])
    under = tensors.sample(torch.from_numpy(around)[:, None], landmarks[:, :, None].float())[:, 0, :, 0]
    return np.asarray(np.median(under.double().numpy(), axis=0) / usual)


def rms(values: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(values, dtype=np.float64).mean()))
