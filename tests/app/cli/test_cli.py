"""The command line: exit codes, single sentences, and files that stay as they were."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from trigpoint import __version__
from trigpoint.app.cli import VERBS
from trigpoint.core.config.tree import Config, to_dict
from trigpoint.core.runs import Run


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def micro_file(tmp_path: Path, micro_colour: Config) -> Path:
    file = tmp_path / "micro.json"
    file.write_text(json.dumps(to_dict(micro_colour)))
    return file


@pytest.fixture
def train(trigpoint: Callable[..., Said], micro_file: Path) -> Callable[..., Said]:
    """`trigpoint train` of a very small model for two steps."""

    def call(*words: object) -> Said:
        return trigpoint("train", *words, "--config", micro_file, "--steps", 2, "--threads", 1)

    return call


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_one_sentence(said: Said) -> None:
    """Exit code 2 and one line on stderr."""
    assert said.code == 2, said
    assert said.err.startswith("trigpoint: "), said.err
    assert said.err.count("\n") == 1, said.err
    assert said.err.rstrip().endswith((".", ")")), said.err


def header_of_png(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size, which is all that may be looked at."""
    content = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + content
        + struct.pack(">I", zlib.crc32(content))
        + b"\0\0\0\0IDAT"
    )


# Help


def test_help_names_every_verb(trigpoint: Callable[..., Said]) -> None:
    for words in ((), ("--help",), ("-h",), ("help",)):
        said = trigpoint(*words)
        assert said.code == 0
        assert all(verb in said.out for verb in VERBS)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_help(trigpoint: Callable[..., Said], verb: str) -> None:
    said = trigpoint(verb, "--help")
    assert said.code == 0
    assert f"trigpoint {verb}" in said.out
    assert verb == "data" or "Example:" in said.out


