"""Optical flow: known motions, composition against formulas and SciPy, and the loss by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.ndimage import shift as shifted
from torch import Tensor

from trigpoint.core.sources import figures
from trigpoint.learning import tensors
from trigpoint.learning.warps.flow import STILL, compose, farneback, follow, preference

SIZE = 64


def texture(size: int = 96, seed: int = 0) -> NDArray[np.float64]:
    """A smooth random picture, between 0 and 255."""
    noise = gaussian_filter(np.random.default_rng(seed).normal(size=(size, size)), size / 32, mode="wrap")
    return (noise - noise.min()) / np.ptp(noise) * 255


def to_bytes(picture: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def centres(size: int = SIZE) -> NDArray[np.float64]:
    """Unit coordinates (size, size, 2) of pixel centres."""
    rows, columns = np.mgrid[:size, :size]
    return (np.stack((columns, rows), -1) + 0.5) / size


def field(move: Callable[[NDArray[np.float64]], NDArray[np.float64]], size: int = SIZE) -> Tensor:
    """The flow (1, 2, size, size) of the map p -> move(p) of points (..., 2)."""
    places = centres(size)
    return torch.from_numpy((move(places) - places).transpose(2, 0, 1)[None].astype(np.float32))


def affine(degrees: float, scale: float, x: float, y: float) -> Callable:
    """A turn about the centre, a scaling and a shift."""
    angle = math.radians(degrees)
    turn = scale * np.array(((math.cos(angle), -math.sin(angle)), (math.sin(angle), math.cos(angle))))
    return lambda points: (points - 0.5) @ turn.T + 0.5 + (x, y)


def swirl(turns: float) -> Callable:
    """Points circle about the centre, those further out less: two of them add up."""

    def move(points: NDArray[np.float64]) -> NDArray[np.float64]:
        z = (points - 0.5) @ (1, 1j)
        z = z * np.exp(1j * turns * np.exp(-8 * np.abs(z) ** 2))
        return np.stack((z.real, z.imag), -1) + 0.5

    return move


def random_field(seed: int, strength: float = 0.1) -> Tensor:
    noise = np.random.default_rng(seed).normal(size=(3, 2, SIZE, SIZE))
    return torch.from_numpy((strength * noise).astype(np.float32))


def read(image: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """An image (n, n) at unit coordinates (..., 2), by SciPy: bilinear, edge values outside."""
    x, y = np.moveaxis(points, -1, 0) * len(image) - 0.5
    return np.asarray(map_coordinates(image, (y, x), order=1, mode="nearest"))


# OpenCV's flow


@pytest.mark.parametrize(("x", "y"), [(0, 0), (3, 0), (0, -4), (5, 2), (1.5, -2.25)])
def test_a_shift_is_found_backwards(x: float, y: float) -> None:
    """What moved by (x, y) since the earlier frame was at -(x, y) from where it is, to a tenth of a pixel."""
    earlier = texture()
    later = shifted(earlier, (y, x), order=3, mode="grid-wrap")
    flow = farneback(to_bytes(later), to_bytes(earlier))
    assert (flow.shape, flow.dtype) == ((96, 96, 2), np.float32)
    inside = flow[16:-16, 16:-16].reshape(-1, 2) * 96
    np.testing.assert_allclose(np.median(inside, 0), (-x, -y), atol=0.1)
    assert np.abs(inside - (-x, -y)).mean() < 0.2


def test_flow_is_in_image_edges() -> None:
    """The same motion on a picture twice as large is the same flow."""
    small = texture(64)
    large = cv2.resize(small, (128, 128), interpolation=cv2.INTER_CUBIC)
    moved = [shifted(picture, (0, share * len(picture)), mode="grid-wrap") for picture, share in
             ((small, 0.05), (large, 0.05))]  # fmt: skip
    flows = [farneback(to_bytes(a), to_bytes(b)) for a, b in zip(moved, (small, large), strict=True)]
    for flow in flows:
        n = len(flow) // 5
        np.testing.assert_allclose(flow[n:-n, n:-n].mean((0, 1)), (-0.05, 0), atol=0.004)


def test_nothing_moves_where_nothing_changes() -> None:
    """Also not at the border, so that a frame that stands still is known as such."""
    picture = to_bytes(texture())
    flow = farneback(picture, picture)
    assert np.abs(flow).max() < 1e-5
    assert np.square(flow).sum(-1).mean() < STILL / 1000
    flat = np.full((40, 40), 90, np.uint8)
    assert np.abs(farneback(flat, flat)).max() == 0


def spied_figures(
    monkeypatch: pytest.MonkeyPatch, frames: int, seed: int
) -> tuple[list[figures.Frame], list[NDArray[np.int64]], list[figures.Complex]]:
    """The video of a figure, the part seen at each pixel, and the parts' frames."""
    parts: list[NDArray[np.int64]] = []
    places: list[figures.Complex] = []
    draw, place = figures.draw, figures.place

    def drawn(*words: object) -> figures.Drawing:
        found = draw(*words)  # type: ignore[arg-type]
        parts.append(found.parts)
        return found

    def placed(*words: object) -> tuple[figures.Complex, figures.Real]:
        found = place(*words)  # type: ignore[arg-type]
        places.append(found[0])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(figures, "draw", drawn)
        patch.setattr(figures, "place", placed)
        return list(figures.video(frames, seed)), parts, places


