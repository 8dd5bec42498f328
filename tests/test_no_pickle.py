"""Nothing that a user opens is unpickled: the code calls nothing that could do so, and the verbs do not with
files that are pickles or hold some."""

from __future__ import annotations

import ast
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import trigpoint
from trigpoint.core.runs import Run

PACKAGE = Path(trigpoint.__file__).parent
# Modules that unpickle, or read what may name code to run; PyTables and pandas do so in HDF5.
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
MODULES |= {"tables", "pandas", "imp", "runpy", "code", "xmlrpc"}
METHODS = {"read_pickle", "read_hdf", "Unpickler", "enable_load_extension", "load_extension", "FileStorage"}
CALLS = {"torch.load", "torch.save", "torch.hub.load", "torch.jit.load", "jit.load"}
CALLS |= {"eval", "exec", "compile", "os.system", "os.popen"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(code: str) -> Iterator[str]:
    """What the code calls or imports that it must not."""
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.split(".")[0] in MODULES or name in CALLS)
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        if name in CALLS or name.split(".")[-1] in METHODS:
            yield name
        options = {option.arg: option.value for option in node.keywords}
        allowed = options.get("allow_pickle")
        if allowed is not None and not (isinstance(allowed, ast.Constant) and allowed.value is False):
            yield f"{name}(allow_pickle=...)"
        if name in ("np.load", "numpy.load") and len(node.args) > 2:  # the third is allow_pickle
            yield name
        if name == "Image.open" and "formats" not in options:  # which tries every format that Pillow has
            yield name
        if options.get("shell") is not None:
            yield f"{name}(shell=...)"


def test_the_package_calls_nothing_that_unpickles() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    found = [f"{file.relative_to(PACKAGE)}: {fault}" for file in files for fault in faults(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pandas import read_hdf",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, 'r', True)",
        "connection.enable_load_extension(True)",
        "eval(text)",
        "Image.open(path)",
        "subprocess.run(words, shell=True)",
    ],
)
def test_what_it_must_not_call_is_found(code: str) -> None:
    assert len(list(faults(code))) == 1


# Python tells its audit hooks when an unpickler looks for a name. Each process imports this at its start.
HOOK = """
import os, sys, traceback
def hook(event, arguments):
    if event == "pickle.find_class":
        with open({log!r}, "a") as log:
            print(arguments, *traceback.format_stack()[-4:-1], file=log)
sys.addaudithook(hook)
with open({started!r}, "a") as log:
    print(*sys.orig_argv, file=log)
"""
VERBS = """
import sys
from trigpoint.app.cli import main
model, new, *sources = sys.argv[1:]
calls = [["data", "inspect", source] for source in sources]
for source in sources[:2]:
    calls += [
        ["train", source, "--out", new, "--preset", "tiny-5", "--steps", "1"],
        ["fit", model, source, "--out", new + ".json"],
        ["evaluate", model, source],
        ["detect", model, source, "--out", new],
    ]
for words in calls:
    print("ended with", main(words), *words, flush=True)
"""
OF_A_RUN = """
import sys
from trigpoint.app.cli import main
photos, *runs = sys.argv[1:]
for run in runs:
    for words in (
        ["report", run],
        ["train", "--out", run, "--resume"],
        ["detect", run, photos, "--out", run + "-found"],
    ):
        try:
            main(words)
        except Exception:
            pass  # other tests say how damaged runs end
        print("ended", *words, flush=True)
"""


class Runs:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def watched(code: str, words: list[Path | str], tmp_path: Path) -> list[str]:
    """What a process said that runs this code, and which it started. None of them unpickled anything."""
    log, started = tmp_path / "found.txt", tmp_path / "started.txt"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK.format(log=str(log), started=str(started)))
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(hooks), str(PACKAGE.parent)))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr
    assert started.exists()  # the hook was armed
    assert not log.exists(), log.read_text()
    assert not (tmp_path / "ran").exists()
    return [*done.stdout.splitlines(), *started.read_text().splitlines()]


def test_no_source_is_unpickled(tiny_run: Run, tmp_path: Path) -> None:
    bad = Runs(tmp_path / "ran")
    data = tmp_path / "data"
    data.mkdir()
    code = pickle.dumps(bad, 0)
    table = np.empty(2, object)
    table[:] = [bad, bad]
    np.save(data / "array.npy", table, allow_pickle=True)
    np.savez(data / "arrays.npz", pixels=table)
    torch.save({"model": bad}, data / "tensors.pt")
    (data / "plain.pkl").write_bytes(code)
    sources = [layout(tmp_path / name, name, bad, code) for name in ("CollectedData_me.h5", "aflw.sqlite")]
    for file in sorted(data.iterdir()):
        for ending in ("jpg", "mp4"):
            sources.append(str(shutil.copy(file, data / f"{file.stem}.{ending}")))
        sources += [f"{kind}:{file}" for kind in ("csv", "coco", "slp")]
    lines = watched(VERBS, [tiny_run.folder, tmp_path / "new", *sources], tmp_path)
    assert len([line for line in lines if line.startswith("ended with 2 ")]) == len(sources) + 8
    assert any("trigpoint.core.readers.frame:read_frame" in line for line in lines)  # which had the hook, too


def layout(folder: Path, name: str, bad: Runs, code: bytes) -> str:
    if name == "aflw.sqlite":
        folder.mkdir()
        with sqlite3.connect(folder / name) as database:
            database.execute("CREATE TABLE Faces (face_id, file_id, db_id)")
            database.execute("INSERT INTO Faces VALUES (?, ?, ?)", (code, code, code))
        database.close()
        return f"aflw:{folder}"
    place = folder / "labeled-data" / "m"
    place.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(place / "a.png")
    columns = pd.MultiIndex.from_product(
        [["me"], ["snout"], ["x", "y"]], names=["scorer", "bodyparts", "coords"]
    )
    pd.DataFrame([[1.0, 2.0]], ["labeled-data/m/a.png"], columns).to_hdf(
        place / name, key="t", format="table"
    )
    with h5py.File(place / name, "r+") as file:
        for node in (file["t"], file["t/table"]):
            for attribute in list(node.attrs):
                if attribute not in ("pandas_type", "CLASS", "VERSION"):
                    node.attrs[attribute] = np.bytes_(code)
    return f"deeplabcut:{folder}"


def test_no_file_of_a_run_is_unpickled(colour_run: Run, tmp_path: Path) -> None:
    """Those of one kind at a time are what NumPy or torch would unpickle, or pickles as such."""
    bad = Runs(tmp_path / "ran")
    table = np.empty(2, object)
    table[:] = [bad, bad]
    runs: list[Path | str] = []
    for kinds in ((".npy", ".npz"), (".safetensors",), (".json", ".jsonl")):
        run = tmp_path / f"run{kinds[0]}"
        shutil.copytree(colour_run.folder, run)
        runs.append(run)
        victims = [file for file in run.rglob("*.*") if file.suffix in kinds]
        assert victims
        for file in victims:
            if file.suffix == ".npy":
                np.save(file, table, allow_pickle=True)
            elif file.suffix == ".npz":
                with np.load(file) as kept:
                    names = kept.files
                np.savez(file, **dict.fromkeys(names, table))
            elif file.suffix == ".safetensors":
                torch.save({"model": bad}, file)
            else:
                file.write_bytes(pickle.dumps(bad, 0))
    photos = colour_run.folder.parent / "photos"
    lines = watched(OF_A_RUN, [photos, *runs], tmp_path)
    assert len([line for line in lines if line.startswith("ended ")]) == 3 * len(runs)
