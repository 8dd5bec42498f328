"""Images as codes and back, and what can be done to a code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import trigpoint
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement, extract, fit_box
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.core.subjects import DETECTORS
from trigpoint.learning.backends import pytorch
from trigpoint.learning.editing.editor import FAR, Code, Editor

PLACE = Placement(0, 0, 100, 100)


def code_of(*points: tuple[float, float], looks: float | None = None) -> Code:
    """A code with these landmarks, and with descriptors that are all this number."""
    descriptors = None if looks is None else np.full((len(points) + 1, 2), looks, np.float32)
    return Code(np.array(points, np.float64), descriptors, PLACE)


def picture(seed: int = 0, size: tuple[int, int] = (60, 50), channels: int = 3) -> NDArray[np.uint8]:
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, channels), dtype=np.uint8)
    return np.kron(small, np.ones((size[1] // 5, size[0] // 6, 1), np.uint8))


def tensor(square: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(square.astype(np.float32) / 255).permute(2, 0, 1)[None]


# Exports


def test_the_package_exports_them() -> None:
    assert trigpoint.Editor is Editor
    assert trigpoint.Code is Code
    assert {"Editor", "Code"} <= set(trigpoint.__all__)


# Encoding and decoding


def test_encode_is_the_model_s(colour_editor: Editor) -> None:
    image = picture()
    code = colour_editor.encode(image)
    place = fit_box(60, 50, "pad")
    assert code.place == place
    with torch.inference_mode():
        detection, descriptors = colour_editor.predictor.backend.model.encode(
            tensor(extract(image, place, 32))
        )
    np.testing.assert_allclose(code.landmarks, detection.landmarks[0], atol=1e-6)
    assert code.landmarks.dtype == np.float64
    assert descriptors is not None
    assert code.descriptors is not None
    np.testing.assert_allclose(code.descriptors, descriptors[0], atol=1e-5)
    assert code.descriptors.shape == (5, 4)


def test_landmarks_are_those_of_the_predictor(colour_editor: Editor) -> None:
    image, box = picture(), Placement(7.5, 3.25, 40, 38)
    code = colour_editor.encode(image, box)
    found = colour_editor.predictor.detect(image, box)
    np.testing.assert_allclose(code.place.to_original(code.landmarks), found.points, atol=1e-4)


def test_a_batch_is_encoded_as_its_images(colour_editor: Editor) -> None:
    images = [picture(seed) for seed in range(3)]
    prepared = [colour_editor.prepare(image) for image in images]
    codes = colour_editor.encode_squares(
        np.stack([square for square, _ in prepared]), [place for _, place in prepared]
    )
    for image, code in zip(images, codes, strict=True):
        alone = colour_editor.encode(image)
        np.testing.assert_allclose(code.landmarks, alone.landmarks, atol=1e-5)
        assert code.descriptors is not None
        assert alone.descriptors is not None
        np.testing.assert_allclose(code.descriptors, alone.descriptors, atol=1e-4)
        assert code.place == alone.place


def test_decode_is_the_model_s(colour_editor: Editor) -> None:
    code = colour_editor.encode(picture()).moved({1: (0.1, -0.05)})
    assert code.descriptors is not None
    with torch.inference_mode():
        image = colour_editor.predictor.backend.model.decode(
            torch.from_numpy(code.landmarks[None]).float(), torch.from_numpy(code.descriptors[None])
        )
    decoded = colour_editor.decode(code)
    assert decoded.shape == (32, 32, 3)
    assert decoded.dtype == np.uint8
    expected = np.clip(image[0].permute(1, 2, 0).numpy() * 255, 0, 255)
    np.testing.assert_allclose(decoded, expected, atol=0.51)


def test_pixels_beyond_black_and_white_are_clipped(
    colour_editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a colour margin the decoder may leave [0, 1]."""
    values = torch.tensor([-0.2, 0.0, 0.5, 1.0, 1.3]).reshape(1, 1, 1, 5).expand(1, 3, 5, 5)
    monkeypatch.setattr(colour_editor.predictor.backend.model, "decode", lambda *_: values)
    decoded = colour_editor.decode(colour_editor.encode(picture()))
    assert decoded[0, :, 0].tolist() == [0, 0, 128, 255, 255]


