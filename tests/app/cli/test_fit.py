"""`trigpoint fit`: labels in, named keypoints and their error out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.runs import Run
from trigpoint.core.sources.images import read_image
from trigpoint.core.sources.video import Video

Call = Callable[..., Any]  # the fixture `trigpoint`
NAMES = ("middle", "beside")


def keypoints_of(landmarks: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is labelled: the middle of the landmarks, and 3 pixels right of the first, in pixels."""
    return np.stack((landmarks.mean(0), landmarks[0] + (3, 0)))


@pytest.fixture
def project(colour_run: Run, make_photos: Callable[..., Path], tmp_path: Path) -> Path:
    """A DeepLabCut project with two labelled folders of 6 and 12 frames; one label is missing."""
    predictor = Predictor.load(colour_run.folder)
    folder = tmp_path / "project"
    for name, count in (("day 1", 6), ("day 2", 12)):
        frames = make_photos(folder / "labeled-data" / name, count)
        header = [
            ["scorer", *["me"] * 4],
            ["bodyparts", *(part for part in NAMES for _ in "xy")],
            ["coords", *"xyxy"],
        ]
        rows = []
        for frame in sorted(frames.iterdir()):
            labels = keypoints_of(predictor.detect(read_image(frame)).points) - 0.5  # as DeepLabCut counts
            rows.append([f"labeled-data/{name}/{frame.name}", *labels.flatten().tolist()])
        rows[0][3:] = ["", ""]
        with (frames / "CollectedData_me.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(header + rows)
    return folder


def test_keypoints_that_follow_the_landmarks_are_found(
    trigpoint: Call, colour_run: Run, project: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "keypoints.json"
    said = trigpoint(
        "fit", colour_run.folder, f"deeplabcut:{project}", "--out", out, "--json", tmp_path / "m.json"
    )
    assert said.code == 0, said.err
    fitted = KeypointMap.load(out)
    measured = json.loads((tmp_path / "m.json").read_text())
    assert fitted.measured == measured
    assert fitted.names == NAMES
    assert fitted.landmarks == 4
    assert measured["labels"] == {"middle": 18, "beside": 16}
    assert (measured["images"], measured["groups"], measured["folds"]) == (18, 2, 2)
    assert measured["error_pixels"] < 0.5
    assert measured["error_pixels"] < measured["mean_shape_pixels"]
    assert "2 keypoints from 4 landmarks, fitted on 18 images" in said.out
    assert f"error {measured['error_pixels']} px, cross-validated over 2 folders in 2 folds" in said.out
    assert f"(the mean shape: {measured['mean_shape_pixels']} px)" in said.out
    for name, labels in (("middle", 18), ("beside", 16)):
        error = measured["per_keypoint_pixels"][name]
        assert f"  {name:24}{error} px  ({labels} labels)" in said.out
    assert f"trigpoint detect {colour_run.folder} VIDEO... --keypoints {out}" in said.out
    assert "both sides" not in said.out


def test_fitted_keypoints_are_what_detect_writes(
    trigpoint: Call, colour_run: Run, project: Path, tmp_path: Path
) -> None:
    out = tmp_path / "keypoints.json"
    assert trigpoint("fit", colour_run.folder, f"deeplabcut:{project}", "--out", out).code == 0
    with VideoWriter(tmp_path / "a.mp4", (48, 36), 25) as writer:
        for frame in sorted((project / "labeled-data" / "day 2").glob("*.*g")):
            writer.add(read_image(frame))
    words = ("--keypoints", out, "--out", tmp_path / "found")
    assert trigpoint("detect", colour_run.folder, tmp_path / "a.mp4", *words).code == 0
    with (tmp_path / "found" / "a.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    found = np.array([[float(row["x"]), float(row["y"])] for row in rows]).reshape(12, 2, 2)
    predictor, video = Predictor.load(colour_run.folder), Video(tmp_path / "a.mp4")
    expected = [keypoints_of(predictor.detect(video.read(frame)).points) for frame in range(12)]
    np.testing.assert_allclose(found, expected, atol=0.5)


def test_labels_of_one_folder_come_with_a_warning(
    trigpoint: Call, colour_run: Run, project: Path, tmp_path: Path
) -> None:
    (project / "labeled-data" / "day 1" / "CollectedData_me.csv").unlink()
    said = trigpoint("fit", colour_run.folder, f"deeplabcut:{project}", "--out", tmp_path / "k.json")
    assert said.code == 0, said.err
    assert "cross-validated over single images in 10 folds" in said.out
    assert "All labels come from one folder: frames of one video are on both sides" in said.out


def labels_in(photos: Path, count: int, names: tuple[str, ...] = ("nose",)) -> str:
    files = sorted(path.name for path in photos.iterdir())[:count]
    lines = ["image,landmark,x,y,split"]
    lines += [f"{name},{part},{5 + i},{9 - i},train" for i, name in enumerate(files) for part in names]
    (photos / "labels.csv").write_text("\n".join(lines) + "\n")
    return f"csv:{photos / 'labels.csv'}"


def test_three_labels_are_enough_to_fit_and_too_few_to_measure(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    said = trigpoint("fit", colour_run.folder, labels_in(photos, 3), "--out", tmp_path / "k.json")
    assert said.code == 0, said.err
    assert "error not measured: there are too few labels to leave some out" in said.out
    assert f"  {'nose':24}not measured  (3 labels)" in said.out
    assert "None" not in said.out
    assert KeypointMap.load(tmp_path / "k.json").measured["error_pixels"] is None


def test_a_fit_that_exists_is_kept_unless_told_otherwise(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "k.json"
    out.write_text("fitted before")
    words = ("fit", colour_run.folder, labels_in(photos, 5), "--out", out)
    said = trigpoint(*words)
    assert said.code == 0
    assert "--overwrite fits again" in said.out
    assert out.read_text() == "fitted before"
    assert trigpoint(*words, "--overwrite").code == 0
    assert KeypointMap.load(out).names == ("nose",)


def test_without_its_measures_a_fit_is_not_finished(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    words = ("fit", colour_run.folder, labels_in(photos, 5), "--out", tmp_path / "k.json")
    assert trigpoint(*words, "--json", photos).refused(f"{photos}")
    assert trigpoint(*words, "--json", tmp_path / "m.json").code == 0
    assert (tmp_path / "m.json").is_file()
    assert KeypointMap.load(tmp_path / "k.json").names == ("nose",)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing", "LABELS"], "no run folder nothing"),
        (["RUN", "nowhere"], "no file or folder nowhere"),
        (["RUN", "photos"], "no annotated landmarks"),
        (["RUN", "LABELS"], "nose is labelled on 2 images; at least 3 are needed"),
        (["RUN", "LABELS", "--out", "photos"], "photos is a folder; --out names a file"),
        (["RUN", "LABELS", "--out", "photos", "--overwrite"], "photos is a folder; --out names a file"),
    ],
)
def test_fit_refuses_bad_input_in_one_sentence(
    trigpoint: Call,
    colour_run: Run,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    stands_for = {"RUN": str(colour_run.folder), "LABELS": labels_in(photos, 2)}
    out = [] if "--out" in words else ["--out", "k.json"]
    said = trigpoint("fit", *(stands_for.get(word, word) for word in words), *out)
    assert said.refused(expected)
    assert not Path("k.json").exists()
