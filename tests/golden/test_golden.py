"""What must not change: values recorded from the commit in `commit`, by `record.py`."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import cases
import cv2
import names
import numpy as np
import pytest
import recorded
import torch
import trainings
from filelock import FileLock

HERE = Path(__file__).parent
VALUES = {file.stem: json.loads(file.read_text()) for file in (HERE / "values").glob("*.json")}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Sources are named from this folder, and caches are empty."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    torch.set_num_threads(1)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: f"{case.file}: {case.name}")
def test_is_as_recorded(case: cases.Case, tmp_path: Path) -> None:
    now = case.make(tmp_path)
    if case.file == "squares":
        before = cv2.imread(f"values/squares-{case.name}.png")[:, :, ::-1]
        assert np.array_equal(now, before)
        return
    before = VALUES[case.file][case.name]
    wrong = cases.first(cases.differences(cases.rounded(now), before, case.tolerance))
    assert not wrong, "\n".join(wrong)


def test_every_recorded_value_has_its_case() -> None:
    assert {(file, name) for file, found in VALUES.items() for name in found} == {
        (case.file, case.name) for case in cases.CASES if case.file != "squares"
    }


@pytest.fixture(scope="session")
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The digests that the recorded commit's trainings have on this machine, made once and kept."""
    commit = (HERE / "commit").read_text().strip()
    made_from = hashlib.sha256(commit.encode())
    for file in sorted([HERE / "recorded.py", *(HERE / "material").rglob("*"), *(HERE / "runs").rglob("*")]):
        made_from.update(file.read_bytes() if file.is_file() else b"")
    made_from.update(json.dumps([torch.__version__, torch.__config__.show(), processor()]).encode())
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    cache = getattr(request.config, "cache", None)
    file = (cache.mkdir("golden") if cache else shared) / f"{made_from.hexdigest()[:16]}.json"
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            archive(commit, old := tmp_path_factory.mktemp("recorded"))
            home = str(tmp_path_factory.mktemp("home"))
            told = {"PYTHONPATH": str(old / "src"), "OMP_NUM_THREADS": "1", "HOME": home}
            part = file.with_suffix(".part")
            command = [sys.executable, "recorded.py", str(part)]
            subprocess.run(command, cwd=HERE, env=os.environ | told, check=True, capture_output=True)
            part.replace(file)
    return dict(json.loads(file.read_text()))


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line for line in lines if line.startswith("model name")), platform.processor())


def archive(commit: str, folder: Path) -> None:
    """The recorded commit's package, from the repository's history."""
    try:
        command = ["git", "archive", commit, "src"]
        packed = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the recorded commit {commit[:12]} is not in this clone: git fetch --unshallow")
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")


@pytest.mark.parametrize("name", recorded.CASES)
def test_weights_are_those_of_the_recorded_commit(name: str, before: dict[str, Any]) -> None:
    """Bit for bit: twenty steps of a training, or the rest of one that was killed half-way."""
    assert recorded.train(names.main, name, trainings.CASES[name]) == before[name]
