"""Runs of earlier versions, whose files call some things otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trigpoint.core.config.tree import Config, from_dict, load_config, to_dict
from trigpoint.core.errors import TrigpointError
from trigpoint.core.runs import Run

CONFIG = replace(Config(), views=3, losses=replace(Config().losses, locality=5.0))
STAGES = {"all": "discover", "detector": "distill", "drawing": "draw", "decoder": "edit"}


def as_before(config: Config, part: str) -> dict[str, Any]:
    tree = to_dict(config)
    tree["looks"] = tree.pop("views")
    tree["losses"]["still"] = tree["losses"].pop("locality")
    del tree["train"]["stage"]
    tree["train"]["part"] = part
    return tree


@pytest.mark.parametrize("part", STAGES)
def test_an_old_config_is_todays(part: str, tmp_path: Path) -> None:
    today = replace(CONFIG, train=replace(CONFIG.train, stage=STAGES[part]))  # type: ignore[arg-type]
    tree = as_before(CONFIG, part)
    assert from_dict(tree) == today
    assert tree == as_before(CONFIG, part)  # left as it was
    (tmp_path / "config.json").write_text(json.dumps({"config": tree}))
    assert load_config(tmp_path / "config.json") == today


def test_an_old_value_that_is_none_is_refused_by_its_name_of_today() -> None:
    with pytest.raises(
        TrigpointError, match=r"^config\.train\.stage must be one of discover, .*; got 'nose'"
    ):
        from_dict({"train": {"part": "nose"}})
    with pytest.raises(TrigpointError, match=r"^config\.views must be between 1 and 16; got 17"):
        from_dict({"looks": 17})


@pytest.mark.parametrize("tree", [{"train": 3}, {"losses": None}])
def test_what_is_no_object_is_refused_as_ever(tree: Any) -> None:
    with pytest.raises(TrigpointError, match=r"^config\.(train|losses) must be an object"):
        from_dict(tree)


def test_an_old_run_is_read(tmp_path: Path) -> None:
    meta = {"config": as_before(CONFIG, "decoder"), "source": ["digits"], "versions": {}, "finder": "face"}
    (tmp_path / "config.json").write_text(json.dumps(meta))
    (tmp_path / "log.jsonl").write_text('{"step": 0, "recon": 1.5, "still": 0.25}\n')
    run = Run(tmp_path)
    assert run.config().train.stage == "edit"
    assert run.subject() == "face"
    assert run.log() == [{"step": 0, "recon": 1.5, "locality": 0.25}]
