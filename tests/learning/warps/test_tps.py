"""Thin plate splines: against SciPy and kornia, their distribution, and images warped with them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from kornia.geometry.transform import warp_points_tps
from scipy.interpolate import RBFInterpolator

from trigpoint.core.config.tree import ModelConfig, WarpConfig
from trigpoint.learning import tensors
from trigpoint.learning.warps.tps import RIDGE, RandomTPS, Warp, basis, damped_coefficients, solver

MODEL = ModelConfig(image_size=16, padded_size=24)
STILL = WarpConfig(translation=0.0, rotation=0.0, scaling=1.0, grid_jitter=0.0, landmark_jitter=0.0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=generator(seed), dtype=torch.float64)


def spread_landmarks(batch: int, count: int = 10, seed: int = 0) -> torch.Tensor:
    """Some landmarks per sample, none too near another: jittered places of a 4 x 4 grid."""
    places = tensors.grid(4, 1, 1)
    order = torch.stack([torch.randperm(16, generator=generator(seed + b))[:count] for b in range(batch)])
    return places[order] + 0.05 * torch.rand(batch, count, 2, generator=generator(seed))


def draw(config: WarpConfig, batch: int, share: float, model: ModelConfig = MODEL, seed: int = 0) -> Warp:
    return RandomTPS(config, model).draw(spread_landmarks(batch), generator(seed), share)


def centres(model: ModelConfig = MODEL) -> torch.Tensor:
    return tensors.grid(model.padded_size, model.image_size, model.padded_size)


# The spline itself


def test_spline_agrees_with_scipy() -> None:
    """The interpolating spline of least bending, at points inside and outside the controls."""
    controls, targets = double(12, 2), double(12, 2, seed=1)
    points = double(300, 2, seed=2) * 2 - 0.5
    found = basis(points, controls) @ (solver(controls) @ targets)
    reference = RBFInterpolator(controls.numpy(), targets.numpy(), kernel="thin_plate_spline", degree=1)
    np.testing.assert_allclose(found.numpy(), reference(points.numpy()), atol=1e-9)


def test_smoothed_spline_agrees_with_numpy() -> None:
    """A ridge trades passing through the targets for less bending."""
    controls, targets, ridge = double(12, 2), double(12, 2, seed=1), 0.01
    points = double(300, 2, seed=2)
    found = basis(points, controls) @ damped_coefficients(controls, targets, ridge, 0.0)
    plain = basis(points, controls) @ (solver(controls) @ targets)
    assert (found - plain).abs().max() > 1e-2
    reference = solve_with_ridge(controls.numpy(), targets.numpy(), points.numpy(), ridge)
    np.testing.assert_allclose(found.numpy(), reference, atol=1e-4)


def solve_with_ridge(
    controls: np.ndarray, targets: np.ndarray, points: np.ndarray, ridge: float
) -> np.ndarray:
    """(K + ridge) w + P a = t and P' w = 0, by NumPy."""

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.linalg.norm(a[:, None] - b[None], axis=-1)
        return np.where(r > 0, r**2 * np.log(np.where(r > 0, r, 1) ** 2), 0)

    n = len(controls)
    affine = np.c_[np.ones(n), controls]
    system = np.block(
        [[kernel(controls, controls) + ridge * np.eye(n), affine], [affine.T, np.zeros((3, 3))]]
    )
    coefficients = np.linalg.solve(system, np.r_[targets, np.zeros((3, 2))])
    result: np.ndarray = np.c_[kernel(points, controls), np.ones(len(points)), points] @ coefficients
    return result


def test_evaluation_agrees_with_kornia() -> None:
    """Same coefficients: kornia's kernel is r^2 log r, half of ours, so its weights are twice ours.

    Its `get_tps_transform` centres the kernels on the targets, which is another spline, so only its
    evaluation can be compared.
    """
    controls, targets = double(3, 12, 2), double(3, 12, 2, seed=1)
    points = double(3, 100, 2, seed=2) * 2 - 0.5
    coefficients = solver(controls) @ targets
    found = basis(points, controls) @ coefficients
    weights, affine = 2 * coefficients[:, :-3], coefficients[:, -3:].clone()
    affine[:, 0] -= 0.5 * (affine[:, 1] + affine[:, 2])  # ours is about (0.5, 0.5), kornia's about 0
    torch.testing.assert_close(found, warp_points_tps(points, controls, weights, affine), atol=1e-4, rtol=0)


