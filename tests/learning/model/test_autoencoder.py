"""The whole model: shapes, evaluation mode, padding and first weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import ModelConfig
from trigpoint.learning.model.autoencoder import Autoencoder


def images(config: ModelConfig, batch: int, seed: int = 0) -> torch.Tensor:
    shape = (batch, config.channels, config.image_size, config.image_size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "batch", "maps"),
    [("compact-10", 2, 20), ("compact-30", 2, 20), ("tiny-7", 3, 20), ("celeba-10", 1, 96)],
)
def test_shapes_from_image_to_image(name: str, batch: int, maps: int) -> None:
    config = preset(name).model
    model = Autoencoder(config).eval()
    batch_of_images = images(config, batch)
    with torch.no_grad():
        detection, descriptors = model.encode(batch_of_images)
        decoded = model.decode(detection.landmarks, descriptors)
    count = config.landmarks
    assert detection.maps.shape == (batch, count + 1, maps, maps)
    assert detection.landmarks.shape == detection.variances.shape == (batch, count, 2)
    if config.descriptor_size:
        assert descriptors is not None
        assert descriptors.shape == (batch, count + 1, config.descriptor_size)
    else:
        assert descriptors is None
    assert decoded.shape == batch_of_images.shape
    assert decoded.min() > 0
    assert decoded.max() < 1


@pytest.mark.parametrize("name", ["compact-10", "tiny-7"])
def test_detection_does_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    """In evaluation; in training, where batch norm looks at the batch, it does."""
    config = preset(name).model
    model, batch = Autoencoder(config), images(config, 4)
    with torch.no_grad():
        model.train()
        together, alone = model.detect(batch).landmarks, model.detect(batch[:2]).landmarks
        assert (together[:2] - alone).abs().max() > 1e-4
        model.eval()
        together, alone = model.detect(batch).landmarks, model.detect(batch[:1]).landmarks
        torch.testing.assert_close(together[:1], alone, atol=1e-5, rtol=0)
        backwards = model.detect(batch.flip(0)).landmarks.flip(0)
        torch.testing.assert_close(together, backwards, atol=1e-5, rtol=0)


def test_detect_is_the_first_half_of_encode() -> None:
    config = preset("tiny-7").model
    model, batch = Autoencoder(config).eval(), images(config, 2)
    with torch.no_grad():
        torch.testing.assert_close(model.detect(batch).landmarks, model.encode(batch)[0].landmarks)


def test_detector_sees_the_image_with_edge_values_around() -> None:
    config = preset("tiny-7").model
    model, batch = Autoencoder(config), images(config, 2)
    padded = model.pad(batch)
    assert padded.shape == (2, 1, 40, 40)
    torch.testing.assert_close(padded[:, :, 6:34, 6:34], batch)
    torch.testing.assert_close(padded[:, :, 0, 6:34], batch[:, :, 0])
    torch.testing.assert_close(padded[:, :, 39, 39], batch[:, :, 27, 27])


def test_different_images_give_different_results() -> None:
    config = preset("compact-10").model
    model = Autoencoder(config).eval()
    with torch.no_grad():
        one, two = (model.encode(images(config, 1, seed)) for seed in (1, 2))
    assert (one[0].landmarks - two[0].landmarks).abs().max() > 1e-5
    assert one[1] is not None
    assert two[1] is not None
    assert (one[1] - two[1]).abs().max() > 1e-4


def test_seed_alone_decides_the_weights() -> None:
    """The landmarks' operators too, whatever the global generator has done before."""
    config = preset("compact-5").model
    torch.manual_seed(1)
    one = Autoencoder(config, seed=9).state_dict()
    torch.manual_seed(2)
    same, other = Autoencoder(config, seed=9).state_dict(), Autoencoder(config, seed=10).state_dict()
    for name, tensor in one.items():
        assert torch.equal(tensor, same[name]), name
    for name in ("descriptors.project", "decoder.expand", "detector.net.stem.0.0.weight"):
        assert not torch.equal(one[name], other[name]), name


def test_operators_keep_unit_variance() -> None:
    """S inputs on the way to a descriptor of size C, C on the way back."""
    config = replace(preset("compact-30").model, feature_channels=20, descriptor_size=8)
    model = Autoencoder(config)
    assert model.descriptors is not None
    assert model.descriptors.project.std().item() == pytest.approx(20**-0.5, rel=0.05)
    assert model.decoder.expand.std().item() == pytest.approx(8**-0.5, rel=0.05)


def test_coordinates_are_not_stored_with_the_weights() -> None:
    """They follow from the config, so a file of weights holds weights and batch-norm statistics only."""
    kept = Autoencoder(preset("compact-4").model).state_dict()
    assert not [name for name in kept if name.endswith(("cells", "variances"))]
    assert any(name.endswith("running_var") for name in kept)


def test_reconstruction_gradient_reaches_the_detector() -> None:
    """Through the landmarks alone, as there are no descriptors."""
    config = preset("tiny-7").model
    model, batch = Autoencoder(config).train(), images(config, 4)
    detection, descriptors = model.encode(batch)
    (model.decode(detection.landmarks, descriptors) - batch).square().sum().backward()
    first = model.detector.net.stem[0][0].weight  # type: ignore[index]
    assert first.grad is not None
    assert first.grad.any()
