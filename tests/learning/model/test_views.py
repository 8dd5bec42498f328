"""Several views of an image: the same places, found with the object upright."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from trigpoint.core.config.tree import ModelConfig
from trigpoint.learning import tensors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection
from trigpoint.learning.model.views import TURN, look

SHAPE = torch.tensor([[0.35, 0.4], [0.65, 0.4], [0.5, 0.7]])  # two eyes and a mouth


class Spots(nn.Module):
    """Finds the centre of each colour, but for an error to the right that grows with the face's tilt.

    It stands for a trained detector, which is best where images are framed as in training.
    """

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error
        self.cells, self.afar = tensors.grid(80, 64, 80), 48
        self.tilts: list[Tensor] = []  # of the faces it was shown
        self.edges: list[int] = []  # of the images

    def forward(self, padded: Tensor) -> Detection:
        self.edges.append(padded.shape[-1])
        weights = padded.flatten(2)
        points = weights / weights.sum(-1, keepdim=True) @ tensors.grid(padded.shape[-1], 64, 80)
        eyes = points[:, 1] - points[:, 0]
        self.tilts.append(torch.atan2(eyes[:, 1], eyes[:, 0]))
        wrong = torch.stack((self.error * self.tilts[-1], torch.zeros(len(points))), -1)
        maps = torch.cat((padded, torch.zeros_like(padded[:, :1])), 1)
        return Detection(maps, points + wrong[:, None], torch.zeros_like(points))


def model_with(error: float = 0.0) -> tuple[Autoencoder, Spots]:
    model, spots = Autoencoder(ModelConfig(landmarks=3)), Spots(error)
    model.detector = spots  # type: ignore[assignment]
    return model, spots


def painted(points: Tensor) -> Tensor:
    """(B, 3, 64, 64): a soft spot of each colour at each of points (B, 3, 2)."""
    square = (tensors.grid(64, 64, 64) - points[:, :, None]).square().sum(-1)
    return torch.exp(-square / (2 * 0.04**2)).reshape(len(points), 3, 64, 64)


def placed(angle: float, scale: float = 1.0, shift: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """The shape turned (degrees) and scaled about its middle, then shifted: (1, 3, 2)."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = scale * torch.tensor([[cos, -sin], [sin, cos]])
    middle = SHAPE.mean(0)
    return ((SHAPE - middle) @ turn.T + middle + torch.tensor(shift))[None]


@pytest.mark.parametrize("views", [1, 2, 3, 5])
def test_what_is_found_exactly_is_found_at_the_same_place(views: int) -> None:
    wanted = torch.cat((placed(0), placed(25, 1.1, (0.03, -0.02)), placed(-15, 0.9)))
    model, _ = model_with()
    points, trust = look(model, painted(wanted), SHAPE, views)
    torch.testing.assert_close(points, wanted, atol=2e-3, rtol=0)
    assert trust.shape == (3, 3)
    assert ((trust >= 0) & (trust <= 1)).all()


def test_further_views_see_the_object_upright_and_turned_to_both_sides() -> None:
    model, spots = model_with()
    look(model, painted(placed(20)), SHAPE, 3)
    tilts = [math.degrees(float(tilt)) for tilt in spots.tilts]
    turn = math.degrees(TURN)
    assert tilts[0] == pytest.approx(20, abs=0.3)
    assert sorted(tilts[1:]) == pytest.approx([-turn, turn], abs=0.5)


def test_an_error_that_comes_from_the_tilt_is_gone() -> None:
    wanted = placed(20)
    model, _ = model_with(error=0.1)
    once = (look(model, painted(wanted), SHAPE, 1)[0] - wanted).norm(dim=-1).mean()
    again = (look(model, painted(wanted), SHAPE, 3)[0] - wanted).norm(dim=-1).mean()
    assert once > 0.03
    assert again < 0.004


def test_only_the_view_that_places_the_others_is_from_afar() -> None:
    model, spots = model_with()
    look(model, painted(placed(20)), SHAPE, 3)
    assert spots.edges == [48, 80, 80]
    spots.edges.clear()
    look(model, painted(placed(20)), SHAPE, 1)
    assert spots.edges == [80]


def test_one_view_counts_where_the_object_cannot_be_of_that_size() -> None:
    """A face a third as large as usual: the first of the two images; the other is looked at again."""
    images = painted(torch.cat((placed(10, 0.33), placed(10))))
    model, _ = model_with(error=0.1)
    (once, surely), (again, trust) = look(model, images, SHAPE, 1), look(model, images, SHAPE, 3)
    torch.testing.assert_close(again[0], once[0])
    torch.testing.assert_close(trust[0], surely[0])
    assert not torch.allclose(again[1], once[1], atol=1e-3)


def test_without_a_shape_there_is_one_view() -> None:
    model, spots = model_with()
    look(model, painted(placed(10)), None, 3)
    assert len(spots.tilts) == 1


def test_an_image_from_afar_shows_the_same_at_the_same_place() -> None:
    """By the centre of mass of each colour; less than a twentieth of a small image's pixel off."""
    model, _ = model_with()
    wanted = placed(15, 0.9, (0.05, 0.02))
    small = model.afar(painted(wanted), 48)
    assert small.shape == (1, 3, 48, 48)
    weights = small.flatten(2)
    points = weights / weights.sum(-1, keepdim=True) @ tensors.grid(48, 64, 80)
    torch.testing.assert_close(points, wanted, atol=0.05 / 38.4, rtol=0)


@pytest.mark.parametrize("angle", [0, 30, -170])
def test_what_a_view_shows(angle: float) -> None:
    """Against `tensors.moved` of every point of the grid."""
    model, _ = model_with()
    images = painted(torch.cat((placed(0), placed(40, 1.2))))
    views = tensors.similarity(SHAPE, torch.cat((placed(angle, 0.8, (0.1, 0.0)), placed(5))))
    points = tensors.moved(views, tensors.grid(80, 64, 80).expand(2, -1, -1)).reshape(2, 80, 80, 2)
    torch.testing.assert_close(model.seen(images, views), tensors.sample(images, points), atol=1e-5, rtol=0)