def test_controls_go_to_their_targets() -> None:
    controls, targets = double(2, 9, 2), double(2, 9, 2, seed=1)
    torch.testing.assert_close(
        basis(controls, controls) @ (solver(controls) @ targets), targets, atol=1e-9, rtol=0
    )


@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_affine_maps_are_reproduced(ridge: float) -> None:
    """Without any bending, everywhere."""
    matrix = torch.tensor([[1.1, -0.4], [0.3, 0.8]], dtype=torch.float64)
    shift = torch.tensor([0.2, -0.1], dtype=torch.float64)
    controls, points = double(10, 2), double(100, 2, seed=1) * 4 - 1.5
    coefficients = damped_coefficients(controls, controls @ matrix.T + shift, ridge, 0.0)
    found, expected = basis(points, controls) @ coefficients, points @ matrix.T + shift
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert coefficients[:10].abs().max() < 1e-6


def test_basis_by_hand() -> None:
    """r^2 log r^2 of distances 0, 1 and 2, then 1, x, y about the image's centre."""
    controls = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    found = basis(torch.tensor([[0.0, 0.0]]), controls)
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.0, 4 * math.log(4), 1.0, -0.5, -0.5]]))


# What is drawn


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_noise_is_the_identity(share: float) -> None:
    warp = draw(STILL, 3, share)
    expected = centres().reshape(1, 24, 24, 2).expand(3, -1, -1, -1)
    torch.testing.assert_close(warp.pixels, expected, atol=2e-5, rtol=0)
    points = torch.rand(3, 7, 2, generator=generator(1))
    torch.testing.assert_close(warp.map(points), points, atol=2e-5, rtol=0)


def test_map_at_pixel_centres_gives_the_pixels() -> None:
    """For samples on the grid, by its constant matrix, and for samples around landmarks."""
    warp = draw(WarpConfig(), 12, 0.5)
    assert 0 < int(warp.on_landmarks.sum()) < 12
    mapped = warp.map(centres().expand(12, -1, -1)).reshape(12, 24, 24, 2)
    for chosen in (warp.on_landmarks, ~warp.on_landmarks):
        torch.testing.assert_close(mapped[chosen], warp.pixels[chosen], atol=5e-5, rtol=0)
    assert (warp.pixels[0] - centres().reshape(24, 24, 2)).abs().max() > 0.01


def test_constant_matrix_equals_direct_evaluation() -> None:
    """The spline through the moved grid, solved anew by SciPy in double precision."""
    warp = draw(WarpConfig(), 2, 0.0)
    controls = warp.grid_controls.double()
    coefficients = warp.grid_coefficients.double()
    targets = basis(controls, controls) @ coefficients
    for b in range(2):
        spline = RBFInterpolator(controls.numpy(), targets[b].numpy(), kernel="thin_plate_spline", degree=1)
        found = warp.pixels[b].reshape(-1, 2).numpy()
        np.testing.assert_allclose(found, spline(centres().numpy()), atol=1e-4)


def test_grid_controls_span_the_padded_image() -> None:
    """7 x 7 from edge to edge of 24 pixels about an image of 16: from -0.25 to 1.25."""
    controls = RandomTPS(WarpConfig(), MODEL).controls
    along = torch.linspace(-0.25, 1.25, 7)
    expected = torch.stack((along.repeat(7), along.repeat_interleave(7)), -1)
    torch.testing.assert_close(controls, expected)


