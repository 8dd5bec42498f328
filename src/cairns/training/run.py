"""A run folder: the files in it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cairns.config import Config, build, from_dict, to_dict
from cairns.errors import CairnsError
from cairns.io import regular, write_atomically

GENERATOR_MODEL = "model"  # within the folder of a generator: the landmark model that it was trained with


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def config_file(self) -> Path:
        return self.folder / "config.json"

    @property
    def model_file(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def checkpoint_file(self) -> Path:
        return self.folder / "checkpoint" / "state.safetensors"

    @property
    def cache_folder(self) -> Path:
        return self.folder / "cache"

    @property
    def log_file(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def summary_file(self) -> Path:
        return self.folder / "summary.json"

    @property
    def samples_file(self) -> Path:
        """Some images kept aside for the report, as bytes (n, size, size, C)."""
        return self.folder / "samples.npz"

    @property
    def evolution_folder(self) -> Path:
        return self.folder / "evolution"

    @property
    def report_file(self) -> Path:
        return self.folder / "report.html"

    @property
    def aside(self) -> Path:
        """Where a run is kept while another takes its place."""
        return self.folder / ".replaced"

    @property
    def finished(self) -> bool:
        return self.model_file.is_file() and self.summary_file.is_file()

    def log(self) -> list[dict[str, Any]]:
        if not self.log_file.is_file():
            return []
        # A line without its end was cut short by a kill.
        lines = self.log_file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def summary(self) -> dict[str, Any]:
        return dict(json.loads(self.summary_file.read_text())) if self.summary_file.is_file() else {}

    def meta(self) -> dict[str, Any]:
        try:
            meta = json.loads(regular(self.config_file).read_text())
        except FileNotFoundError:
            raise CairnsError(f"{self.folder} is no run folder: it has no config.json.") from None
        except (OSError, ValueError) as error:
            raise CairnsError(f"{self.config_file} is damaged: {error}.") from None
        if not isinstance(meta, dict) or not {"config", "source", "versions"} <= set(meta):
            raise CairnsError(f"{self.config_file} is not the config.json of a run.")
        return meta

    def config(self) -> Config:
        return from_dict(self.meta()["config"])

    def names(self) -> list[str]:
        """What the landmarks are called: their numbers, unless somebody named them."""
        given = self.meta().get("names", {})
        return [str(given.get(str(k), k)) for k in range(self.config().model.landmarks)]

    def rename(self, names: Sequence[str]) -> None:
        given = {str(k): name for k, name in enumerate(names) if name != str(k)}
        write_atomically(self.config_file, json.dumps(self.meta() | {"names": given}, indent=2).encode())

    def start(self, config: Config, source: Sequence[str], weights: Path | None = None) -> None:
        """Write config.json. A run that goes out from another model's `weights` remembers them until its
        first checkpoint, and takes over what it looks for on photos, and if it has the same landmarks their
        mean shape and names."""
        import torch

        from cairns import __version__

        self.folder.mkdir(parents=True, exist_ok=True)
        versions = {"cairns": __version__, "torch": torch.__version__, "python": platform.python_version()}
        meta: dict[str, Any] = {"config": to_dict(config), "source": list(source), "versions": versions}
        if weights is not None:
            before = Run(weights.parent)
            same = before.config().model.landmarks == config.model.landmarks
            keys = ("names", "finder", "shape") if same else ("finder",)
            meta |= {key: value for key, value in before.meta().items() if key in keys}
            meta["start"] = str(weights.resolve())
        write_atomically(self.config_file, json.dumps(meta, indent=2).encode())

    def shape(self) -> list[list[float]] | None:
        """The mean landmarks of the training images, (K, 2) in unit coordinates; None if unknown."""
        if "shape" not in self.meta():
            return None
        shape: list[list[float]] = build(tuple[tuple[float, ...], ...], self.meta()["shape"], "shape")
        if [len(point) for point in shape] != [2] * self.config().model.landmarks:
            raise CairnsError(f"{self.config_file} is damaged: its shape is not a point for each landmark.")
        return shape

    def start_file(self) -> Path:
        """The weights that a run goes out from."""
        if "start" not in self.meta():
            raise CairnsError(f"{self.config_file} is damaged: it names no model to go out from.")
        return Path(self.meta()["start"])

    def keep_shape(self, shape: list[list[float]]) -> None:
        """Note the mean landmarks of the training images, (K, 2), in config.json."""
        write_atomically(self.config_file, json.dumps(self.meta() | {"shape": shape}, indent=2).encode())

    def check_there(self, log: IO[str]) -> None:
        """Whether the log that a training has open is still that of the folder: it may have been removed."""
        try:
            same = os.path.samestat(os.fstat(log.fileno()), self.log_file.stat())
        except OSError:
            same = False
        if not same:
            raise CairnsError(
                f"{self.folder} was moved, removed or replaced during the training, which ends."
            )

    def truncate_log(self, step: int) -> None:
        """Drop what was logged after the step that the run goes on from."""
        kept = [line for line in self.log() if line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.log_file, text.encode())
