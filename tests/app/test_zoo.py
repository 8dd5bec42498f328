"""The shipped models: small, loadable, with a card that says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trigpoint.app.cli import main
from trigpoint.core.inference.predictor import ZOO, Predictor, shipped_models
from trigpoint.core.sources import open_source
from trigpoint.core.sources.base import Subset
from trigpoint.core.sources.mtfl import MTFL
from trigpoint.core.subjects import DETECTORS
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.evaluate import evaluate
from trigpoint.learning.evaluation.health import examine
from trigpoint.learning.tensors import to_tensor

DATA = Path(__file__).parents[2].parent / "shared" / "data"
FACES = DATA / "mtfl"
OWN = {
    "digits-7": "digits",
    "faces-10": f"mtfl:{FACES}",
    "faces-30": f"mtfl:{FACES}",
    "lips-8": f"deeplabcut:{DATA / 'lips'}",
    "shoes-8": f"shoes:{DATA / 'shoes'}",
}
CARD = {"landmarks", "error", "error_percent", "warp_error_percent", "data", "terms", "command"}


def test_what_is_shipped() -> None:
    assert shipped_models() == ["digits-7", "faces-10", "faces-30", "lips-8", "shoes-8"]


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_is_whole(name: str) -> None:
    folder = ZOO / name
    assert {file.name for file in folder.iterdir()} == {"README.md", "config.json", "model.safetensors"}
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 5_000_000
    meta = json.loads((folder / "config.json").read_text())
    assert set(meta["card"]) == CARD
    assert all(word.endswith(":FOLDER") or ":" not in word for word in meta["source"])
    card = (folder / "README.md").read_text()
    for part in (meta["card"]["data"], meta["card"]["terms"], meta["card"]["error"], meta["card"]["command"]):
        assert part in card


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_detects(name: str) -> None:
    predictor = Predictor.load(name)
    assert predictor.subject in ("", *DETECTORS)
    width, height = predictor.config.video.frame or (100, 80)
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    found = predictor.detect(image)
    assert found.points.shape == (predictor.landmarks, 2)
    assert np.isfinite(found.points).all()
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()


def test_the_most_precise_takes_three_views_and_the_others_one() -> None:
    views = {name: Predictor.load(name).config.views for name in shipped_models()}
    assert views == {"digits-7": 1, "faces-10": 1, "faces-30": 3, "lips-8": 1, "shoes-8": 1}


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_landmark_is_good_on_images_like_those_it_was_trained_on(name: str) -> None:
    """Also those that hardly move, as on shoes."""
    kind, _, folder = OWN[name].partition(":")
    if folder and not Path(folder).is_dir():
        pytest.skip(f"there is no {folder} with images for {kind}")
    predictor = Predictor.load(name)
    source = open_source([OWN[name]], video=predictor.config.video)
    rows = np.linspace(0, len(source) - 1, 64).astype(int)
    pixels = np.stack([square(source, row, predictor.config)[0] for row in rows])
    table = examine(predictor.backend.model, to_tensor(pixels))
    assert {row["landmark"]: row["verdict"] for row in table} == dict.fromkeys(
        range(predictor.landmarks), "good"
    )


@pytest.mark.skipif(not FACES.is_dir(), reason="the MTFL faces are not at ../shared/data/mtfl")
@pytest.mark.parametrize(("name", "limit"), [("faces-10", 9.0), ("faces-30", 8.5)])
def test_shipped_landmarks_predict_the_eyes_nose_and_mouth_of_faces(name: str, limit: float) -> None:
    """Of a quarter of the test faces, from a sixteenth of the labels: so a little above the card's error."""
    labels, test = MTFL(FACES, "labels"), MTFL(FACES, "test")
    found = evaluate(
        Predictor.load(name),
        Subset(labels, range(0, len(labels), 16)),
        Subset(test, range(0, len(test), 4)),
        name,
        with_untrained=False,
    )
    assert found["error_percent"] < limit < found["baseline_mean_shape_percent"] / 2


def test_models_lists_them_with_their_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    for name in shipped_models():
        card = json.loads((ZOO / name / "config.json").read_text())["card"]
        assert name in text
        assert card["error"] in text


def test_models_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == shipped_models()
    assert all(set(row) == CARD | {"name"} for row in rows)