def test_jitter_of_the_grid() -> None:
    """Control points move by 0.05 of the edge, each on its own."""
    warp = draw(replace(STILL, grid_jitter=0.05), 100, 0.0)
    moves = warp.map(warp.grid_controls.expand(100, -1, -1)) - warp.grid_controls
    assert moves.std().item() == pytest.approx(0.05, rel=0.04)  # of 9,800 values
    assert abs(moves.mean().item()) < 0.003
    neighbours = (moves[:, :-1] * moves[:, 1:]).mean().item() / 0.05**2
    assert abs(neighbours) < 0.06


def test_jitter_of_the_landmarks() -> None:
    """Landmarks move by 0.025 of the edge, less what the ridge smooths away."""
    warp = draw(replace(STILL, landmark_jitter=0.025), 200, 1.0)
    moves = warp.map(spread_landmarks(200)) - spread_landmarks(200)
    assert moves.std().item() == pytest.approx(0.025, rel=0.06)


def affine(config: WarpConfig, share: float, count: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear part (count, 2, 2) and the move of the image's centre (count, 2) of warps without bending."""
    small = ModelConfig(image_size=4, padded_size=4)
    tps = RandomTPS(config, small)
    landmarks = spread_landmarks(1).expand(count, -1, -1)
    warp = tps.draw(landmarks, generator(3), share)
    points = torch.tensor([[0.5, 0.5], [1.0, 0.5], [0.5, 1.0]]).expand(count, -1, -1)
    centre, right, below = warp.map(points).unbind(1)
    return torch.stack((right - centre, below - centre), -1) * 2, centre - 0.5


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_translation_is_uniform(share: float) -> None:
    """Within 0.15 to either side, in x and in y, each on its own."""
    linear, moves = affine(replace(STILL, translation=0.15), share)
    torch.testing.assert_close(linear, torch.eye(2).expand_as(linear), atol=1e-4, rtol=0)
    assert 0.145 < moves.abs().max().item() < 0.1501
    assert moves.mean(0).abs().max() < 0.008
    np.testing.assert_allclose(moves.std(0).numpy(), 0.15 / math.sqrt(3), rtol=0.05)
    for part in (0.25, 0.5, 0.75):  # a Gaussian of the same width would have 0.33, 0.61, 0.81
        assert (moves.abs() < part * 0.15).float().mean().item() == pytest.approx(part, abs=0.03)
    assert abs((moves[:, 0] * moves[:, 1]).mean().item()) < 0.1 * 0.15**2 / 3


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_rotation_is_gaussian(share: float) -> None:
    """About the image's centre, with a standard deviation of 10 degrees."""
    linear, moves = affine(replace(STILL, rotation=10.0), share)
    assert moves.abs().max() < 1e-4
    torch.testing.assert_close(linear @ linear.mT, torch.eye(2).expand_as(linear), atol=1e-3, rtol=0)
    assert (torch.linalg.det(linear) > 0).all()
    degrees = torch.rad2deg(torch.atan2(linear[:, 1, 0], linear[:, 0, 0]))
    assert degrees.std().item() == pytest.approx(10, rel=0.06)
    assert abs(degrees.mean().item()) < 0.8
    assert (degrees.abs() < 10).float().mean().item() == pytest.approx(0.683, abs=0.04)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_scaling_is_log_normal(share: float) -> None:
    """exp(N ln 1.25), the same along both axes, about the image's centre."""
    linear, moves = affine(replace(STILL, scaling=1.25), share)
    assert moves.abs().max() < 1e-4
    scale = linear[:, 0, 0]
    torch.testing.assert_close(linear, scale[:, None, None] * torch.eye(2), atol=1e-3, rtol=0)
    assert scale.log().std().item() == pytest.approx(math.log(1.25), rel=0.06)
    assert abs(scale.log().mean().item()) < 0.018
    assert (scale.log().abs() < math.log(1.25)).float().mean().item() == pytest.approx(0.683, abs=0.04)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_share_of_landmark_samples(share: float) -> None:
    small = ModelConfig(image_size=4, padded_size=4)
    landmarks = spread_landmarks(1, 4).expand(2000, -1, -1)
    warp = RandomTPS(WarpConfig(), small).draw(landmarks, generator(), share)
    assert warp.on_landmarks.float().mean().item() == pytest.approx(share, abs=0.04 if 0 < share < 1 else 0)
    assert len(warp.landmark_controls) == int(warp.on_landmarks.sum())


def test_share_of_the_config_is_the_default() -> None:
    small = ModelConfig(image_size=4, padded_size=4)
    landmarks = spread_landmarks(1, 4).expand(500, -1, -1)
    for share in (0.0, 1.0):
        warp = RandomTPS(WarpConfig(landmark_share=share), small).draw(landmarks, generator())
        assert warp.on_landmarks.float().mean().item() == share


@pytest.mark.parametrize(("count", "used"), [(1, False), (3, False), (4, True)])
def test_three_landmarks_are_too_few(count: int, used: bool) -> None:
    warp = RandomTPS(WarpConfig(), MODEL).draw(spread_landmarks(5, count), generator(), 1.0)
    assert bool(warp.on_landmarks.all()) is used
    assert bool(warp.on_landmarks.any()) is used
    assert warp.map(torch.rand(5, count, 2, generator=generator(1))).shape == (5, count, 2)


def test_generator_decides_everything() -> None:
    torch.manual_seed(1)
    one = draw(WarpConfig(), 4, 0.5, seed=7)
    torch.manual_seed(2)
    same, other = draw(WarpConfig(), 4, 0.5, seed=7), draw(WarpConfig(), 4, 0.5, seed=8)
    assert torch.equal(one.pixels, same.pixels)
    assert torch.equal(one.on_landmarks, same.on_landmarks)
    assert not torch.allclose(one.pixels, other.pixels, atol=1e-3)


def test_stream_does_not_depend_on_the_share() -> None:
    """After a draw the generator is in the same state however many samples used landmarks."""
    states = []
    for share in (0.0, 0.5, 1.0):
        source = generator(5)
        RandomTPS(WarpConfig(), MODEL).draw(spread_landmarks(4), source, share)
        states.append(source.get_state())
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])


