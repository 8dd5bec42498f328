"""The folder of a generator: a landmark model within, which every verb takes it for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trigpoint import api
from trigpoint.core.config.generator import COMPACT, GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.generator_run import GeneratorRun, is_generator
from trigpoint.core.inference.predictor import ZOO, Predictor, find_model
from trigpoint.core.runs import Run
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.editing.editor import Editor

SHIPPED = Run(ZOO / "digits-7")


@pytest.fixture
def begun(tmp_path: Path) -> GeneratorRun:
    run = GeneratorRun(tmp_path / "run")
    run.begin(replace(COMPACT, steps=7), ("digits:3",), SHIPPED)
    return run


def test_a_run_begins_with_its_settings_and_a_copy_of_the_model(begun: GeneratorRun) -> None:
    assert begun.settings() == replace(COMPACT, steps=7)
    assert begun.meta()["source"] == ["digits:3"]
    assert set(begun.meta()["versions"]) == {"trigpoint", "torch", "python"}
    assert begun.landmarks.model_file.read_bytes() == SHIPPED.model_file.read_bytes()
    assert begun.landmarks.config_file.read_bytes() == SHIPPED.config_file.read_bytes()
    found = {path.relative_to(begun.folder).as_posix() for path in begun.folder.rglob("*") if path.is_file()}
    assert found == {"config.json", "model/config.json", "model/model.safetensors"}


def test_a_run_is_finished_with_its_generator_and_its_summary(begun: GeneratorRun) -> None:
    assert not begun.finished
    begun.model_file.write_bytes(b"")
    assert begun.model_file.name == "generator.safetensors"
    assert not begun.finished
    begun.summary_file.write_text("{}")
    assert begun.finished
    begun.model_file.unlink()
    assert not begun.finished


def test_what_is_a_generator(begun: GeneratorRun, tmp_path: Path) -> None:
    assert is_generator(begun.folder)
    assert not is_generator(begun.landmarks.folder)
    assert not is_generator(SHIPPED.folder)
    assert not is_generator(tmp_path / "nowhere")


@pytest.mark.parametrize("folder", [SHIPPED.folder, Path("nowhere")])
def test_settings_of_anything_else_are_refused(folder: Path) -> None:
    with pytest.raises(TrigpointError, match=r"is no run of `trigpoint generate train`\.$"):
        GeneratorRun(folder).settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "config.json is damaged: "),
        ("[]", "config.json is not the config.json of a run."),
        (json.dumps({"config": {"nose": 1}, "source": [], "versions": {}}), "unknown name 'nose'."),
        (
            json.dumps({"config": {"steps": 0}, "source": [], "versions": {}}),
            "steps must be between 1 and",
        ),
    ],
)
def test_a_damaged_config_is_refused_in_one_sentence(begun: GeneratorRun, text: str, words: str) -> None:
    begun.config_file.write_text(text)
    with pytest.raises(TrigpointError) as caught:
        begun.settings()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# As a landmark model


def test_a_generator_stands_for_the_model_within(generator_run: GeneratorRun) -> None:
    assert find_model(generator_run.folder) == Run(generator_run.folder / "model")
    assert find_model(str(generator_run.folder)).config() == SHIPPED.config()
    images = [Digits("3").image(i) for i in range(5)]
    inner, shipped = (
        list(model.detect_many(images))
        for model in (Predictor.load(generator_run.folder), Predictor.load("digits-7"))
    )
    for one, other in zip(inner, shipped, strict=True):
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.confidence, other.confidence)


def test_other_ways_in_take_it_too(generator_run: GeneratorRun) -> None:
    image = Digits("3").image(0)
    expected = Predictor.load("digits-7").detect(image).points
    np.testing.assert_array_equal(api.load(generator_run.folder).detect(image).points, expected)
    code = Editor.load(generator_run.folder).encode(image)
    np.testing.assert_allclose(code.place.to_original(code.landmarks), expected, atol=1e-4)


def test_a_generator_of_a_generators_model(generator_run: GeneratorRun, tmp_path: Path) -> None:
    run = GeneratorRun(tmp_path / "run")
    run.begin(GeneratorConfig(), ("digits",), find_model(generator_run.folder))
    assert run.landmarks.model_file.read_bytes() == SHIPPED.model_file.read_bytes()


def test_the_names_of_landmarks_and_what_is_looked_for_go_along(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED.folder, tmp_path / "named")
    named = Run(tmp_path / "named")
    named.rename(["top", *map(str, range(1, 7))])
    named.config_file.write_text(json.dumps(named.meta() | {"subject": "face"}))
    run = GeneratorRun(tmp_path / "run")
    run.begin(GeneratorConfig(), ("digits",), named)
    loaded = Predictor.load(run.folder)
    assert loaded.names == ("top", "1", "2", "3", "4", "5", "6")
    assert loaded.subject == "face"
