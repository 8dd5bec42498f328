"""What is measured of a generator, in one run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.generation.evaluate import as_text, measure
from trigpoint.learning.generation.quality import kernel_distance, pairwise, pixel_features, redetect
from trigpoint.learning.generation.sampler import Sampler


@pytest.fixture(scope="module")
def images(threes: Digits) -> list[Any]:
    return [threes.image(i) for i in range(40)]


@pytest.fixture
def source(make_source: type, images: list[Any]) -> Any:
    return make_source(images)


@pytest.fixture(scope="module")
def result(sampler: Sampler, make_source: type, images: list[Any]) -> dict[str, Any]:
    return measure(sampler, make_source(images), references=15, features="pixels", seed=2)


def test_measures_are_those_of_the_images_drawn(
    result: dict[str, Any], sampler: Sampler, images: list[Any]
) -> None:
    """Everything again, from the seed on."""
    chosen = np.random.default_rng(2).permutation(40)
    given, others = (np.stack([images[i] for i in part]) for part in (chosen[:15], chosen[15:30]))
    landmarks = redetect(sampler, given)
    made = sampler.generate(landmarks, sampler.latents(15, 2))
    distances = np.linalg.norm(redetect(sampler, made) - landmarks, axis=-1)
    assert result["cycle_distance"] == pytest.approx(distances.mean(), rel=1e-3)
    assert result["real_distance"] == pytest.approx(pairwise(others[:16]))
    editor = Editor(sampler.predictor)
    decoded = editor.decode_many(editor.encode_squares(given, [Placement(0, 0, 1, 1)] * 15))
    for name, pictures in (("samples", made), ("reconstructions", decoded), ("real", given)):
        mean, deviation = kernel_distance(pixel_features(pictures), pixel_features(others), 2)
        assert result["kernel_distance"][name]["mean"] == pytest.approx(mean, rel=1e-3, abs=1e-4)
        assert result["kernel_distance"][name]["deviation"] == pytest.approx(deviation, rel=1e-2, abs=1e-4)


def test_the_result_is_plain_and_says_what_it_is_of(result: dict[str, Any]) -> None:
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert set(result) == {
        "references", "landmarks", "seed", "cycle_distance", "shuffled_distance", "sample_distance",
        "real_distance", "features", "kernel_distance",
    }  # fmt: skip
    assert (result["references"], result["landmarks"], result["seed"]) == (15, 7, 2)
    assert result["features"] == "pixels"
    assert min(result["cycle_distance"], result["shuffled_distance"], result["sample_distance"]) > 0
    # A generator that has hardly learnt anything is further from real digits than digits are.
    kernel = result["kernel_distance"]
    assert kernel["samples"]["mean"] > kernel["real"]["mean"] + kernel["real"]["deviation"]


def test_a_seed_decides(sampler: Sampler, source: Any, result: dict[str, Any]) -> None:
    assert measure(sampler, source, 15, "pixels", 2) == result
    assert measure(sampler, source, 15, "pixels", 3)["cycle_distance"] != result["cycle_distance"]


def test_no_image_is_used_twice(sampler: Sampler, source: Any) -> None:
    measure(sampler, source, 6, "pixels", 0)
    assert len(source.reads) == len(set(source.reads)) == 12


@pytest.mark.parametrize(("references", "used"), [(500, 20), (20, 20), (2, 2)])
def test_a_source_with_too_few_images_is_halved(
    sampler: Sampler, source: Any, references: int, used: int
) -> None:
    assert measure(sampler, source, references, "pixels", 0)["references"] == used


def test_images_that_cannot_be_read_are_left_out(
    sampler: Sampler, make_source: type, images: list[Any]
) -> None:
    source = make_source([*images[:3], None, *images[3:6], None, None])
    assert measure(sampler, source, 4, "pixels", 0)["references"] == 3
    assert measure(sampler, source, 2, "pixels", 0)["references"] == 2


@pytest.mark.parametrize(
    ("count", "unreadable", "words"),
    [
        (3, 0, "Measuring needs at least 4 images; the source has 3."),
        (3, 3, "Measuring needs at least 4 readable images."),
        (0, 5, "Measuring needs at least 4 readable images."),
    ],
)
def test_fewer_than_four_images_are_too_few(
    sampler: Sampler, make_source: type, images: list[Any], count: int, unreadable: int, words: str
) -> None:
    with pytest.raises(TrigpointError) as caught:
        measure(sampler, make_source([*images[:count], *[None] * unreadable]), 10, "pixels", 0)
    assert str(caught.value) == words


def test_the_text_names_every_number() -> None:
    text = as_text(
        {
            "references": 500,
            "landmarks": 10,
            "seed": 0,
            "cycle_distance": 0.0123,
            "shuffled_distance": 0.0615,
            "sample_distance": 0.15,
            "real_distance": 0.2,
            "features": "dlib",
            "kernel_distance": {
                "samples": {"mean": 0.25, "deviation": 0.01},
                "real": {"mean": -0.0001, "deviation": 0.002},
            },
        }
    )
    assert text.splitlines() == [
        "500 references, K = 10, seed 0",
        "structure   landmarks found again within 1.23% of the image edge; 6.15% from another reference's "
        "(5.0 times)",
        "diversity   samples of one reference are 0.150 apart, real images 0.200 (75%)",
        "realism     kernel distance to as many other real images (dlib features):",
        "              samples            0.2500 +- 0.0100",
        "              real              -0.0001 +- 0.0020",
    ]


def test_the_text_of_measures_that_are_nothing(result: dict[str, Any]) -> None:
    assert "(0%)" in as_text(result | {"sample_distance": 0.0, "real_distance": 0.0})
    assert "within 0.00% of" in as_text(result | {"cycle_distance": 0.0})