def test_two_intervals_composed_are_near_the_true_motion_of_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over ten frames: at most half the error of no flow at all, and less than of one flow over all ten."""
    errors: list[tuple[float, float, float]] = []
    for seed in range(4):
        frames, parts, places = spied_figures(monkeypatch, 21, seed)
        grey = [cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY) for frame in frames]
        for now in (10, 15, 20):
            true = figures.motion(parts[now], places[now], places[now - 10])
            on_figure = parts[now] >= 0
            first, second = (
                torch.from_numpy(farneback(grey[a], grey[b])).permute(2, 0, 1)[None]
                for a, b in ((now, now - 5), (now - 5, now - 10))
            )
            composed = compose(first, second)[0].permute(1, 2, 0).numpy()
            at_once = farneback(grey[now], grey[now - 10])
            found = [
                np.linalg.norm(flow * len(grey[0]) - true, axis=-1)[on_figure].mean()
                for flow in (composed, at_once, np.zeros_like(at_once))
            ]
            assert found[0] < 0.75 * found[2]
            errors.append((found[0], found[1], found[2]))
    ours, at_once, still = np.mean(errors, 0)
    assert ours < 0.5 * still
    assert ours < at_once


# Points that follow a flow


def test_points_follow_a_flow_as_scipy_reads_it() -> None:
    flow = random_field(0)
    points = torch.rand(3, 20, 2, generator=torch.Generator().manual_seed(0)) * 1.4 - 0.2  # also outside
    found = follow(flow, points).numpy()
    for b in range(3):
        for axis in range(2):
            expected = points[b, :, axis].numpy() + read(flow[b, axis].double().numpy(), points[b].numpy())
            np.testing.assert_allclose(found[b, :, axis], expected, atol=1e-5)


def test_points_follow_an_affine_motion_exactly() -> None:
    move = affine(20, 0.9, 0.03, -0.05)
    points = torch.rand(1, 30, 2, generator=torch.Generator().manual_seed(1)) * 0.9 + 0.05
    np.testing.assert_allclose(follow(field(move), points)[0], move(points[0].numpy()), atol=1e-6)


def test_points_have_a_gradient_through_the_flow() -> None:
    flow = field(swirl(1.0)).double()
    points = (torch.rand(1, 5, 2, generator=torch.Generator().manual_seed(2)) * 0.8 + 0.1).double()
    assert torch.autograd.gradcheck(lambda p: follow(flow, p), points.requires_grad_(), eps=1e-7, atol=1e-4)


# Two intervals as one


def test_affine_motions_compose_exactly() -> None:
    """Where the first one stays inside the image: a linear field is read without error."""
    one, two = affine(15, 0.95, 0.02, 0.01), affine(-25, 0.9, -0.04, 0.03)
    places = centres()
    landed = one(places)
    inside = ((landed > 0.5 / SIZE) & (landed < 1 - 0.5 / SIZE)).all(-1)
    assert inside.mean() > 0.8
    expected = two(landed) - places
    found = compose(field(one), field(two))[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(found[inside], expected[inside], atol=1e-6)
    other = compose(field(two), field(one))[0].permute(1, 2, 0).numpy()
    assert np.abs(other - found).max() > 1e-2  # the order matters


def test_swirls_compose_with_an_error_that_falls_with_the_square_of_the_pixel() -> None:
    errors = []
    for size in (32, 64, 128):
        found = compose(field(swirl(0.8), size), field(swirl(0.5), size))
        wrong = (found - field(swirl(1.3), size))[:, :, size // 8 : -size // 8, size // 8 : -size // 8]
        errors.append(wrong.abs().max().item())
    assert errors[-1] < 1e-4
    assert errors[0] / errors[1] > 3
    assert errors[1] / errors[2] > 3


def test_any_flows_compose_as_scipy_says() -> None:
    first, second = random_field(0), random_field(1)
    found = compose(first, second).numpy()
    for b in range(3):
        landed = centres() + first[b].double().numpy().transpose(1, 2, 0)
        for axis in range(2):
            expected = first[b, axis].double().numpy() + read(second[b, axis].double().numpy(), landed)
            np.testing.assert_allclose(found[b, axis], expected, atol=2e-5)


def test_no_flow_changes_nothing() -> None:
    flow, still = random_field(2), torch.zeros(3, 2, SIZE, SIZE)
    torch.testing.assert_close(compose(flow, still), flow)
    torch.testing.assert_close(compose(still, flow), flow)


def test_to_follow_the_composed_flow_is_to_follow_one_after_the_other() -> None:
    one, two = field(affine(10, 0.9, 0.01, 0.02)), field(affine(5, 0.9, 0.02, -0.03))
    points = torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(3)) * 0.8 + 0.1
    torch.testing.assert_close(
        follow(compose(one, two), points), follow(two, follow(one, points)), atol=1e-6, rtol=0
    )


# The loss that draws landmarks to what moves


def preference_by_hand(flow: Tensor, landmarks: Tensor, sigma: float, form: str) -> float:
    """In plain loops: a Gaussian's value at each pixel, weighted by that pixel's squared flow."""
    values = []
    for b in range(len(flow)):
        above, below = 0.0, 0.0
        for row in range(flow.shape[2]):
            for column in range(flow.shape[3]):
                strength = sum(float(flow[b, axis, row, column]) ** 2 for axis in range(2))
                x, y = (column + 0.5) / flow.shape[3], (row + 0.5) / flow.shape[2]
                heat = [
                    math.exp(-((px - x) ** 2 + (py - y) ** 2) / (2 * sigma**2))
                    for px, py in landmarks[b].tolist()
                ]
                peak = 1 / (2 * math.pi * sigma**2)
                above += strength * (peak * sum(heat) if form == "printed" else sum(heat) / len(heat))
                below += strength
        values.append(-above / below)
    return sum(values) / len(values)


@pytest.mark.parametrize("form", ["scale-free", "printed"])
def test_the_loss_is_what_its_sentence_says(form: str) -> None:
    flow = random_field(4)[:2, :, :9, :9].double()
    landmarks = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = preference(flow, landmarks, 0.15, form).item()
    assert found == pytest.approx(preference_by_hand(flow, landmarks, 0.15, form), rel=1e-5)


def one_moves(column: int, row: int, size: int = 16, strength: float = 0.3) -> tuple[Tensor, Tensor]:
    """A flow in which one pixel moves, and that pixel's centre."""
    flow = torch.zeros(1, 2, size, size, dtype=torch.float64)
    flow[0, :, row, column] = strength
    return flow, (torch.tensor([column, row], dtype=torch.float64) + 0.5) / size


