"""Damaged files of a run: each is named in one sentence, by whatever verb reads it."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from numpy.lib import format as npy

from trigpoint.core.config.tree import with_values
from trigpoint.core.runs import Run
from trigpoint.core.sources import open_source
from trigpoint.learning.training import schedule
from trigpoint.learning.training.stages import distill

Call = Callable[..., Any]  # the fixture `trigpoint`
WRONG = ("null", "-1", "NaN", '"x"', "[[null]]", "1" + "0" * 400, "[" * 5000)
KEYS = {
    "config.json": "config config.model config.train.steps source versions names subject shape",
    "summary.json": "steps skipped health health.0.verdict health.0.confidence temporal warp_error",
    "log.jsonl": "step total recon",
}
RIGHT = {  # which are damaged, but what may have been written
    "config.json": "",
    "summary.json": 'temporal=null health.0.verdict="x" health.0.confidence=-1 warp_error=-1',
    "log.jsonl": "total=-1 recon=-1",
}
NOT_FINITE = np.float32("nan").tobytes()


def spoilt(text: str, path: str, value: str) -> str:
    """A line of JSON with a value in place of another."""
    tree = json.loads(text)
    *parents, last = path.split(".")
    node = tree
    for parent in parents:
        node = node[int(parent) if isinstance(node, list) else parent]
    node[last] = "@"
    return json.dumps(tree).replace('"@"', value)


@pytest.mark.parametrize("name", KEYS)
def test_report_names_the_file_that_is_damaged(
    trigpoint: Call, tiny_run: Run, tmp_path: Path, name: str
) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    file = run.folder / name
    first, *rest = file.read_text().splitlines() if name == "log.jsonl" else [file.read_text()]
    line = rest[0] if rest else first
    for path in KEYS[name].split():
        for value in WRONG:
            if f"{path}={value}" in RIGHT[name].split():
                continue
            changed = spoilt(line, path, value)
            file.write_text(f"{first}\n{changed}\n" if name == "log.jsonl" else changed)
            assert trigpoint("report", run.folder).refused(str(file)), (path, value)
    for data in (b"\xff\xfe{}\n", b"[]\n", b'{"step": 0}\n{"step": 0}\n'):
        file.write_bytes(data)
        assert trigpoint("report", run.folder).refused(str(file)), data
    if name != "config.json":
        file.unlink()
        os.mkfifo(file)  # which would be waited for
        assert trigpoint("report", run.folder).code == (0 if name == "log.jsonl" else 2)


@pytest.mark.parametrize("name", ["samples.npz", "evolution/step-0000000.npz"])
def test_report_names_the_arrays_that_are_damaged(
    trigpoint: Call, tiny_run: Run, tmp_path: Path, name: str
) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    file, key = run.folder / name, "pixels" if name.startswith("samples") else "maps"
    data = file.read_bytes()
    with np.load(file) as kept:
        array = kept[key]
    for wrong in (array[:0], array[0], array[..., :0], array.astype(np.float32), np.array([{}] * 3, object)):
        np.savez_compressed(file, **{key: wrong}, allow_pickle=True)
        assert trigpoint("report", run.folder).refused(f"{file} is damaged"), wrong.shape
    np.savez_compressed(file, other=array)
    assert trigpoint("report", run.folder).refused(f"{file} is damaged")
    middle = len(data) // 2
    for part in (b"", data[:middle], data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]):
        file.write_bytes(part)
        assert trigpoint("report", run.folder).refused(f"{file} is damaged")
    file.unlink()
    os.mkfifo(file)
    assert trigpoint("report", run.folder).refused(str(file))
    file.unlink()
    file.write_bytes(data)
    assert trigpoint("report", run.folder).code == 0


def test_a_header_that_claims_a_giant_array_takes_no_memory(
    trigpoint: Call, tiny_run: Run, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    stream = io.BytesIO()
    shape = (9_999_999_999, 28, 28, 1)
    npy.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with ZipFile(run.samples_file, "w") as archive:
        archive.writestr("pixels.npy", stream.getvalue() + bytes(1000))
    said = trigpoint("report", run.folder)
    assert said.refused("samples.npz is damaged: it holds uint8 of shape (9999999999, 28, 28, 1)")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"subject": "nose"}, "names a subject 'nose'"),
        ({"names": {"1": "a", "2": "a"}}, "would be called 'a'"),
        ({"names": {"1": "\x1b[2J"}}, "printable characters"),
        ({"shape": [[0.5, 1e30]] * 5}, "shape"),
    ],
)
def test_a_model_whose_config_is_damaged_is_not_used(
    trigpoint: Call, tiny_run: Run, photos: Path, tmp_path: Path, names: dict[str, Any], words: str
) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    run.config_file.write_text(json.dumps(run.meta() | names))
    said = trigpoint("detect", run.folder, photos, "--out", tmp_path / "found")
    assert said.refused(words)
    assert str(run.config_file) in said.err
    assert not (tmp_path / "found").exists()


def test_a_damaged_cache_is_made_again(
    colour_run: Run, tmp_path: Path, tear: Callable[..., None], trigpoint: Call
) -> None:
    """Of the images, of what the detector is taught, of how its landmarks are grouped."""
    photos = colour_run.folder.parent / "photos"
    values = ["train.steps=8", "model.landmarks=3"]
    config = with_values(distill.derive(colour_run.config()), values)
    tear(config, open_source(photos), tmp_path / "torn", colour_run.model_file)
    ends = []
    for name, data in [
        (None, b""),
        ("images.json", b'{"count": 12, "indices": [0, 0, null], "skipped": []}'),
        ("images.json", b"[[["),
        ("targets.npy", b"\x93NUMPY\x01\x00"),
        ("targets.npy", NOT_FINITE),
        ("groups.npy", b"nothing"),
    ]:
        run = Run(shutil.copytree(tmp_path / "torn", tmp_path / f"run-{len(ends)}"))
        if name is not None:
            file = run.cache_folder / name
            file.write_bytes(file.read_bytes()[:-4] + NOT_FINITE if data == NOT_FINITE else data)
        said = trigpoint("train", "--out", run.folder, "--resume", "--threads", "1")
        assert said.code == 0, said
        ends.append(run.model_file.read_bytes())
    assert len(set(ends)) == 1


def test_a_damaged_log_may_be_left_out(
    colour_run: Run, tmp_path: Path, tear: Callable[..., None], trigpoint: Call
) -> None:
    config = with_values(schedule.further(colour_run.config()), ["train.steps=8"])
    photos = colour_run.folder.parent / "photos"
    tear(config, open_source(photos), tmp_path / "run", colour_run.model_file)
    log = Run(tmp_path / "run").log_file
    log.write_text('{"step": 1}\n{"step": "2"}\n')
    resume = ("train", "--out", tmp_path / "run", "--resume", "--threads", "1")
    said = trigpoint(*resume)
    assert said.code == 2
    assert "log.jsonl is damaged at line 2: step must be a number; got '2'" in said.err.splitlines()[-1]
    log.unlink()
    assert trigpoint(*resume).code == 0


def test_a_network_too_large_for_any_machine_is_refused(trigpoint: Call, tmp_path: Path) -> None:
    """Before a number of it is allocated."""
    for value, most in (
        ("model.image_size=999999999", "between 8 and 1024"),
        ("warp.grid=100000", "between 2 and 32"),
        ("model.feature_channels=99999999999", "between 1 and 4096"),
        ('model.detector="D99999999 | 8/8 S1 P 16 | out1"', "at most 4096 channels"),
    ):
        said = trigpoint("train", "digits:3", "--preset", "tiny-5", "--set", value, "--out", tmp_path / "run")
        assert said.refused(most), value
