"""Experiments end to end on small things: trained once, resumed, reused, set beside the paper."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.app.reproduce import EXPERIMENTS, Row
from trigpoint.app.reproduce.runner import Settings, config_of, differences, measure, model_of, words_of
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError

SMALL = ("train.batch_size=4", "train.recalibration_images=32")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, micro: Config) -> None:
    """Whatever the images, `--compact` means the smallest model."""

    def suitable(source: object, landmarks: int) -> Config:
        return replace(micro, model=replace(micro.model, landmarks=landmarks))

    monkeypatch.setattr(api, "suitable", suitable)


def settings(tmp_path: Path, **changes: object) -> Settings:
    plain = Settings("digits:3", tmp_path / "out", compact=True, steps=3, values=SMALL)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small")
def test_a_finished_model_is_not_trained_again(tmp_path: Path) -> None:
    row = Row("4 landmarks", "mnist-7", None, 4)
    run = model_of(row, settings(tmp_path))
    written = run.model_file.stat().st_mtime_ns
    assert model_of(replace(row, label="another name"), settings(tmp_path)).folder == run.folder
    assert run.model_file.stat().st_mtime_ns == written


@pytest.mark.usefixtures("small")
def test_an_interrupted_model_is_resumed(tmp_path: Path) -> None:
    row = Row("4 landmarks", "mnist-7", None, 4)
    run = model_of(row, settings(tmp_path))
    before = run.model_file.read_bytes()
    run.model_file.unlink()
    run.summary_file.unlink()
    assert model_of(row, settings(tmp_path)).model_file.read_bytes() == before


@pytest.mark.usefixtures("small")
def test_other_settings_do_not_overwrite_a_model(tmp_path: Path) -> None:
    row = Row("4 landmarks", "mnist-7", None, 4)
    model_of(row, settings(tmp_path))
    with pytest.raises(TrigpointError, match="holds a model of other settings"):
        model_of(row, settings(tmp_path, steps=4))


@pytest.mark.usefixtures("small")
def test_a_run_of_the_same_config_and_source_is_reused(tmp_path: Path) -> None:
    row = Row("4 landmarks", "mnist-7", None, 4)
    run = model_of(row, settings(tmp_path))
    kept = Path(shutil.copytree(run.folder, tmp_path / "kept"))
    elsewhere = settings(tmp_path, out=tmp_path / "elsewhere", reuse=(kept,))
    assert model_of(row, elsewhere).folder == kept
    other = model_of(row, replace(elsewhere, source="digits:4"))
    assert other.folder.is_relative_to(tmp_path / "elsewhere")


def test_the_paper_s_scale_is_its_preset(tmp_path: Path) -> None:
    row = EXPERIMENTS["table-1c"].rows[3]
    config = config_of(row, Settings("mtfl:nowhere", tmp_path))
    assert config.model.image_size == 80
    assert config.train.steps == 300_000
    assert config.losses.sep == 0
    assert config_of(row, Settings("mtfl:nowhere", tmp_path, steps=3000)).train.lr_decay_at == (1000, 2000)


@pytest.mark.parametrize(
    ("source", "variant", "expected"),
    [
        ("mtfl:faces", "", "mtfl:faces"),
        ("human36m:bodies", "walking", "human36m-walking:bodies"),
        ("human36m-walking:bodies", "walking", "human36m-walking:bodies"),
        ("mnist:idx", "3", "mnist-3:idx"),
        ("digits", "3", "digits:3"),
    ],
)
def test_a_row_may_need_a_variant_of_the_source(source: str, variant: str, expected: str) -> None:
    row = Row("x", "mnist-7", variant=variant)
    assert words_of(row, Settings(source, Path("out"))) == expected


def test_a_folder_has_no_variants(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="needs a dataset with the variant 'walking'"):
        words_of(Row("walking", "human-16", variant="walking"), Settings(str(tmp_path), tmp_path))


@pytest.mark.usefixtures("small")
def test_differences_name_data_splits_and_scale(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["celeba-10"]
    chosen = settings(tmp_path)
    row = measure(experiment, replace(experiment.rows[0], landmarks=4), chosen)
    said = " ".join(differences(experiment, chosen, [row]))
    assert "digits:3 here, celeba in the paper" in said
    assert "161,962" in said
    assert "300,000 steps of 16 images of 80 pixels in the paper" in said
    assert "micro with 3 steps of 4 images of 28 pixels here" in said


def faces(folder: Path, count: int = 24) -> str:
    """A CSV source of drawn faces: two dark eyes on a bright disc."""
    random = np.random.default_rng(0)
    lines = ["image,landmark,x,y,split"]
    folder.mkdir()
    for index in range(count):
        x, y = random.uniform(12, 20, 2)
        grid = np.mgrid[:32, :32] + 0.5
        image = np.where((grid[1] - x) ** 2 + (grid[0] - y) ** 2 < 80, 220, 30)
        split = "test" if index % 3 == 0 else "train"
        for name, at in (("left eye", x - 4), ("right eye", x + 4)):
            image = np.where((grid[1] - at) ** 2 + (grid[0] - y + 2) ** 2 < 3, 0, image)
            lines.append(f"{index}.png,{name},{at},{y - 2},{split}")
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{index}.png")
    (folder / "points.csv").write_text("\n".join(lines) + "\n")
    return f"csv:{folder / 'points.csv'}"


@pytest.mark.usefixtures("small")
def test_a_table_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rows of the ablation: trained, measured, printed beside the paper, written three ways."""
    source = faces(tmp_path / "faces")
    words = ["reproduce", "table-1c", "--source", source, "--compact", "--steps", "3", "--threads", "1",
             "--out", str(tmp_path / "out"), "--row", "full", "separation", "--set", *SMALL,
             "model.landmarks=4"]  # fmt: skip
    assert main(words) == 0
    printed = capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [row["label"] for row in result["rows"]] == ["full loss", "without separation"]
    assert [row["paper"] for row in result["rows"]] == [3.15, 16.56]
    for row in result["rows"]:
        assert f"**{row['measured']:.2f}**" in printed
        assert row["details"]["labels"] == 16
        assert row["details"]["test_images"] == 8
    assert "| full loss | 3.15 |" in printed
    assert "What differs from the paper" in (tmp_path / "out" / "result.md").read_text()
    with Image.open(tmp_path / "out" / "figure.png") as figure:
        assert min(figure.size) > 200
    assert len(list((tmp_path / "out" / "models").iterdir())) == 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["mnist-all", "mnist-morph", "evolution"])
def test_figures_on_the_command_line(tmp_path: Path, name: str) -> None:
    words = ["reproduce", name, "--source", "digits:3", "--compact", "--steps", "3", "--threads", "1",
             "--out", str(tmp_path / "out"), "--set", *SMALL, "model.landmarks=4"]  # fmt: skip
    assert main(words) == 0
    with Image.open(tmp_path / "out" / "figure.png") as figure:
        assert len(np.unique(np.asarray(figure).reshape(-1, 3), axis=0)) > 50  # something is drawn


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table-9"], "There is no experiment 'table-9'"),
        (["table-1c"], "Name the images with --source: celeba:FOLDER"),
        (["table-1c", "--source", "digits", "--row", "nothing"], "No row of table-1c is called 'nothing'"),
    ],
)
def test_bad_words_get_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_the_list_names_every_table_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "list"]) == 0
    printed = capsys.readouterr().out
    for name in (
        "Table 1a",
        "Table 1b",
        "Table 1c",
        "Table 2",
        "Table 3",
        "Table 5",
        "Tables 6 and 7",
        "Figure 11",
    ):
        assert name in printed
    assert "and 4, Human3.6M" in printed