def test_one_moving_pixel_by_hand() -> None:
    """Landmarks at 0, 1 and 2 standard deviations from the only pixel that moves."""
    flow, place = one_moves(3, 11)
    sigma = 0.1
    landmarks = torch.stack((place, place + torch.tensor([sigma, 0]), place - torch.tensor([0, 2 * sigma])))[
        None
    ]
    heat = 1 + math.exp(-0.5) + math.exp(-2)
    assert preference(flow, landmarks, sigma).item() == pytest.approx(-heat / 3, rel=1e-5)
    printed = preference(flow, landmarks, sigma, "printed").item()
    assert printed == pytest.approx(-heat / (2 * math.pi * sigma**2), rel=1e-5)


def test_it_lies_between_minus_one_and_zero() -> None:
    flow, place = one_moves(5, 6)
    assert preference(flow, place.expand(1, 7, 2), 0.06).item() == pytest.approx(-1, abs=1e-5)
    assert preference(flow, place.expand(1, 7, 2) + 3, 0.06).item() == pytest.approx(0, abs=1e-9)
    for seed in range(5):
        value = preference(random_field(seed), torch.rand(3, 6, 2), 0.06).item()
        assert -1 <= value <= 0


@pytest.mark.parametrize("form", ["scale-free", "printed"])
def test_how_fast_things_move_does_not_matter(form: str) -> None:
    flow, landmarks = random_field(6), torch.rand(3, 5, 2, generator=torch.Generator().manual_seed(6))
    torch.testing.assert_close(
        preference(flow, landmarks, 0.08, form), preference(flow * 7, landmarks, 0.08, form)
    )