def test_samples_of_a_batch_differ() -> None:
    warp = draw(WarpConfig(), 4, 0.0)
    for b in range(1, 4):
        assert (warp.pixels[0] - warp.pixels[b]).abs().max() > 0.01


COLLAPSED = {
    "all in one place": torch.full((2, 10, 2), 0.4),
    "pairs": torch.rand(2, 5, 2, generator=torch.Generator().manual_seed(0)).repeat(1, 2, 1),
    "on a line": torch.linspace(0.2, 0.8, 10)[None, :, None].expand(2, -1, 2).clone(),
}


@pytest.mark.parametrize("name", COLLAPSED)
def test_collapsed_landmarks_give_finite_warps(name: str) -> None:
    warp = RandomTPS(WarpConfig(), MODEL).draw(COLLAPSED[name], generator(), 1.0)
    assert warp.on_landmarks.all()
    assert warp.pixels.isfinite().all()
    assert warp.pixels.abs().max() < 10
    assert warp.map(COLLAPSED[name]).isfinite().all()


@pytest.mark.parametrize("name", ["all in one place", "on a line"])
def test_collapsed_landmarks_without_noise_leave_the_image_alone(name: str) -> None:
    warp = RandomTPS(STILL, MODEL).draw(COLLAPSED[name], generator(), 1.0)
    expected = centres().reshape(1, 24, 24, 2).expand(2, -1, -1, -1)
    torch.testing.assert_close(warp.pixels, expected, atol=1e-3, rtol=0)


def test_clustered_landmarks_give_calm_warps() -> None:
    """All within a hundredth of the edge: the image is still read from near itself."""
    landmarks = 0.5 + 0.003 * torch.randn(32, 10, 2, generator=generator(1))
    warp = RandomTPS(WarpConfig(), MODEL).draw(landmarks, generator(), 1.0)
    assert warp.pixels.min() > -1.5
    assert warp.pixels.max() < 2.5


