"""Finished work is told from stale work: what made a result is kept beside it and compared."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.images import TABLE, Outcome, Wanted, detect_images
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.inference.videos import Outputs, detect_video, plan
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.sources.annotated import LandmarkTable
from trigpoint.core.sources.folder import Folder
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.model.autoencoder import Autoencoder

Pixels = NDArray[np.uint8]


def write_photo(path: Path, seed: int, size: tuple[int, int] = (60, 40)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    Image.fromarray(small).resize(size, Image.Resampling.NEAREST).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(3):
        write_photo(tmp_path / "photos" / f"{number}.png", number)
    return tmp_path / "photos"


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "a.mp4")


def write_video(path: Path, count: int = 5) -> Path:
    with VideoWriter(path, (64, 48), 25) as writer:
        for frame in range(count):
            image = np.full((48, 64, 3), (40, 90, 60), np.uint8)
            image[10:25, 5 + frame : 20 + frame] = (250, 210, 60)
            writer.add(image)
    return path


def another(predictor: Predictor) -> Predictor:
    """The same networks with other weights."""
    return Predictor(TorchBackend(Autoencoder(predictor.config.model, seed=9)), predictor.config)


def like(predictor: Predictor, **values: Any) -> Predictor:
    return Predictor(predictor.backend, predictor.config, **values)


@pytest.fixture
def looked_at(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images were given to a model, call by call."""
    calls: list[int] = []
    kept = Predictor.detect_prepared

    def count(self: Predictor, squares: Pixels, places: Any) -> Any:
        calls.append(len(squares))
        return kept(self, squares, places)

    monkeypatch.setattr(Predictor, "detect_prepared", count)
    return calls


def detect(predictor: Predictor, photos: Path, out: Path, **values: Any) -> Outcome:
    words = {key: values.pop(key) for key in ("formats", "overlay", "overwrite") if key in values}
    return detect_images(predictor, Folder([photos]), Wanted(out, **words), **values)


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / TABLE).open(newline="") as stream:
        return list(csv.DictReader(stream))


def maps(value: float) -> KeypointMap:
    weights = np.zeros((1, 2, 9))
    weights[0, :, 8] = value
    return KeypointMap(("middle",), weights, {})


# Images


def test_finished_images_are_not_looked_at_again(
    predictor: Predictor, photos: Path, tmp_path: Path, looked_at: list[int]
) -> None:
    out = tmp_path / "out"
    assert detect(predictor, photos, out).images == 3
    table = (out / TABLE).read_bytes()
    again = detect(predictor, photos, out)
    assert (again.images, again.before, looked_at) == (0, 3, [3])
    assert (out / TABLE).read_bytes() == table


