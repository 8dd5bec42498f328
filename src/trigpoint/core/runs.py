"""A run folder: the files in it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.arrays import load_packed
from trigpoint.core.checked import Mismatch, check, parse, read_json
from trigpoint.core.config import renamed
from trigpoint.core.config.tree import Config, from_dict, to_dict
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import write_atomically
from trigpoint.core.written import Meta, Summary, rectangular

GENERATOR_MODEL = "model"  # within the folder of a generator: the landmark model that it was trained with
FAR = 100  # edges of the image: no mean landmark is further away
MOST_SAMPLES = 1000


@dataclass(frozen=True)
class Run:
    folder: Path
    summary_kind: ClassVar[Any] = Summary

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
        lines: list[dict[str, Any]] = []
        # A line without its end was cut short by a kill.
        whole = self.log_file.read_bytes().rpartition(b"\n")[0]
        try:
            for text in whole.split(b"\n") if whole else ():
                line = parse(text, dict[str, float])
                before, step = lines[-1]["step"] if lines else -1, line.get("step", -1)
                if step <= before:
                    raise ValueError(f"step {step} after {before}" if lines else f"step {step}")
                lines.append(renamed.keys(line, renamed.LOG))
        except ValueError as error:
            raise TrigpointError(
                f"{self.log_file} is damaged at line {len(lines) + 1}: {error}; without that file "
                "only the report's curves are lost."
            ) from None
        return lines

    def summary(self) -> dict[str, Any]:
        if not self.summary_file.is_file():
            return {}
        summary: dict[str, Any] = read_json(self.summary_file, self.summary_kind)
        if not rectangular(summary.get("temporal"), len(summary.get("health", ()))):
            raise TrigpointError(f"{self.summary_file} is damaged: its tables are not of the same landmarks.")
        return summary

    def meta(self) -> dict[str, Any]:
        if not self.config_file.exists():
            raise TrigpointError(f"{self.folder} is no run folder: it has no config.json.")
        meta: dict[str, Any] = read_json(self.config_file, Any)
        if not isinstance(meta, dict) or not {"config", "source", "versions"} <= set(meta):
            raise TrigpointError(f"{self.config_file} is not the config.json of a run.")
        meta = renamed.keys(meta, renamed.META)
        try:
            check(meta, Meta)
        except Mismatch as error:
            raise TrigpointError(f"{self.config_file} is damaged: {error}.") from None
        return meta

    def config(self) -> Config:
        tree = self.meta()["config"]
        try:
            return from_dict(tree)
        except TrigpointError as error:
            raise TrigpointError(f"{self.config_file}: {error}") from None

    def names(self) -> list[str]:
        """What the landmarks are called: their numbers, unless somebody named them."""
        from trigpoint.core.keypoints import check_names

        given = self.meta().get("names", {})
        names = [given.get(str(k), str(k)) for k in range(self.config().model.landmarks)]
        check_names(names, f"the landmarks in {self.config_file}")
        return names

    def subject(self) -> str:
        """What is looked for on a photo: a name of `core/subjects.py`, such as "face", or nothing."""
        from trigpoint.core.subjects import DETECTORS

        subject: str = self.meta().get("subject", "")
        if subject and subject not in DETECTORS:
            raise TrigpointError(
                f"{self.config_file} names a subject {subject!r}; there is {', '.join(DETECTORS)}."
            )
        return subject

    def stages(self, ending: str) -> list[tuple[int, Path]]:
        """The files of the evolution with their steps, in order."""
        files = self.evolution_folder.glob(f"step-*{ending}")
        numbers = ((file.stem.removeprefix("step-"), file) for file in files)
        return sorted((int(number), file) for number, file in numbers if number.isdecimal())

    def samples(self) -> NDArray[np.uint8]:
        """The images kept for the report, (n, size, size, C)."""
        model = self.config().model
        edge = model.image_size
        return load_packed(
            self.samples_file, "pixels", np.uint8, (range(1, MOST_SAMPLES), edge, edge, model.channels)
        )

    def maps(self, file: Path) -> NDArray[np.uint8]:
        """The detection maps of one stage of the evolution, (n, K + 1, h, w)."""
        model = self.config().model
        edge = range(1, model.padded_size + 1)
        return load_packed(file, "maps", np.uint8, (range(1, MOST_SAMPLES), model.landmarks + 1, edge, edge))

    def rename(self, names: Sequence[str]) -> None:
        given = {str(k): name for k, name in enumerate(names) if name != str(k)}
        write_atomically(self.config_file, json.dumps(self.meta() | {"names": given}, indent=2).encode())

    def start(self, config: Config, source: Sequence[str], weights: Path | None = None) -> None:
        """Write config.json. A run that goes out from another model's `weights` remembers them until its
        first checkpoint, and takes over what it looks for on photos, and if it has the same landmarks their
        mean shape and names."""
        from trigpoint.core.version import __version__

        self.folder.mkdir(parents=True, exist_ok=True)
        versions = {"trigpoint": __version__, "torch": version("torch"), "python": platform.python_version()}
        meta: dict[str, Any] = {"config": to_dict(config), "source": list(source), "versions": versions}
        if weights is not None:
            before = Run(weights.parent)
            same = before.config().model.landmarks == config.model.landmarks
            keys = ("names", "subject", "shape") if same else ("subject",)
            meta |= {key: value for key, value in before.meta().items() if key in keys}
            meta["start"] = str(weights.resolve())
        write_atomically(self.config_file, json.dumps(meta, indent=2).encode())

    def shape(self) -> list[list[float]] | None:
        """The mean landmarks of the training images, (K, 2) in unit coordinates; None if unknown."""
        if "shape" not in self.meta():
            return None
        shape: list[list[float]] = self.meta()["shape"]
        near = all(abs(value) <= FAR for point in shape for value in point)
        if [len(point) for point in shape] != [2] * self.config().model.landmarks or not near:
            raise TrigpointError(
                f"{self.config_file} is damaged: its shape is not a point for each landmark."
            )
        return shape

    def start_file(self) -> Path:
        """The weights that a run goes out from."""
        if "start" not in self.meta():
            raise TrigpointError(f"{self.config_file} is damaged: it names no model to go out from.")
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
            raise TrigpointError(
                f"{self.folder} was moved, removed or replaced during the training, which ends."
            )

    def truncate_log(self, step: int) -> None:
        """Drop what was logged after the step that the run goes on from."""
        kept = [line for line in self.log() if line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.log_file, text.encode())
