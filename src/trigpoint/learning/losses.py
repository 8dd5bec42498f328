"""The training objective (Eq. 15), one function per equation. Each returns the mean over the batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

SSIM_WINDOW = 7  # pixels
SSIM_SCALES = 2  # the image, and the image at half its size
SSIM_FLOOR = 0.003  # of the variances: what has less contrast than that hardly counts


def concentration(variances: Tensor, form: str = "entropy") -> Tensor:
    """Eq. 5, summed over landmarks: variances (B, K, 2) -> scalar.

    `entropy`: the exponential of the entropy of the isotropic Gaussian, 2 pi e sigma^2 with
    sigma^2 the mean of both variances, which is what the text derives. `printed`: as printed.
    """
    if form == "printed":
        return (2 * math.pi * math.e * variances.sum(-1).square()).sum(-1).mean()
    return (2 * math.pi * math.e * variances.mean(-1)).sum(-1).mean()


def separation(landmarks: Tensor, sigma: float) -> Tensor:
    """Eq. 7: landmarks (B, K, 2) -> scalar, summed over ordered pairs k != k'."""
    square = (landmarks[:, :, None] - landmarks[:, None]).square().sum(-1)  # (B, K, K)
    pairs = torch.exp(-square / (2 * sigma**2))
    others = 1 - torch.eye(landmarks.shape[1], device=landmarks.device)
    return (pairs * others).sum((1, 2)).mean()


def equivariance(mapped_back: Tensor, landmarks: Tensor, linear: float = 0.0) -> Tensor:
    """Eq. 8: g(l') and l, both (B, K, 2) -> scalar, summed over landmarks.

    `linear`, not in the paper: a distance of about which the square of the distance becomes a straight line
    (pseudo-Huber), so that a landmark which is quite lost does not outweigh all others.
    """
    square = (mapped_back - landmarks).square().sum(-1)  # (B, K)
    if linear:
        square = 2 * linear**2 * ((1 + square / linear**2).sqrt() - 1)
    return square.sum(1).mean()


def reconstruction(decoded: Tensor, images: Tensor, sigma: float) -> Tensor:
    """Negative log-likelihood of the image under N(decoded, sigma^2), summed over pixels (Eq. 17)."""
    square = (decoded - images).square().sum((1, 2, 3)).mean() / (2 * sigma**2)
    count = images[0].numel()
    return square + 0.5 * count * math.log(2 * math.pi * sigma**2)


def dissimilarity(decoded: Tensor, images: Tensor) -> Tensor:
    """1 - SSIM (without its luminance), mean over two scales, times the colour values of an image.

    Not in the paper. A squared error minds most what has most contrast, such as hair against a wall;
    here each window of 7 pixels counts by its own contrast, and eyes count like hair.
    """
    values, found = images[0].numel(), []
    a, b = decoded.contiguous(), images.contiguous()
    for _ in range(SSIM_SCALES):
        # Means over windows as matrix products: three times faster here than pooling.
        window = _windows(b)
        means = window @ (torch.cat((a, b, a.square() + b.square(), a * b), dim=1) @ window.T)
        mean_a, mean_b, squares, products = means.chunk(4, dim=1)
        variances = squares - mean_a.square() - mean_b.square()
        covariance = products - mean_a * mean_b
        found.append(1 - ((2 * covariance + SSIM_FLOOR) / (variances + SSIM_FLOOR)).mean())
        a, b = avg_pool2d(a, 2), avg_pool2d(b, 2)
    return values * torch.stack(found).mean()


def _windows(images: Tensor) -> Tensor:
    """(places, edge): times a column of an image, the means over each window of it."""
    edge = images.shape[-1]
    size = min(SSIM_WINDOW, edge)
    offset = torch.arange(edge) - torch.arange(edge - size + 1)[:, None]
    return ((offset >= 0) & (offset < size)).to(images) / size


def cycle(found: Tensor, wanted: Tensor) -> Tensor:
    """L1 distance between the landmarks (B, K, 2) found on made images and those they were made from."""
    return (found - wanted).abs().sum(-1).mean()


def locality(edited: Tensor, decoded: Tensor, far: Tensor) -> Tensor:
    """What an edit changed where it should not: images (B, C, n, n), `far` (B, 1, n, n) from 0 to 1."""
    return ((edited - decoded).abs() * far).sum((1, 2, 3)).mean()


def total(terms: dict[str, Tensor], weights: dict[str, float]) -> Tensor:
    """Eq. 15: the weighted sum of the named terms."""
    return torch.stack([weights[name] * term for name, term in terms.items()]).sum()