WHOLE = {"subjects": "whole"}
CHANGES: dict[str, tuple[Callable[[Predictor], Predictor], dict[str, Any], str]] = {
    "model": (another, {}, "by another model"),
    "names": (lambda one: like(one, names=("a", "b", "c", "d")), {}, "with other names of the landmarks"),
    "subject": (lambda one: like(one, subject="face"), WHOLE, "prepares images in another way"),
    "box": (like, {"box": Placement(1, 2, 30, 30)}, r"with other options \(--box\)"),
    "subjects": (like, WHOLE, r"with other options \(--subjects\)"),
    "keypoints": (like, {"keypoints": maps(0.5)}, "with other keypoints"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_results_of_something_else_are_refused_and_kept(
    predictor: Predictor, photos: Path, tmp_path: Path, change: str
) -> None:
    out = tmp_path / "out"
    detect(predictor, photos, out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    model, values, words = CHANGES[change]
    with pytest.raises(TrigpointError, match=f"{words}; --overwrite"):
        detect(model(predictor), photos, out, **values)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert detect(model(predictor), photos, out, overwrite=True, **values).images == 3
    assert detect(model(predictor), photos, out, **values).images == 0


def test_keypoints_are_compared_by_what_they_are(predictor: Predictor, photos: Path, tmp_path: Path) -> None:
    detect(predictor, photos, tmp_path / "out", keypoints=maps(0.5))
    assert detect(predictor, photos, tmp_path / "out", keypoints=maps(0.5)).images == 0
    with pytest.raises(TrigpointError, match="with other keypoints"):
        detect(predictor, photos, tmp_path / "out", keypoints=maps(0.25))


def test_a_converted_file_is_the_same_model(predictor: Predictor, photos: Path, tmp_path: Path) -> None:
    detect(predictor, photos, tmp_path / "out")
    copied = Autoencoder(predictor.config.model, seed=3)
    state = {name: value.clone(memory_format=torch.preserve_format) for name, value in
             reversed(predictor.backend.model.state_dict().items())}  # fmt: skip
    copied.load_state_dict(state)
    assert detect(Predictor(TorchBackend(copied), predictor.config), photos, tmp_path / "out").images == 0


def test_new_images_are_added_to_the_table(
    predictor: Predictor, photos: Path, tmp_path: Path, looked_at: list[int]
) -> None:
    out = tmp_path / "out"
    detect(predictor, photos, out, formats=("coco",))
    table = (out / TABLE).read_bytes()
    write_photo(photos / "0-new.png", 7)
    done = detect(predictor, photos, out)
    assert (done.images, done.before, looked_at) == (1, 3, [3, 1])
    assert (out / TABLE).read_bytes().startswith(table)
    whole = tmp_path / "whole"
    detect(predictor, photos, whole)
    assert sorted((out / TABLE).read_text().splitlines()) == sorted((whole / TABLE).read_text().splitlines())
    # What was made of the table before goes with it.
    assert len(json.loads((out / "landmarks.coco.json").read_bytes())["images"]) == 4


def test_images_that_are_gone_are_told_and_keep_their_rows(
    predictor: Predictor, photos: Path, tmp_path: Path
) -> None:
    detect(predictor, photos, tmp_path / "out")
    (photos / "1.png").unlink()
    done = detect(predictor, photos, tmp_path / "out")
    assert (done.gone, done.images, len(rows_of(tmp_path / "out"))) == (["1.png"], 0, 12)


@pytest.mark.parametrize("change", ["content", "time"])
def test_an_image_that_changed_is_refused(
    predictor: Predictor, photos: Path, tmp_path: Path, change: str
) -> None:
    out = tmp_path / "out"
    detect(predictor, photos, out)
    if change == "content":
        write_photo(photos / "1.png", 9, (70, 50))
    else:
        os.utime(photos / "1.png", (1, 1))
    with pytest.raises(TrigpointError, match=r"1\.png has changed since its results .* --overwrite"):
        detect(predictor, photos, out)
    assert detect(predictor, photos, out, overwrite=True).images == 3


def test_an_image_that_failed_is_tried_again(predictor: Predictor, photos: Path, tmp_path: Path) -> None:
    whole = (photos / "1.png").read_bytes()
    (photos / "1.png").write_bytes(whole[:60])
    assert list(detect(predictor, photos, tmp_path / "out").skipped) == ["1.png"]
    assert list(detect(predictor, photos, tmp_path / "out").skipped) == ["1.png"]
    (photos / "1.png").write_bytes(whole)
    done = detect(predictor, photos, tmp_path / "out")
    assert (done.images, done.skipped, len(rows_of(tmp_path / "out"))) == (1, {}, 12)


def test_a_table_that_something_else_wrote_is_not_touched(
    predictor: Predictor, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / TABLE).write_text("mine")
    with pytest.raises(TrigpointError, match=r"landmarks\.csv is already there.*does not say what made it"):
        detect(predictor, photos, out)
    assert (out / TABLE).read_text() == "mine"
    detect(predictor, photos, out, overwrite=True)
    with (out / TABLE).open("a") as stream:
        stream.write("a note of mine\n")
    with pytest.raises(TrigpointError, match="was changed after it had been written"):
        detect(predictor, photos, out)
    assert (out / TABLE).read_text().endswith("a note of mine\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{",
        b'{"compared": {}}',
        b"\xff",
        b"[" * 100_000,
        b'{"compared": {"options": {}}, "results": {"a": {"size": "8"}}, "pending": [], "inputs": {}}',
        b'{"compared": {"options": {}}, "results": [], "pending": [], "inputs": {}}',
    ],
)
def test_a_damaged_record_is_refused(
    predictor: Predictor, photos: Path, tmp_path: Path, content: bytes
) -> None:
    detect(predictor, photos, tmp_path / "out")
    (tmp_path / "out" / "landmarks.record.json").write_bytes(content)
    with pytest.raises(TrigpointError, match=r"landmarks\.record\.json is damaged.*--overwrite"):
        detect(predictor, photos, tmp_path / "out")
    assert detect(predictor, photos, tmp_path / "out", overwrite=True).images == 3


@pytest.mark.parametrize("pixels", [None, [], [60], ["60", 40], {}, 7])
def test_an_image_whose_size_is_damaged_is_named(
    predictor: Predictor, photos: Path, tmp_path: Path, pixels: object
) -> None:
    detect(predictor, photos, tmp_path / "out")
    file = tmp_path / "out" / "landmarks.record.json"
    record = json.loads(file.read_text())
    name = next(iter(record["inputs"]))
    record["inputs"][name]["pixels"] = pixels
    file.write_text(json.dumps(record))
    with pytest.raises(
        TrigpointError, match=rf"is damaged: it does not say how large {name} is; --overwrite"
    ):
        detect(predictor, photos, tmp_path / "out", formats=("coco", "slp"))


def test_a_table_with_a_row_missing_is_refused(predictor: Predictor, photos: Path, tmp_path: Path) -> None:
    detect(predictor, photos, tmp_path / "out")
    table, file = tmp_path / "out" / TABLE, tmp_path / "out" / "landmarks.record.json"
    lines = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"".join(lines[:3] + lines[4:]))
    record = json.loads(file.read_text())
    record["results"][TABLE]["size"] = table.stat().st_size
    file.write_text(json.dumps(record))
    with pytest.raises(TrigpointError, match=r"landmarks\.csv is damaged; --overwrite"):
        detect(predictor, photos, tmp_path / "out", formats=("dlc", "h5"))


def test_an_overlay_or_a_format_is_added_without_detecting_again(
    predictor: Predictor, photos: Path, tmp_path: Path, looked_at: list[int]
) -> None:
    out, at_once = tmp_path / "out", tmp_path / "at-once"
    detect(predictor, photos, at_once, formats=("dlc", "h5", "coco", "slp"), overlay=True)
    detect(predictor, photos, out)
    table = (out / TABLE).read_bytes()
    assert detect(predictor, photos, out, overlay=True).drawn == 3
    assert len(detect(predictor, photos, out, formats=("dlc", "coco")).written) == 2
    assert len(detect(predictor, photos, out, formats=("h5", "slp", "coco")).written) == 2
    assert looked_at == [3, 3]
    assert (out / TABLE).read_bytes() == table
    record = json.loads((out / "landmarks.record.json").read_text())
    assert set(record["noted"]) == {"versions", "device", "seconds"}
    for name in ("landmarks.dlc.csv", "landmarks.coco.json"):
        assert (out / name).read_bytes() == (at_once / name).read_bytes()
    for drawing in sorted((at_once / "overlays").iterdir()):
        assert (out / "overlays" / drawing.name).read_bytes() == drawing.read_bytes()


def test_a_replaced_detection_tells_what_stays_of_the_one_before(
    predictor: Predictor, photos: Path, tmp_path: Path
) -> None:
    detect(predictor, photos, tmp_path / "out", formats=("coco",))
    done = detect(another(predictor), photos, tmp_path / "out", overwrite=True)
    assert done.stale == ["landmarks.coco.json"]
    with pytest.raises(TrigpointError, match=r"landmarks\.coco\.json is already there"):
        detect(another(predictor), photos, tmp_path / "out", formats=("coco",))


# Nothing of the user's is overwritten


def test_names_from_a_table_stay_below_the_folder(predictor: Predictor, tmp_path: Path) -> None:
    """Overlays once took the place of the very images they were drawn on."""
    original = write_photo(tmp_path / "mine" / "a.png", 1)
    beside = write_photo(tmp_path / "b.png", 2)
    table = tmp_path / "tables" / "t.csv"
    table.parent.mkdir()
    table.write_text(f"image,split,landmark,x,y\n{original},train,tip,1,1\n../b.png,train,tip,1,1\n")
    before = original.read_bytes(), beside.read_bytes()
    out = tmp_path / "out"
    assert detect_images(predictor, LandmarkTable(table), Wanted(out, overlay=True)).drawn == 2
    assert (original.read_bytes(), beside.read_bytes()) == before
    drawn = {file for file in tmp_path.rglob("*") if file.is_file()} - {original, beside, table}
    assert len(drawn) == 4
    assert all(file.is_relative_to(out) for file in drawn)


def test_an_input_is_never_replaced(predictor: Predictor, photos: Path, tmp_path: Path) -> None:
    """Under any of its names: a link in the folder to write leads to an input."""
    out = tmp_path / "out"
    (out / "overlays").mkdir(parents=True)
    os.link(photos / "0.png", out / "overlays" / "0.png")
    before = (photos / "0.png").read_bytes()
    with pytest.raises(TrigpointError, match=r"0\.png is an input of this call: choose another --out"):
        detect(predictor, photos, out, overlay=True, overwrite=True)
    shutil.rmtree(out)
    (tmp_path / "elsewhere").mkdir()
    out.mkdir()
    (out / "overlays").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TrigpointError, match="would be written outside of"):
        detect(predictor, photos, out, overlay=True, overwrite=True)
    table = tmp_path / "landmarks.csv"
    table.write_text("image,split,landmark,x,y\nphotos/0.png,train,tip,1,1\n")
    with pytest.raises(TrigpointError, match=r"landmarks\.csv is an input of this call"):
        detect_images(predictor, LandmarkTable(table), Wanted(tmp_path, overwrite=True))
    assert (photos / "0.png").read_bytes() == before
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_video_is_never_replaced(predictor: Predictor, video: Path, tmp_path: Path) -> None:
    os.link(video, tmp_path / "a.overlay.mp4")
    before = video.read_bytes()
    wanted = Outputs(tmp_path, overlay=True, overwrite=True)
    with pytest.raises(TrigpointError, match=r"a\.overlay\.mp4 is an input of this call"):
        detect_video(predictor, video, wanted, "a")
    assert video.read_bytes() == before


