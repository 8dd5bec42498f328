"""Random thin plate splines, the known transformations of the equivariance loss (Eq. 8, app. G.3).

A thin plate spline maps control points c to targets t and interpolates smoothly between them:

    g(p) = sum_j w_j U(|p - c_j|) + a_0 + a_1 x + a_2 y,    U(r) = r^2 log r^2

Its coefficients depend linearly on the targets, so for fixed control points and fixed p the whole
spline is one constant matrix: g(p) = B(p) t. For the regular grid that matrix is computed once, and
warping a batch is a matrix product. An affine map of the control points is reproduced exactly,
so the random global transformation simply moves the targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trigpoint.core.config.tree import ModelConfig, WarpConfig
from trigpoint.learning import tensors

RIDGE = 1e-3  # calms the bending of a spline on landmarks, some of which may (nearly) coincide
AFFINE_RIDGE = 0.1  # calms its affine part where they lie in one place or on one line


def basis(points: Tensor, controls: Tensor) -> Tensor:
    """The spline's terms at points (..., n, 2) for controls (..., N, 2): (..., n, N + 3)."""
    square = (points[..., :, None, :] - controls[..., None, :, :]).square().sum(-1)
    radial = torch.xlogy(square, square.clamp_min(1e-30))
    return torch.cat((radial, affine_terms(points)), dim=-1)


def affine_terms(points: Tensor) -> Tensor:
    """1, x, y about the image's centre: (..., n, 2) -> (..., n, 3)."""
    return torch.cat((torch.ones_like(points[..., :1]), points - 0.5), dim=-1)


def solver(controls: Tensor) -> Tensor:
    """The matrix (..., N + 3, N) that turns targets (N, 2) into the spline's coefficients."""
    count = controls.shape[-2]
    system = controls.new_zeros(*controls.shape[:-2], count + 3, count + 3)
    system[..., :count, :] = basis(controls, controls)
    system[..., count:, :count] = affine_terms(controls).transpose(-1, -2)
    return torch.linalg.inv(system)[..., :count]


def damped_coefficients(
    controls: Tensor, targets: Tensor, ridge: float = RIDGE, affine_ridge: float = AFFINE_RIDGE
) -> Tensor:
    """Coefficients (..., N + 3, 2) of a spline that follows targets (..., N, 2) as far as it stays calm.

    The bending and the affine part are damped apart. The kernel is positive only on what is orthogonal to
    affine functions, so the bending is solved there; without damping this is `solver`. Needs N > 3.
    """
    count = controls.shape[-2]
    affine = affine_terms(controls)  # (..., N, 3)
    kernel = basis(controls, controls)[..., :count]
    across = torch.linalg.qr(affine, mode="complete")[0][..., 3:]  # (..., N, N - 3)
    bending = across.mT @ kernel @ across + ridge * torch.eye(count - 3, dtype=controls.dtype)
    weights = across @ torch.linalg.solve(bending, across.mT @ targets)
    normal = affine.mT @ affine + affine_ridge * torch.eye(3, dtype=controls.dtype)
    slope = torch.linalg.solve(normal, affine.mT @ (targets - kernel @ weights))
    return torch.cat((weights, slope), dim=-2)


@dataclass(frozen=True)
class Warp:
    """A batch of splines: `pixels` are g at the warped image's pixels, `map` is g anywhere."""

    pixels: Tensor  # (B, n, n, 2) unit coordinates
    on_landmarks: Tensor  # (B,) which samples use landmark control points
    grid_controls: Tensor  # (N, 2)
    grid_coefficients: Tensor  # (B, N + 3, 2)
    landmark_controls: Tensor  # (b, K, 2), only the samples that use them
    landmark_coefficients: Tensor  # (b, K + 3, 2)

    def map(self, points: Tensor) -> Tensor:
        """g: points (B, K, 2) of the warped image -> where they come from in the original."""
        mapped = basis(points, self.grid_controls.expand(len(points), -1, -1)) @ self.grid_coefficients
        if len(self.landmark_controls):
            around = basis(points[self.on_landmarks], self.landmark_controls) @ self.landmark_coefficients
            mapped = mapped.index_put((self.on_landmarks,), around)
        return mapped


class RandomTPS:
    """Draws warps for the padded image of a model. All randomness comes from the generator given."""

    def __init__(self, config: WarpConfig, model: ModelConfig) -> None:
        self.config = config
        self.size = model.padded_size
        margin = (model.padded_size - model.image_size) / 2 / model.image_size
        along = torch.linspace(-margin, 1 + margin, config.grid, dtype=torch.float64)
        v, u = torch.meshgrid(along, along, indexing="ij")
        controls = torch.stack((u, v), -1).reshape(-1, 2)
        cells = tensors.grid(model.padded_size, model.image_size, model.padded_size)
        self.cells = cells  # (n*n, 2)
        solve = solver(controls)
        self.constant = (basis(cells.double(), controls) @ solve).float()  # (n*n, N)
        self.solve = solve.float()
        self.controls = controls.float()

    def draw(
        self, landmarks: Tensor, generator: torch.Generator, landmark_share: float | None = None
    ) -> Warp:
        """A random warp per sample; landmarks (B, K, 2) serve as control points for some of them."""
        share = self.config.landmark_share if landmark_share is None else landmark_share
        batch, count, _ = landmarks.shape
        if count < 4:  # three points or fewer leave nothing to bend
            share = 0.0
        on_landmarks = torch.rand(batch, generator=generator) < share
        matrix, shift = self._affine(batch, generator)
        noise = torch.randn(batch, len(self.controls), 2, generator=generator)
        # The noise is drawn for every sample so that the stream does not depend on the model.
        local = torch.randn(landmarks.shape, generator=generator)

        targets = self._move(self.controls.expand(batch, -1, -1), matrix, shift)
        targets = targets + self.config.grid_jitter * noise
        pixels = self.constant @ targets  # (B, n*n, 2)
        grid_coefficients = self.solve @ targets

        chosen = landmarks.detach()[on_landmarks].double()
        coefficients = landmarks.new_zeros(0, landmarks.shape[1] + 3, 2)
        if len(chosen):
            # Only the local displacement is a spline of the landmarks, and a damped one; the global
            # transformation is added to its affine part, so that clustered landmarks do not bend it.
            displacement = self.config.landmark_jitter * local[on_landmarks].double()
            coefficients = damped_coefficients(chosen, displacement).float()
            coefficients[:, count] += shift[on_landmarks, 0] + 0.5
            coefficients[:, count + 1 :] += matrix[on_landmarks].transpose(-1, -2)
            around = basis(self.cells.expand(len(chosen), -1, -1), chosen.float())
            pixels[on_landmarks] = around @ coefficients
        pixels = pixels.reshape(batch, self.size, self.size, 2)
        return Warp(pixels, on_landmarks, self.controls, grid_coefficients, chosen.float(), coefficients)

    def _affine(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random scaling, rotation (B, 2, 2) and translation (B, 1, 2) about the image's centre."""
        config = self.config
        scale = torch.exp(torch.randn(batch, generator=generator) * math.log(config.scaling))
        angle = torch.randn(batch, generator=generator) * math.radians(config.rotation)
        shift = (torch.rand(batch, 1, 2, generator=generator) * 2 - 1) * config.translation
        cos, sin = scale * torch.cos(angle), scale * torch.sin(angle)
        return torch.stack((cos, -sin, sin, cos), -1).reshape(batch, 2, 2), shift

    @staticmethod
    def _move(points: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
        return (points - 0.5) @ matrix.transpose(-1, -2) + 0.5 + shift
