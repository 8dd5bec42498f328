"""The folder of a generator: a run folder that holds the landmark model, too."""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from trigpoint.core.config.generator import GeneratorConfig, from_dict
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import PART, write_atomically
from trigpoint.core.runs import GENERATOR_MODEL, Run
from trigpoint.core.written import GeneratorSummary


class GeneratorRun(Run):
    summary_kind: ClassVar[Any] = GeneratorSummary

    @property
    def landmarks(self) -> Run:
        """The landmark model that the generator was trained with: a copy."""
        return Run(self.folder / GENERATOR_MODEL)

    @property
    def model_file(self) -> Path:
        return self.folder / "generator.safetensors"

    @property
    def references_file(self) -> Path:
        """Landmarks of the prepared training images, (n, K, 2)."""
        return self.cache_folder / "landmarks.npy"

    def settings(self) -> GeneratorConfig:
        if not is_generator(self.folder):
            raise TrigpointError(f"{self.folder} is no run of `trigpoint generate train`.")
        tree = self.meta()["config"]
        try:
            return from_dict(tree)
        except TrigpointError as error:
            raise TrigpointError(f"{self.config_file}: {error}") from None

    def begin(self, settings: GeneratorConfig, source: Sequence[str], model: Run) -> None:
        """Write config.json, and copy the landmark model."""
        from trigpoint.core.version import __version__

        copy = self.folder / f"{GENERATOR_MODEL}{PART}"  # a folder without config.json must hold nothing else
        copy.mkdir(parents=True, exist_ok=True)
        for file in (model.config_file, model.model_file):
            shutil.copyfile(file, copy / file.name)
        versions = {"trigpoint": __version__, "torch": version("torch"), "python": platform.python_version()}
        meta = {"config": dataclasses.asdict(settings), "source": list(source), "versions": versions}
        write_atomically(self.config_file, json.dumps(meta, indent=2).encode())
        copy.rename(self.landmarks.folder)


def is_generator(folder: Path) -> bool:
    return (folder / GENERATOR_MODEL / "config.json").is_file()