# Videos


def test_a_finished_video_has_nothing_left_to_do(predictor: Predictor, video: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    detect_video(predictor, video, Outputs(out), "a")
    assert not plan(predictor, video, Outputs(out))
    more = Outputs(out, ("csv", "coco"), overlay=True)
    assert list(plan(predictor, video, more).missing) == ["coco", "overlay"]
    before = (out / "a.csv").stat()
    detect_video(predictor, video, more, "a")
    assert (out / "a.csv").stat() == before
    assert not plan(predictor, video, more)


@pytest.mark.parametrize(
    ("change", "outputs", "values", "words"),
    [
        (another, {}, {}, "by another model"),
        (like, {"smooth": True}, {}, r"with other options \(--smooth\)"),
        (like, {}, {"crop": Placement(0, 0, 40, 40)}, r"with other options \(--box\)"),
        (like, {}, {"keypoints": maps(0.5)}, "with other keypoints"),
        (like, {"overlay": True, "trails": 5}, {}, r"overlay\.mp4 was made with other options \(--trails\)"),
    ],
)
def test_results_of_a_video_by_something_else_are_refused(
    predictor: Predictor, video: Path, tmp_path: Path, change: Any, outputs: Any, values: Any, words: str
) -> None:
    out = tmp_path / "out"
    detect_video(predictor, video, Outputs(out, overlay=True), "a")
    before = (out / "a.csv").read_bytes()
    with pytest.raises(TrigpointError, match=f"{words}; --overwrite"):
        detect_video(change(predictor), video, Outputs(out, **outputs), "a", **values)
    assert (out / "a.csv").read_bytes() == before


def test_results_of_a_video_that_changed_are_refused(
    predictor: Predictor, video: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    detect_video(predictor, video, Outputs(out), "a")
    write_video(video, 7)
    with pytest.raises(TrigpointError, match=r"a\.mp4 has changed since its results"):
        plan(predictor, video, Outputs(out))
    (tmp_path / "b").mkdir()
    namesake = write_video(tmp_path / "b" / "a.mkv.mp4").rename(tmp_path / "b" / "a.mov")
    with pytest.raises(TrigpointError, match=r"a\.record\.json is of another video, a\.mp4"):
        plan(predictor, namesake, Outputs(out))


KILLED = """
import os, pathlib, signal, sys
from trigpoint.app.cli import main

kept, left = pathlib.Path.replace, int(sys.argv[1])


def replace(self, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return kept(self, target)


pathlib.Path.replace = replace
main(sys.argv[2:])
"""


@pytest.mark.parametrize("kind", ["images", "video"])
def test_a_call_killed_while_its_results_are_put_in_place_can_be_repeated(
    predictor: Predictor, colour_run: Any, photos: Path, video: Path, tmp_path: Path, kind: str
) -> None:
    """Between two renames: the repeated call ends as one that was not killed."""
    words = ["detect", str(colour_run.folder), str(photos if kind == "images" else video)]
    words += ["--format", "csv,coco", "--overlay", "--out"]

    def call(out: Path, renames: int) -> int:
        command = [sys.executable, "-c", KILLED, str(renames), *words, str(out)]
        return subprocess.run(command, capture_output=True, timeout=300).returncode

    whole = tmp_path / "whole"
    assert call(whole, 99) == 0
    out = tmp_path / "killed"
    assert call(out, 2 if kind == "images" else 1) == -signal.SIGKILL
    assert call(out, 99) == 0
    files = sorted(file.relative_to(out) for file in out.rglob("*") if file.is_file())
    assert files == sorted(file.relative_to(whole) for file in whole.rglob("*") if file.is_file())
    for file in files:
        if not file.name.endswith((".record.json", ".mp4")):
            assert (out / file).read_bytes() == (whole / file).read_bytes()
