"""dlib's pretrained models beside ours, on a drawn face and on real ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.mtfl import MTFL
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation import faces
from trigpoint.learning.evaluation.faces import SIZE, Dlib, five_landmarks

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "mtfl"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the MTFL faces in ../shared/data/mtfl")


@pytest.fixture(scope="module")
def dlib() -> Dlib:
    return Dlib()


def test_the_five_of_sixty_eight_points() -> None:
    """Eyes are the means of points 36-41 and 42-47, the nose tip is 30, the mouth's corners 48 and 54."""
    points = np.stack((np.arange(68.0), np.arange(68.0) ** 2), axis=-1)
    expected = [
        points[36:42].mean(0), points[42:48].mean(0), points[30], points[48], points[54]
    ]  # fmt: skip
    np.testing.assert_allclose(five_landmarks(points[None])[0], expected)


def test_without_the_package_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TrigpointError, match=r"pip install 'trigpoint\[embedding\]'"):
        faces.Dlib()


def test_where_no_face_is_found_the_usual_box_is_taken(dlib: Dlib) -> None:
    box, found = dlib.box(np.full((SIZE, SIZE, 3), 128, np.uint8))
    assert not found
    assert box.left() == round(faces.USUAL_BOX[0] * SIZE)
    assert box.bottom() == round(faces.USUAL_BOX[3] * SIZE)


@real
def test_landmarks_of_real_faces_are_near_the_annotations(dlib: Dlib) -> None:
    """Within a quarter of the inter-ocular distance on average, for every face that dlib finds."""
    source = MTFL(DATA, "test")
    assert source.annotations is not None
    errors = []
    for index in range(0, 200, 20):
        crop, place = square(source, index, Config(), SIZE)
        face = dlib.landmarks(crop)
        truth = place.to_unit(source.annotations.points[index])
        unit = np.linalg.norm(truth[0] - truth[1])
        if face.found:
            errors.append(np.linalg.norm(five_landmarks(face.sixty_eight) - truth, axis=-1).mean() / unit)
    assert len(errors) >= 5
    assert np.mean(errors) < 0.25


@real
def test_the_embedding_knows_a_face_again_after_shading(dlib: Dlib) -> None:
    source = MTFL(DATA, "test")
    one, other = (square(source, index, Config(), SIZE)[0] for index in (3, 40))
    darker = (one * 0.8).astype(np.uint8)
    first, again, different = (dlib.embed(crop) for crop in (one, darker, other))
    assert first.shape == (128,)
    assert np.linalg.norm(first - again) < np.linalg.norm(first - different) / 2
