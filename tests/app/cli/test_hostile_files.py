"""Files that would run a command in the tools that wrote them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trigpoint.core.runs import Run

Call = Callable[..., Any]  # the fixture `trigpoint`


class Runs:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path, how: str) -> None:
        self.marker, self.how = marker, how

    def __reduce__(self) -> Any:
        if self.how == "system":
            return os.system, (f"touch '{self.marker}'",)
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


def hostile_project(folder: Path, marker: Path, layout: str, how: str) -> Path:
    """A DeepLabCut project of HDF5 alone; an attribute that PyTables keeps as a pickle runs something."""
    place = folder / "labeled-data" / "m1"
    place.mkdir(parents=True)
    columns = pd.MultiIndex.from_product([["me"], ["snout", "tail"], ["x", "y"]])
    columns.names = ["scorer", "bodyparts", "coords"]
    names = [f"labeled-data/m1/img{number}.png" for number in range(6)]
    values = np.random.default_rng(0).uniform(0, 40, (6, 4))
    for name in names:
        Image.new("RGB", (48, 48), (200, 30, 60)).save(place / Path(name).name)
    table = place / "CollectedData_me.h5"
    pd.DataFrame(values, names, columns).to_hdf(table, key="df_with_missing", format=layout)
    code = pickle.dumps(Runs(marker, how), 0)
    with h5py.File(table, "r+") as file:
        node = file["df_with_missing"] if layout == "table" else file["df_with_missing"]["axis1"]
        node.attrs["non_index_axes" if layout == "table" else "name"] = np.bytes_(code)
    return folder


@pytest.mark.parametrize("how", ["system", "exec"])
@pytest.mark.parametrize("verb", ["inspect", "fit"])
def test_a_table_whose_attribute_runs_a_command_is_refused(
    trigpoint: Call, tiny_run: Run, tmp_path: Path, verb: str, how: str
) -> None:
    project = hostile_project(tmp_path / "project", tmp_path / "ran", "table", how)
    words = f"deeplabcut:{project}"
    if verb == "inspect":
        said = trigpoint("data", "inspect", words)
    else:
        said = trigpoint("fit", tiny_run.folder, words, "--out", tmp_path / "keypoints.json")
    assert not (tmp_path / "ran").exists()
    assert said.refused(
        "its attribute non_index_axes is a pickle with the instruction GLOBAL, which could run code"
    )
    assert not (tmp_path / "keypoints.json").exists()


def test_an_attribute_that_says_nothing_is_not_looked_at(trigpoint: Call, tmp_path: Path) -> None:
    """Of the fixed layout the names are no pickles."""
    project = hostile_project(tmp_path / "project", tmp_path / "ran", "fixed", "system")
    said = trigpoint("data", "inspect", f"deeplabcut:{project}")
    assert not (tmp_path / "ran").exists()
    assert said.code == 0
    assert "2 annotated landmarks, complete on 6 images" in said.out