def test_many_codes_are_decoded_batch_by_batch_in_order(
    colour_editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = colour_editor.encode(picture())
    codes = [code.moved({0: (0.02 * step, 0)}) for step in range(7)]
    monkeypatch.setattr(pytorch, "BATCH", 3)
    many = colour_editor.decode_many(iter(codes))
    assert many.shape == (7, 32, 32, 3)
    for one, image in zip(codes, many, strict=True):
        np.testing.assert_allclose(image.astype(int), colour_editor.decode(one), atol=1)


def test_a_model_without_descriptors(grey_editor: Editor) -> None:
    code = grey_editor.encode(picture(channels=1))
    assert code.descriptors is None
    with torch.inference_mode():
        image = grey_editor.predictor.backend.model.decode(
            torch.from_numpy(code.landmarks[None]).float(), None
        )
    decoded = grey_editor.decode(code)
    assert decoded.shape == (28, 28, 1)
    np.testing.assert_allclose(decoded, image[0].permute(1, 2, 0).numpy() * 255, atol=0.51)


def test_landmarks_and_descriptors_both_matter(colour_editor: Editor) -> None:
    one, other = (colour_editor.encode(picture(seed)) for seed in (0, 1))
    plain = colour_editor.decode(one).astype(int)
    assert np.abs(colour_editor.decode(one.moved({0: (0.2, 0.1)})) - plain).max() > 0
    assert np.abs(colour_editor.decode(one.dressed(other)) - plain).max() > 0


def test_the_trained_digits_morph(tiny_run: Run) -> None:
    """A finished run without descriptors, from its folder."""
    editor = Editor.load(tiny_run.folder)
    start, end = (editor.encode(picture(seed, channels=1)) for seed in (0, 1))
    images = editor.decode_many(start.towards(end, share, appearance="blend") for share in (0, 0.5, 1))
    assert images.shape == (3, 28, 28, 1)
    np.testing.assert_array_equal(images[0], editor.decode(start))
    np.testing.assert_allclose(images[2].astype(int), editor.decode(end), atol=1)


def test_files_and_grey_arrays(colour_editor: Editor, tmp_path: Path) -> None:
    image = picture()
    Image.fromarray(image).save(tmp_path / "a.png")
    expected = colour_editor.encode(image).landmarks
    np.testing.assert_array_equal(colour_editor.encode(tmp_path / "a.png").landmarks, expected)
    np.testing.assert_array_equal(colour_editor.encode(str(tmp_path / "a.png")).landmarks, expected)
    grey = picture(channels=1)
    np.testing.assert_array_equal(
        colour_editor.encode(grey[:, :, 0]).landmarks, colour_editor.encode(grey).landmarks
    )


def test_what_is_no_image_is_refused(colour_editor: Editor) -> None:
    with pytest.raises(TrigpointError, match="got float64"):
        colour_editor.encode(np.zeros((20, 20, 3)))  # type: ignore[arg-type]
    with pytest.raises(TrigpointError, match="no run folder nowhere"):
        Editor.load("nowhere")


def test_the_largest_face_is_meant(colour_editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model that finds faces; a box overrules it, and without a face it is the whole image."""
    predictor = colour_editor.predictor
    editor = Editor(Predictor(predictor.backend, predictor.config, "face"))
    found = [Placement(5, 5, 20, 20), Placement(30, 10, 25, 25), Placement(2, 30, 15, 15)]
    monkeypatch.setitem(DETECTORS, "face", lambda photo: found[: photo.shape[2]])  # wants (H, W, C)
    assert editor.encode(picture()).place == found[1]
    assert editor.encode(picture()[:, :, 0]).place == found[0]
    assert editor.encode(picture(), found[2]).place == found[2]
    monkeypatch.setitem(DETECTORS, "face", lambda _: [])
    assert editor.encode(picture()).place == fit_box(60, 50, "pad")


def test_redetect_finds_what_the_detector_sees(colour_editor: Editor) -> None:
    codes = [colour_editor.encode(picture(seed)) for seed in (0, 1)]
    images = colour_editor.decode_many(codes)
    found = colour_editor.redetect(images)
    assert found.shape == (2, 4, 2)
    for image, points in zip(images, found, strict=True):
        with torch.inference_mode():
            expected = colour_editor.predictor.backend.model.detect(tensor(image)).landmarks[0]
        np.testing.assert_allclose(points, expected, atol=1e-5)


def test_codes_of_another_model_are_not_decoded(colour_editor: Editor, grey_editor: Editor) -> None:
    colour, grey = colour_editor.encode(picture()), grey_editor.encode(picture())
    for editor, wrong in ((colour_editor, grey), (grey_editor, colour)):
        with pytest.raises(TrigpointError, match="made by another model"):
            editor.decode(wrong)
    with pytest.raises(TrigpointError, match="made by another model"):
        colour_editor.decode_many([colour, grey])


# Moving


def test_moved_landmarks() -> None:
    code = code_of((0.1, 0.2), (0.3, 0.4), (0.5, 0.6), looks=1.0)
    after = code.moved({0: (0.05, 0.0), 2: (-0.1, 0.2)})
    np.testing.assert_allclose(after.landmarks, [(0.15, 0.2), (0.3, 0.4), (0.4, 0.8)], atol=1e-12)
    np.testing.assert_array_equal(code.landmarks, [(0.1, 0.2), (0.3, 0.4), (0.5, 0.6)])  # as it was
    assert after.descriptors is code.descriptors
    assert after.place == code.place
    np.testing.assert_array_equal(code.moved({}).landmarks, code.landmarks)


@pytest.mark.parametrize("number", [3, -1, 99, 1.5])
def test_landmarks_that_do_not_exist(number: int) -> None:
    code = code_of((0.1, 0.2), (0.3, 0.4), (0.5, 0.6))
    words = rf"The landmarks are 0 to 2; got {number}\."
    with pytest.raises(TrigpointError, match=words):
        code.moved({number: (0.1, 0.1)})
    with pytest.raises(TrigpointError, match=words):
        code.towards(code, 0.5, [0, number])


@pytest.mark.parametrize("step", [(0.1,), (0.1, 0.2, 0.3), 0.1])
def test_a_step_has_two_numbers(step: tuple[float, float]) -> None:
    with pytest.raises(TrigpointError, match=r"moves by \(dx, dy\); got"):
        code_of((0.1, 0.2)).moved({0: step})


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3,), (3, 3), (1, 3, 2)])
def test_landmarks_of_another_shape(shape: tuple[int, ...]) -> None:
    code = code_of((0.1, 0.2), (0.3, 0.4), (0.5, 0.6))
    with pytest.raises(
        TrigpointError, match=rf"Expected 3 landmarks as \(x, y\); got an array of \({shape[0]},"
    ):
        code.with_landmarks(np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, FAR + 1, -1e300])
def test_landmarks_that_are_nowhere(value: float) -> None:
    code = code_of((0.1, 0.2), (0.3, 0.4))
    with pytest.raises(
        TrigpointError, match=r"must be within 100 edges of the crop; got (nan|-?inf|101\.0|-1e)"
    ):
        code.with_landmarks(np.array([(0.1, 0.2), (0.3, value)]))


def test_with_landmarks_keeps_a_copy() -> None:
    points = np.array([(0.5, 0.5)])
    code = code_of((0.1, 0.2)).with_landmarks(points)
    points[:] = 9
    np.testing.assert_array_equal(code.landmarks, [(0.5, 0.5)])


# Another image


def test_dressed_takes_descriptors_only() -> None:
    one = code_of((0.1, 0.2), looks=1.0)
    other = replace(code_of((0.7, 0.8), looks=5.0), place=Placement(3, 3, 10, 10))
    after = one.dressed(other)
    np.testing.assert_array_equal(after.landmarks, one.landmarks)
    np.testing.assert_array_equal(after.descriptors, other.descriptors)
    assert after.place == one.place


def test_without_descriptors_there_is_no_appearance() -> None:
    bare = code_of((0.1, 0.2))
    with pytest.raises(TrigpointError, match="no descriptors"):
        bare.dressed(bare)
    assert bare.towards(code_of((0.5, 0.2)), 0.5, appearance="blend").descriptors is None


def test_codes_of_two_models_do_not_mix() -> None:
    one, bare, more = (
        code_of((0, 0), looks=1.0),
        code_of((0, 0)),
        code_of((0, 0), (1, 1), looks=1.0),
    )
    for other in (bare, more):
        with pytest.raises(TrigpointError, match="different models"):
            one.dressed(other)
        with pytest.raises(TrigpointError, match="different models"):
            one.towards(other, 0.5)


@pytest.mark.parametrize(
    ("share", "x", "looks"),
    [
        (0.0, 0.2, 1.0),
        (0.25, 0.3, 2.0),
        (1.0, 0.6, 5.0),
        (1.5, 0.8, 5.0),  # past the other image, with no more than its appearance
        (-0.5, 0.0, 1.0),  # away from it, with no less than one's own
    ],
)
def test_towards_another_image(share: float, x: float, looks: float) -> None:
    one, other = code_of((0.2, 0.5), (0.2, 0.9), looks=1.0), code_of((0.6, 0.5), (0.6, 0.1), looks=5.0)
    blended = one.towards(other, share, appearance="blend")
    np.testing.assert_allclose(blended.landmarks, [(x, 0.5), (x, 0.9 - 0.8 * share)], atol=1e-12)
    np.testing.assert_allclose(blended.descriptors, np.full((3, 2), looks), atol=1e-6)
    assert blended.descriptors is not None
    assert blended.descriptors.dtype == np.float32
    kept = one.towards(other, share)
    np.testing.assert_array_equal(kept.landmarks, blended.landmarks)
    assert kept.descriptors is one.descriptors
    assert kept.place == one.place


@pytest.mark.parametrize("chosen", [[1], (2, 0), [1, 1], ()])
def test_only_some_landmarks_go(chosen: tuple[int, ...]) -> None:
    one = code_of((0.1, 0.1), (0.2, 0.2), (0.3, 0.3), looks=0.0)
    other = code_of((0.5, 0.1), (0.6, 0.2), (0.7, 0.3), looks=1.0)
    after = one.towards(other, 0.5, chosen, "blend")
    for number in range(3):
        expected = one.landmarks[number] + ((0.2, 0.0) if number in chosen else (0.0, 0.0))
        np.testing.assert_allclose(after.landmarks[number], expected, atol=1e-12)
    np.testing.assert_allclose(after.descriptors, np.full((4, 2), 0.5))  # the appearance goes as a whole
