"""What made the results of a detection, kept beside them: so finished work is told from stale work.

A record compares the model (a hash of its weights), how it prepares images, options, keypoints, and the size
and time of each input. Version, device and duration are noted, not compared.

    {"compared": {...}, "inputs": {NAME: {"size": ..., "time": ...}}, "results": {FILE: {"size": ...}},
     "pending": [FILE ...], "noted": {...}}

Results are renamed into place one by one. Before that they are noted as pending, so that a call that was
killed in between can be repeated: what is pending may be there or not, and is written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import printable, write_atomically

LARGEST = 2_000_000_000  # bytes of a record that is read
WORDS = {
    "model": "by another model",
    "preparation": "by a model that prepares images in another way",
    "names": "with other names of the landmarks",
    "keypoints": "with other keypoints",
}


class Record:
    def __init__(self, path: Path, compared: dict[str, Any], overwrite: bool = False) -> None:
        """The record of earlier calls that this one adds to; an empty one where there is none."""
        self.path, self.folder = path, path.parent
        self.compared: dict[str, Any] = json.loads(json.dumps(compared))  # tuples as the lists they become
        self.inputs: dict[str, dict[str, Any]] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.pending: set[str] = set()
        self.noted: dict[str, Any] = {}
        self.overwrite = overwrite
        if path.exists() and not overwrite:
            self._read()

    def _read(self) -> None:
        try:
            if self.path.stat().st_size > LARGEST:
                raise ValueError("it is too large")
            content = json.loads(self.path.read_bytes())
            compared, inputs, results = content["compared"], content["inputs"], content["results"]
            pending, noted = content["pending"], content.get("noted", {})
            sizes = [entry["size"] for entry in (*inputs.values(), *results.values())]
            whole = (
                isinstance(compared, dict)
                and isinstance(compared["options"], dict)
                and all(type(size) is int and size >= 0 for size in sizes)
                and all(type(entry["time"]) is int for entry in inputs.values())
                and isinstance(noted, dict)
                and isinstance(pending, list)
                and all(isinstance(name, str) for name in pending)
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TrigpointError(
                f"{self.path} is damaged ({error}), so what made the results beside it is not known; "
                "--overwrite replaces them, or choose another --out."
            ) from None
        if not whole:
            raise TrigpointError(
                f"{self.path} is damaged, so what made the results beside it is not known; "
                "--overwrite replaces them, or choose another --out."
            )
        if compared != self.compared:
            of = f"the results of {printable(next(iter(inputs)))}" if len(inputs) == 1 else "what is there"
            raise TrigpointError(
                f"{self.path.parent} holds other results: {of} was made {self._difference(compared)}; "
                "--overwrite replaces it, or choose another --out."
            )
        self.inputs, self.results, self.pending, self.noted = inputs, results, set(pending), noted

    def _difference(self, compared: dict[str, Any]) -> str:
        for key, words in WORDS.items():
            if compared.get(key) != self.compared[key]:
                return words
        before, now = compared["options"], self.compared["options"]
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return f"with other options ({', '.join(f'--{printable(name)}' for name in names)})"

    def knows(self, name: str, identity: dict[str, int]) -> bool:
        """Whether this input is among the results; refuses one that has changed since."""
        entry = self.inputs.get(name)
        if entry is None:
            return False
        if any(entry.get(key) != value for key, value in identity.items()):
            raise TrigpointError(
                f"{printable(name)} has changed since its results in {self.folder} were made; --overwrite "
                "makes them again, or choose another --out."
            )
        return True

    def has(self, file: Path, **options: Any) -> bool:
        """Whether a result is there as it was written; refuses one that something else wrote or changed."""
        if self.overwrite or not file.exists() or self._key(file) in self.pending:
            return False
        entry = self.results.get(self._key(file))
        if entry is None:
            reason = f"is already there, and {self.path.name} does not say what made it"
        elif entry["size"] != file.stat().st_size:
            reason = "was changed after it had been written"
        elif any(entry.get(name) != value for name, value in options.items()):
            reason = f"was made with other options ({', '.join(f'--{name}' for name in options)})"
        else:
            return True
        raise TrigpointError(f"{file} {reason}; --overwrite replaces it, or choose another --out.")

    def stale(self, wanted: Iterable[Path]) -> list[str]:
        """Of a record that is to be replaced: results that are there and will not be written again."""
        if not (self.overwrite and self.path.exists()):
            return []
        try:
            names = list(json.loads(self.path.read_bytes())["results"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return []
        written = {self._key(file) for file in wanted}
        return [name for name in names if name not in written and (self.folder / name).is_file()]

    def expect(self, files: Iterable[Path]) -> None:
        """Note results that are about to be renamed into place."""
        self.pending |= {self._key(file) for file in files}
        self.save()

    def add(self, file: Path, **options: Any) -> None:
        """Note a result that is in place."""
        self.results[self._key(file)] = {"size": file.stat().st_size, **options}
        self.pending.discard(self._key(file))

    def save(self) -> None:
        content = {
            "compared": self.compared,
            "inputs": self.inputs,
            "results": self.results,
            "pending": sorted(self.pending),
            "noted": self.noted,
        }
        write_atomically(self.path, json.dumps(content, indent=1).encode())

    def _key(self, file: Path) -> str:
        return file.relative_to(self.folder).as_posix()


def identity(file: Path | None) -> dict[str, int]:
    """What tells that a file has not changed: its size and time; nothing of what is no file."""
    if file is None:
        return {"size": 0, "time": 0}
    try:
        state = file.stat()
    except OSError:  # said where it is read
        return {"size": 0, "time": 0}
    return {"size": state.st_size, "time": state.st_mtime_ns}
