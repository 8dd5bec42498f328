"""`trigpoint evaluate`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from trigpoint.app.cli import main
from trigpoint.app.cli.evaluate import describe, parse_labels
from trigpoint.core.errors import TrigpointError
from trigpoint.core.runs import Run
from trigpoint.learning.evaluation.protocols import FEW, LEAST_SQUARES, PROTOCOLS


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def evaluate(capfd: pytest.CaptureFixture[str], tiny_run: Run, faces: Path) -> Callable[..., Said]:
    """`trigpoint evaluate` of a small model on a small source of faces."""

    def call(*words: object, source: str = f"mtfl:{faces}", model: str = str(tiny_run.folder)) -> Said:
        capfd.readouterr()
        try:
            code = main(["evaluate", model, source, *(str(word) for word in words)])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Said(code, *capfd.readouterr())

    return call


def assert_one_sentence(said: Said, expected: str) -> None:
    assert said.code == 2, said
    assert said.err.startswith("trigpoint: "), said.err
    assert said.err.count("\n") == 1, said.err
    assert said.err.rstrip().endswith("."), said.err
    assert expected in said.err


def test_every_number_comes_with_protocol_landmarks_labels_and_split(evaluate: Callable[..., Said]) -> None:
    said = evaluate("--labels", "1,5,12,500,all", "--draws", 2)
    assert said.code == 0, said.err
    assert "% of the inter-ocular distance" in said.out
    assert f"protocol lmdis: {PROTOCOLS['lmdis'].text}" in said.out
    assert "K = 5, 1 view of each image, fitted on labels, measured on test of mtfl:" in said.out
    assert "12 labels, 4 test images" in said.out
    assert "mean shape" in said.out
    assert "untrained network" in said.out
    assert "by number of labels (protocol lmdis, K = 5, the same split)" in said.out
    assert f"over 2 draws, {FEW}" in said.out
    assert f"over 1 draw, {LEAST_SQUARES}" in said.out
    assert "left out: 500 labels, more than the 12 there are" in said.out
    assert "flip-aware" not in said.out


def test_files_are_written(evaluate: Callable[..., Said], tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("result.json", "picture.png", "plot.png")}
    said = evaluate(
        "--protocol", "saic", "--labels", "all, 2", "--draws", 2, "--no-untrained",
        "--json", files["result.json"], "--picture", files["picture.png"], "--plot", files["plot.png"],
    )  # fmt: skip
    assert said.code == 0, said.err
    result = json.loads(files["result.json"].read_text())
    assert (result["protocol"], result["labels"], result["test_images"]) == ("saic", 12, 4)
    assert [row["labels"] for row in result["by_labels"]] == [2, 12]
    assert "baseline_untrained_percent" not in result
    assert f"{result['backward_error_percent']:.2f} % backward" in said.out
    for name in ("picture.png", "plot.png"):
        assert str(files[name]) in said.out
        with Image.open(files[name]) as opened:
            assert opened.format == "PNG"
            assert min(opened.size) > 300


def test_a_validation_fits_on_nine_tenths_of_the_labels_and_measures_on_the_rest(
    evaluate: Callable[..., Said], tmp_path: Path
) -> None:
    said = evaluate("--validation", "--no-untrained", "--json", tmp_path / "result.json")
    assert said.code == 0, said.err
    assert "fitted on nine tenths of labels, measured on the rest of mtfl:" in said.out
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["labels"], result["test_images"]) == (10, 2)  # numbers 0 and 10 of the twelve


def test_bodies_are_measured_flip_aware(
    evaluate: Callable[..., Said], colour_run: Run, tmp_path: Path
) -> None:
    said = evaluate(
        "--json", tmp_path / "result.json", "--picture", tmp_path / "bodies.png", "--no-untrained",
        source="figures:40", model=str(colour_run.folder),
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "% of the edge of the crop" in said.out
    assert "flip-aware: against the annotation or its left-right swap, whichever is closer" in said.out
    assert json.loads((tmp_path / "result.json").read_text())["flip_aware"] is True


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--labels", "many"], "--labels takes whole numbers from 1 and `all`"),
        (["--labels", "0,5"], "got '0,5'"),
        (["--labels", "5,,6"], "got '5,,6'"),
        (["--labels", "2.5"], "got '2.5'"),
        (["--labels", "5", "--draws", "0"], "draws must be at least 1; got 0"),
        (["--seed", "-1"], "seed must be 0 or more"),
        (["--plot", "plot.png"], "--plot needs --labels"),
        (["--picture", "picture.jpg"], "must end in .png"),
        (["--picture", "nowhere/picture.png"], "no folder nowhere"),
        (["--json", "nowhere/result.json"], "no folder nowhere"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    evaluate: Callable[..., Said],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_sentence(evaluate(*words), expected)
    assert not list(tmp_path.iterdir())


def test_an_unknown_protocol_is_refused(evaluate: Callable[..., Said]) -> None:
    said = evaluate("--protocol", "best")
    assert said.code == 2
    assert "Traceback" not in said.err


def test_a_source_without_annotations_is_refused(evaluate: Callable[..., Said]) -> None:
    assert_one_sentence(
        evaluate(source="digits:3"), "digits:3 has no annotated landmarks to evaluate against."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("all", ["all"]), ("5", [5]), ("100,1, 10 ,10,all", [1, 10, 100, "all"])],
)
def test_labels_are_sorted_and_each_named_once(text: str, expected: list[object]) -> None:
    assert parse_labels(text) == expected


def test_labels_are_plain_digits() -> None:
    for text in ("-3", "1e3", "٣", "all,none"):
        with pytest.raises(TrigpointError, match="--labels takes"):
            parse_labels(text)


def test_a_landmark_that_no_test_image_has_is_said_to_be_so() -> None:
    result = {
        "unit": "edge of the crop", "error_percent": 5.0, "baseline_mean_shape_percent": 9.0,
        "protocol": "lmdis", "protocol_text": "Text.", "landmarks": 5, "views": 3, "split": "s",
        "source": "x", "labels": 3, "test_images": 2,
        "regressor": FEW, "flip_aware": False, "per_landmark": {"nose": 5.0, "tail": None}, "by_labels": [],
    }  # fmt: skip
    said = describe(result)
    assert "nose                   5.00 %" in said
    assert "tail                 never annotated" in said