def test_only_the_printed_form_depends_on_the_unit_of_length() -> None:
    """The same scene at half the size within the image: distances and sigma halve."""
    flow, place = one_moves(8, 8)
    offsets = torch.tensor([(0.05, 0.02), (-0.1, 0.08), (0.0, 0.12)], dtype=torch.float64)
    free, printed = (
        [preference(flow, (place + offsets * scale)[None], 0.08 * scale, form).item() for scale in (1, 0.5)]
        for form in ("scale-free", "printed")
    )
    assert free[0] == pytest.approx(free[1], rel=1e-5)
    assert printed[1] == pytest.approx(4 * printed[0], rel=1e-5)


def test_neither_depends_on_the_number_of_pixels_or_landmarks() -> None:
    coarse = field(swirl(0.3), 32)
    fine = field(swirl(0.3), 64)
    landmarks = torch.rand(1, 4, 2, generator=torch.Generator().manual_seed(7))
    torch.testing.assert_close(
        preference(coarse, landmarks, 0.1), preference(fine, landmarks, 0.1), rtol=5e-3, atol=0
    )
    twice = torch.cat((landmarks, landmarks), 1)
    torch.testing.assert_close(preference(fine, landmarks, 0.1), preference(fine, twice, 0.1))


@pytest.mark.parametrize("form", ["scale-free", "printed"])
def test_its_gradient_agrees_with_finite_differences(form: str) -> None:
    flow = random_field(8)[:2, :, :12, :12].double()
    landmarks = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda points: preference(flow, points, 0.2, form), landmarks.requires_grad_(), eps=1e-5, atol=1e-6
    )


def test_it_draws_landmarks_towards_what_moves() -> None:
    flow, place = one_moves(12, 3)
    landmarks = (place + torch.tensor([[[-0.1, 0.05], [0.04, 0.1], [0.02, -0.08]]])).requires_grad_()
    preference(flow, landmarks, 0.1).backward()
    assert landmarks.grad is not None
    towards = place - landmarks.detach()
    along = (-landmarks.grad * towards).sum(-1) / (landmarks.grad.norm(dim=-1) * towards.norm(dim=-1))
    assert (along > 0.999).all()


def test_frames_in_which_nothing_moves_count_for_nothing() -> None:
    moving, place = one_moves(4, 4)
    still = torch.zeros_like(moving)
    nearly = torch.full_like(moving, 0.5 * math.sqrt(STILL))
    landmarks = place.expand(3, 2, 2).clone().requires_grad_()
    value = preference(torch.cat((moving, still, nearly)), landmarks, 0.1)
    assert value.item() == pytest.approx(-1 / 3, abs=1e-5)
    value.backward()
    assert landmarks.grad is not None
    assert torch.isfinite(landmarks.grad).all()
    assert (landmarks.grad[1:] == 0).all()
    assert preference(still, landmarks[:1], 0.1).item() == 0


def test_cells_are_those_of_the_one_home_of_coordinates() -> None:
    """`follow` at pixel centres reads the field as it is stored."""
    flow = random_field(9)
    cells = tensors.grid(SIZE, SIZE, SIZE).expand(3, -1, -1)
    torch.testing.assert_close(
        follow(flow, cells) - cells, flow.flatten(2).transpose(1, 2), atol=1e-5, rtol=0
    )