@pytest.mark.parametrize("count", [10, 30])
@pytest.mark.parametrize("spread", [0.0, 0.003, 0.03, 0.1, None])
def test_jitter_of_landmarks_moves_no_pixel_far(spread: float | None, count: int) -> None:
    """In one place, clustered, or all over the image (None): 0.025 at them is below 1 edge anywhere."""
    source = generator(1)
    if spread is None:
        landmarks = torch.rand(200, count, 2, generator=source)
    else:
        landmarks = 0.5 + spread * torch.randn(200, count, 2, generator=source)
    tps = RandomTPS(replace(STILL, landmark_jitter=0.025), MODEL)
    moves = tps.draw(landmarks, generator(2), 1.0).pixels - centres().reshape(24, 24, 2)
    assert moves.std() > 1e-3
    assert moves.norm(dim=-1).max() < 1


# Gradients


def test_gradient_of_map() -> None:
    """Equivariance trains the detector through g; in double precision, on grid and landmarks."""
    warp = draw(WarpConfig(), 4, 0.5)
    assert warp.on_landmarks.any()
    precise = replace(
        warp,
        grid_controls=warp.grid_controls.double(),
        grid_coefficients=warp.grid_coefficients.double(),
        landmark_controls=warp.landmark_controls.double(),
        landmark_coefficients=warp.landmark_coefficients.double(),
    )
    assert torch.autograd.gradcheck(precise.map, double(4, 3, 2).requires_grad_())


def test_gradient_of_map_at_a_control_point_is_finite() -> None:
    """Where the distance is 0 and its logarithm is not."""
    warp = draw(WarpConfig(), 4, 0.5)
    points = warp.grid_controls.expand(4, -1, -1).clone()
    points[warp.on_landmarks, :10] = warp.landmark_controls
    points.requires_grad_()
    warp.map(points).sum().backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()


def test_warps_do_not_carry_gradients_of_landmarks() -> None:
    landmarks = spread_landmarks(3).requires_grad_()
    warp = RandomTPS(WarpConfig(), MODEL).draw(landmarks, generator(), 1.0)
    assert not warp.pixels.requires_grad
    assert not warp.map(torch.zeros(3, 1, 2)).requires_grad


# Images


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_warped_image_shows_a_spot_where_map_says(share: float, seed: int) -> None:
    """A bright spot at p is seen at p' with map(p') = p: x, y, direction and padding all agree."""
    model = ModelConfig(image_size=64, padded_size=80)
    places = torch.tensor([[0.45, 0.6], [0.6, 0.5], [0.4, 0.35], [0.55, 0.65], [0.35, 0.5], [0.5, 0.5]])
    sigma = 0.05

    def spot(points: torch.Tensor) -> torch.Tensor:
        """Brightness of each sample's spot at points (6, n, 2)."""
        return torch.exp(-(points - places[:, None]).square().sum(-1) / (2 * sigma**2))

    images = spot(tensors.grid(64, 64, 64).expand(6, -1, -1)).reshape(6, 1, 64, 64)
    warp = draw(WarpConfig(), 6, share, model, seed)
    warped = tensors.sample(images, warp.pixels)
    assert warped.shape == (6, 1, 80, 80)

    along = (torch.arange(80) + 0.5 - 8) / 64  # eight pixels of padding
    pixels = torch.stack((along.repeat(80), along.repeat_interleave(80)), -1)
    brightest = warped.flatten(1).argmax(-1)
    seen = pixels[brightest]  # (6, 2)
    found = warp.map(seen[:, None])[:, 0]
    # The true place lies within half a pixel, which the warp stretches, of the brightest one.
    torch.testing.assert_close(found, places, atol=0.03, rtol=0)
    assert (seen - places).norm(dim=-1).mean() > 0.06  # the spots did move

    # Every pixel, up to the error of interpolation, (pixel / sigma)^2 / 8 along each axis.
    mapped = warp.map(pixels.expand(6, -1, -1))
    inside = ((mapped > 0.02) & (mapped < 0.98)).all(-1)
    torch.testing.assert_close(warped.flatten(1)[inside], spot(mapped)[inside], atol=0.026, rtol=0)