def test_help_comes_without_heavy_imports() -> None:
    code = (
        "import sys\nfrom trigpoint.app.cli import VERBS, main\nmain(['--help'])\n"
        "for verb in VERBS:\n    try: main([verb, '--help'])\n    except SystemExit: pass\n"
        "sys.exit(', '.join({'torch', 'cv2', 'PIL', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version(trigpoint: Callable[..., Said]) -> None:
    assert trigpoint("--version") == Said(0, f"trigpoint {__version__}\n", "")


def test_an_unknown_verb(trigpoint: Callable[..., Said]) -> None:
    said = trigpoint("discover")
    assert_one_sentence(said)
    assert "no verb 'discover'" in said.err


@pytest.mark.parametrize("words", [("--landmarks", "many"), ("--colour", "blue")])
def test_an_unknown_option_or_value(
    trigpoint: Callable[..., Said], photos: Path, words: tuple[str, ...]
) -> None:
    said = trigpoint("train", photos, "--out", photos.parent / "run", *words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert words[0] in said.err
    assert not (photos.parent / "run").exists()


# As a program


def test_as_a_program_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trigpoint", "train", "nowhere", "--out", "run"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert_one_sentence(Said(done.returncode, done.stdout, done.stderr))
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_as_a_program_into_a_closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "trigpoint", "data", "list"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert "BrokenPipeError" not in done.stderr
    assert done.returncode == 1


def test_training_does_without_modules_that_only_posix_has(tmp_path: Path, make_photos: Any) -> None:
    code = (
        "import sys\nsys.modules['fcntl'] = sys.modules['resource'] = None\n"
        "import trigpoint.app.cli.train\nfrom trigpoint.app.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = ("--preset", "tiny-3", "--steps", "2", "--threads", "1")
    photos = make_photos(tmp_path / "photos", grey=True)
    call = [sys.executable, "-c", code, "train", str(photos), "--out", str(tmp_path / "run"), *words]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "peak memory unknown" in done.stdout
    assert Run(tmp_path / "run").finished


# Bad input to `train`


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--out", "run"], "Name a source"),
        (["photos"], "--out"),
        (["nowhere", "--out", "run"], "no file or folder nowhere"),
        (["empty", "--out", "run"], "holds no images"),
        (["digits:x", "--out", "run"], "one digit"),
        (["imagenet:x", "--out", "run"], "no source named 'imagenet'"),
        (["mtfl:photos", "--out", "run"], "training.txt"),
        (["photos", "--out", "run", "--landmarks", "0"], "between 1 and 100; got 0"),
        (["photos", "--out", "run", "--landmarks", "500"], "between 1 and 100; got 500"),
        (["photos", "--out", "run", "--preset", "tiny-0"], "between 1 and 100; got 0"),
        (["photos", "--out", "run", "--preset", "huge"], "no preset 'huge'"),
        (["photos", "--out", "run", "--steps", "0"], "--steps must be at least 1"),
        (["photos", "--out", "run", "--threads", "-1"], "threads"),
        (["photos", "--out", "run", "--seed", "-1"], "seed"),
        (["photos", "--out", "run", "--seed", "99999999999999999999"], "seed"),
        (["photos", "--out", "run", "--set", "losses.sap=0"], "no value 'losses.sap'"),
        (["photos", "--out", "run", "--set", "losses.sep"], "name=value"),
        (["photos", "--out", "run", "--set", "train.steps=many"], "train.steps"),
        (["photos", "--out", "run", "--set", "train.recalibration_images=0"], "recalibration_images"),
        (["photos", "--out", "run", "--set", "train.learning_rate=-1"], "learning_rate"),
        (["photos", "--out", "run", "--set", "model.decoder_levels=0"], "decoder_levels"),
        (["photos", "--out", "run", "--set", "warp.grid=1"], "grid"),
        (["photos", "--out", "run", "--config", "nowhere.json"], "no file nowhere.json"),
        (["photos", "--out", "run", "--config", "photos/01.png"], "not a readable JSON"),
        (["photos", "--out", "run", "--config", "photos", "--preset", "tiny-3"], "not both"),
        (["photos", "--out", "file"], "is a file"),
        (["photos", "--out", "file/run"], "file"),
        (["photos", "--out", "photos"], "not empty and holds no run"),
        (["photos", "--out", "photos", "--overwrite"], "not empty and holds no run"),
        (["--out", "run", "--resume"], "no run folder"),
        (["--out", "run", "--resume", "--overwrite"], "give one of them"),
    ],
)
def test_train_refuses_bad_input_in_one_sentence(
    trigpoint: Callable[..., Said],
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("content")
    before = hashes(tmp_path)
    said = trigpoint("train", *words)
    assert_one_sentence(said)
    assert expected in said.err
    assert said.out == ""
    assert hashes(tmp_path) == before


def test_one_image_is_too_few(
    train: Callable[..., Said], make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    said = train(make_photos(tmp_path / "photos", 1), "--out", tmp_path / "run")
    assert_one_sentence(said)
    assert "at least 2 readable images" in said.err


def test_what_few_images_cannot_show_is_said_before_training_and_after_it(
    train: Callable[..., Said], make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    said = train(make_photos(tmp_path / "photos", 2), "--out", run.folder)
    words = "Only 2 images: fewer than 80 are all trained on, so verdicts are measured on 2"
    assert said.code == 0
    assert said.err.startswith(words)
    for text in (said.out, run.report_file.read_text(), (run.folder / "README.md").read_text()):
        assert words in text


def test_images_that_are_all_the_same_are_said_to_be(
    train: Callable[..., Said], make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    photo = make_photos(tmp_path / "photos", 1) / "00.jpg"
    for copy in range(80):
        shutil.copy(photo, photo.with_name(f"copy-{copy}.jpg"))
    said = train(photo.parent, "--out", tmp_path / "run")
    assert said.code == 0
    assert said.err.startswith("The images hardly differ")
    assert "The images hardly differ" in said.out
    assert "4 are on the background" in said.out
    assert "Only" not in said.err


def test_nothing_readable(train: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.jpg"):
        (tmp_path / "photos" / name).write_text("text")
    said = train(tmp_path / "photos", "--out", tmp_path / "run")
    assert_one_sentence(said)
    assert "None of the 2 images could be read; the first, a.png" in said.err


def test_a_full_disk_before_the_images_are_prepared(
    train: Callable[..., Said], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    said = train(photos, "--out", tmp_path / "run")
    assert_one_sentence(said)
    assert "MB are free" in said.err


def test_a_full_disk_in_the_middle(
    train: Callable[..., Said],
    trigpoint: Callable[..., Said],
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sentence, and the run goes on once there is space again."""
    written = []

    def fsync(_: int) -> None:
        written.append(1)
        if len(written) == 5:  # the config, the images and the log are written, the checkpoint is not
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        said = train(photos, "--out", tmp_path / "run")
    few, failed = said.err.splitlines(keepends=True)
    assert few.startswith("Only 12 images")
    assert_one_sentence(said._replace(err=failed))
    assert "no space left" in said.err
    assert trigpoint("train", "--out", tmp_path / "run", "--resume", "--threads", 1).code == 0
    assert Run(tmp_path / "run").finished


def test_a_folder_that_may_not_be_written(
    train: Callable[..., Said], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "run")

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = train(photos, "--out", tmp_path / "run")
    assert_one_sentence(said)
    assert "run: Permission denied" in said.err


def test_a_loss_that_is_not_finite_is_exit_code_1(
    train: Callable[..., Said], photos: Path, tmp_path: Path
) -> None:
    said = train(photos, "--out", tmp_path / "run", "--set", "train.learning_rate=1e30")
    assert said.code == 1
    assert "is not finite" in said.err
    assert "Traceback" not in said.err


def test_ctrl_c_anywhere_is_exit_code_1(
    trigpoint: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    import trigpoint.app.cli.data as data

    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "show_list", interrupt)
    said = trigpoint("data", "list")
    assert said.code == 1
    assert "interrupted" in said.err


# Runs that exist


@pytest.mark.parametrize("words", [(), ("--landmarks", "500", "--overwrite")])
def test_an_existing_run_stays_as_it_was(
    trigpoint: Callable[..., Said], photos: Path, tiny_run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tiny_run.folder, out)
    before = hashes(out)
    assert_one_sentence(trigpoint("train", photos, "--out", out, *words))
    assert hashes(out) == before


def test_overwriting_with_nothing_to_train_on_loses_nothing(
    train: Callable[..., Said], tiny_run: Run, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tiny_run.folder, out)
    before = hashes(out)
    assert_one_sentence(train(make_photos(tmp_path / "photos", 1), "--out", out, "--overwrite"))
    assert hashes(out) == before


def test_overwrite_replaces_a_run(
    train: Callable[..., Said], photos: Path, tiny_run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tiny_run.folder, out)
    assert train(photos, "--out", out, "--overwrite").code == 0
    assert Run(out).config().preset == "micro-colour"
    assert Run(out).finished


def test_resuming_a_finished_run_writes_its_report_and_says_what_was_found(
    trigpoint: Callable[..., Said], tiny_run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tiny_run.folder, out)
    (out / "report.html").unlink()
    said = trigpoint("train", "--out", out, "--resume", "--threads", 1)
    assert said.code == 0
    assert "5 landmarks" in said.out
    assert (out / "report.html").is_file()


# Success with skipping


def test_bad_images_among_good_ones_are_skipped_counted_and_named(
    train: Callable[..., Said], photos: Path, tmp_path: Path
) -> None:
    good = (photos / "00.jpg").read_bytes()
    (photos / "torn.jpg").write_bytes(good[: len(good) // 2])
    (photos / "letter.png").write_text("Dear diary")
    Image.new("RGB", (1, 1)).save(photos / "dot.png")
    (photos / "huge.png").write_bytes(header_of_png(20_000, 20_000))
    said = train(photos, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    assert "Skipped 4 unreadable images" in said.out
    run = Run(tmp_path / "run")
    assert set(run.summary()["skipped"]) == {"torn.jpg", "letter.png", "dot.png", "huge.png"}
    assert run.summary()["train_images"] == 12
    report = run.report_file.read_text()
    assert "4 unreadable" in report
    for name, reason in (("torn.jpg", "not a readable"), ("dot.png", "1x1"), ("huge.png", "64 megapixels")):
        assert name in report
        assert reason in report
    assert "letter.png" in report


def test_train_says_where_the_report_is_and_what_comes_next(
    train: Callable[..., Said], photos: Path, tmp_path: Path
) -> None:
    said = train(photos, "--out", tmp_path / "run")
    assert said.code == 0
    assert "4 landmarks" in said.out
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in said.out
    assert f"trigpoint detect {tmp_path / 'run'}" in said.out
    assert "Skipped" not in said.out


# report, models, demo


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "landmarks.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_report_is_written_again(trigpoint: Callable[..., Said], tiny_run: Run, tmp_path: Path) -> None:
    shutil.copytree(tiny_run.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    said = trigpoint("report", tmp_path / "run")
    assert said == Said(0, f"{tmp_path / 'run' / 'report.html'}\n", "")
    assert (tmp_path / "run" / "report.html").is_file()


def test_report_refuses_what_is_no_finished_run(
    trigpoint: Callable[..., Said], tmp_path: Path, micro: Config
) -> None:
    assert_one_sentence(trigpoint("report", tmp_path))
    Run(tmp_path / "run").start(micro, ("digits",))
    said = trigpoint("report", tmp_path / "run")
    assert_one_sentence(said)
    assert "not finished" in said.err


@pytest.mark.parametrize("name", ["samples.npz", "summary.json", "config.json"])
def test_report_refuses_a_run_that_lost_a_file(
    trigpoint: Callable[..., Said], tiny_run: Run, tmp_path: Path, name: str
) -> None:
    shutil.copytree(tiny_run.folder, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    assert_one_sentence(trigpoint("report", tmp_path / "run"))


def test_models_lists_what_is_shipped(
    trigpoint: Callable[..., Said],
    colour_run: Run,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zoo = tmp_path / "zoo"
    monkeypatch.setattr("trigpoint.core.inference.predictor.ZOO", zoo)
    said = trigpoint("models")
    assert said.code == 0
    assert "No models" in said.out
    assert json.loads(trigpoint("models", "--json").out) == []

    shutil.copytree(colour_run.folder, zoo / "discs-4")
    file = zoo / "discs-4" / "config.json"
    card = {"error": "12 %", "data": "discs", "terms": "free"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "card": card}))
    said = trigpoint("models")
    assert "discs-4" in said.out
    assert "12 %" in said.out
    (row,) = json.loads(trigpoint("models", "--json").out)
    assert row == {"name": "discs-4", **card}
    assert trigpoint("detect", "discs-4", photos, "--out", tmp_path / "found").code == 0
    assert "shipped: discs-4" in trigpoint("detect", "discs-5", photos, "--out", tmp_path / "other").err


def test_demo_trains_detects_and_names_its_report(
    trigpoint: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a hundred digits and for two steps; called again it shows what is there."""
    from trigpoint.core.sources import digits
    from trigpoint.learning.training.session import Session

    images, labels = digits._read()
    monkeypatch.setattr(digits, "_read", lambda: (images[::50], labels[::50]))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    out = tmp_path / "demo"
    said = trigpoint("demo", "--out", out, "--steps", 2)
    assert said.code == 0, said.err
    assert (out / "report.html").as_uri() in said.out
    assert len(rows_of(out / "found")) == 100 * 7
    monkeypatch.setattr(Session, "record", lambda *_: pytest.fail("trained again"))
    again = trigpoint("demo", "--out", out)
    assert again.code == 0
    assert (out / "report.html").as_uri() in again.out


# data


def test_data_list_names_the_sources(trigpoint: Callable[..., Said]) -> None:
    said = trigpoint("data", "list")
    assert said.code == 0
    assert "digits" in said.out
    assert "mtfl:FOLDER" in said.out


def test_data_inspect_counts_and_draws(trigpoint: Callable[..., Said], photos: Path, tmp_path: Path) -> None:
    Image.new("L", (20, 30), 90).save(photos / "grey.png")
    (photos / "torn.jpg").write_text("text")
    sheet, findings = tmp_path / "sheet.png", tmp_path / "findings.json"
    said = trigpoint("data", "inspect", photos, "--sheet", sheet, "--json", findings)
    assert said.code == 0, said.err
    assert "12 in colour, 1 grey" in said.out
    assert "48x36 (12)" in said.out
    assert "unreadable: torn.jpg" in said.out
    found = json.loads(findings.read_text())
    assert found["images"] == 14
    assert found["coloured"] == 12
    assert found["sizes"] == {"48x36": 12, "20x30": 1}
    assert set(found["unreadable"]) == {"torn.jpg"}
    with Image.open(sheet) as opened:
        assert opened.size == (8 * 132 + 4, 2 * 132 + 4)
        assert len(opened.getcolors(maxcolors=10**6) or []) > 10


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["inspect"], "Name a source"),
        (["inspect", "nowhere"], "no file or folder nowhere"),
        (["inspect", "bad"], "None of the 1 images could be read"),
        (["inspect", "photos", "--sheet", "sheet"], "sheet"),
        (["inspect", "photos", "--sheet", "sheet.what"], ".what"),
        (["inspect", "photos", "--sheet", "sheet.png", "--images", "0"], "images"),
        (["inspect", "photos", "--sheet", "sheet.png", "--images", "-3"], "images"),
    ],
)
def test_data_inspect_refuses_bad_input_in_one_sentence(
    trigpoint: Callable[..., Said],
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad").mkdir()
    Path("bad/a.png").write_text("text")
    said = trigpoint("data", *words)
    assert_one_sentence(said)
    assert expected in said.err


# evaluate


def test_evaluate_prints_and_writes_the_error(
    trigpoint: Callable[..., Said], tiny_run: Run, faces: Path, tmp_path: Path
) -> None:
    said = trigpoint("evaluate", tiny_run.folder, f"mtfl:{faces}", "--json", tmp_path / "result.json")
    assert said.code == 0, said.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["protocol"] == "lmdis"
    assert result["source"] == f"mtfl:{faces}"
    assert result["model"] == str(tiny_run.folder)
    assert (result["landmarks"], result["labels"], result["test_images"]) == (5, 12, 4)
    assert set(result["per_landmark"]) == {
        "left eye", "right eye", "nose", "left mouth corner", "right mouth corner",
    }  # fmt: skip
    assert np.mean(list(result["per_landmark"].values())) == pytest.approx(result["error_percent"], abs=0.01)
    assert f"error {result['error_percent']:.2f} %" in said.out
    assert f"{result['baseline_mean_shape_percent']:.2f} %" in said.out
    assert "protocol lmdis" in said.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing", "MTFL"], "no run folder nothing"),
        (["RUN", "digits:3"], "no annotated landmarks"),
        (["RUN", "mtfl:nowhere"], "training.txt"),
        (["RUN", "MTFL", "--json", "nowhere/result.json"], "nowhere"),
    ],
)
def test_evaluate_refuses_bad_input_in_one_sentence(
    trigpoint: Callable[..., Said],
    tiny_run: Run,
    faces: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    stands_for = {"RUN": str(tiny_run.folder), "MTFL": f"mtfl:{faces}"}
    said = trigpoint("evaluate", *(stands_for.get(word, word) for word in words))
    assert_one_sentence(said)
    assert expected in said.err


def test_data_inspect_draws_annotations(trigpoint: Callable[..., Said], faces: Path, tmp_path: Path) -> None:
    said = trigpoint("data", "inspect", f"mtfl:{faces}", "--sheet", tmp_path / "sheet.png", "--images", 4)
    assert said.code == 0
    assert "5 annotated landmarks, complete on 12 images" in said.out
    from trigpoint.core.palette import colours

    with Image.open(tmp_path / "sheet.png") as opened:
        seen = {colour for _, colour in opened.getcolors(maxcolors=10**6) or []}
    assert set(colours(5)) <= seen
