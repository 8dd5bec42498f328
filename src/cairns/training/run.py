"""A run folder: the files in it, and the rules about touching one that exists."""

from __future__ import annotations

import contextlib
import fcntl
import json
import platform
import shutil
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

    def keep_shape(self, shape: list[list[float]]) -> None:
        """Note the mean landmarks of the training images, (K, 2), in config.json."""
        write_atomically(self.config_file, json.dumps(self.meta() | {"shape": shape}, indent=2).encode())

    def truncate_log(self, step: int) -> None:
        """Drop what was logged after the step that the run goes on from."""
        kept = [line for line in self.log() if line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.log_file, text.encode())


def claim(folder: Path, *, resume: bool, overwrite: bool) -> Run:
    """The run to write into. Refuses a folder that holds something else, or a run nobody said to replace."""
    run = Run(folder)
    if str(folder).encode(errors="replace").decode() != str(folder):
        raise CairnsError(f"The name of {folder} is not UTF-8; safetensors files cannot be written to it.")
    if run.log_file.is_file():
        with run.log_file.open("a") as log:
            lock(log, folder)
    if resume:
        run.meta()
        return run
    if folder.is_file():
        raise CairnsError(f"{folder} is a file; --out names a folder.")
    if run.config_file.exists():
        if not overwrite:
            state = "a finished run" if run.finished else "an unfinished run"
            raise CairnsError(
                f"{folder} already holds {state}: go on with --resume, replace it with --overwrite, "
                "or choose another --out."
            )
        run.meta()  # raises where the config.json is another program's
    elif folder.is_dir() and any(folder.iterdir()):
        raise CairnsError(f"{folder} is not empty and holds no run; choose another --out.")
    return run


def lock(log: IO[str], folder: Path) -> None:
    """Keep the log of a run for this training until it is closed; refuse if another training has it."""
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CairnsError(
            f"Another training is writing into {folder}: wait for it, or choose another --out."
        ) from None
    except OSError:  # a file system without locks
        return


def set_aside(run: Run) -> Path | None:
    """Move a run that is to be replaced out of the way, until the new one has its images.

    Within its own folder, which may be the one the user is in.
    """
    if not run.config_file.exists():
        return None
    aside = run.folder / ".replaced"
    shutil.rmtree(aside, ignore_errors=True)
    children = list(run.folder.iterdir())
    aside.mkdir()
    for child in children:
        child.rename(aside / child.name)
    return aside


def discard(run: Run, aside: Path | None) -> None:
    """Remove a run that could not begin, and put back the one it was to replace."""
    for child in run.folder.iterdir():
        if child == aside:
            continue
        if child.is_dir():
            shutil.rmtree(child)
        else:
            child.unlink()
    if aside is None:
        with contextlib.suppress(OSError):  # the folder that the user is in stays
            run.folder.rmdir()
        return
    for child in aside.iterdir():
        child.rename(run.folder / child.name)
    aside.rmdir()
