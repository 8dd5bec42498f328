"""What the tests of several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from trigpoint.app.cli import main


class Said(NamedTuple):
    """What a call of the command line ended with and said."""

    code: int
    out: str
    err: str

    def refused(self, words: str) -> bool:
        """Exit code 2 and one sentence on stderr with these words in it."""
        assert self.code == 2, self
        assert self.err.startswith("trigpoint: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.rstrip().endswith((".", ")")), self.err
        assert words in self.err, self.err
        return True


@pytest.fixture
def trigpoint(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Call the command line and keep what it says."""

    def call(*words: object) -> Said:
        capfd.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Said(code, *capfd.readouterr())

    return call


@pytest.fixture(scope="session")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in MTFL's layout: 12 training images and 4 for testing. Do not change it."""
    folder = tmp_path_factory.mktemp("faces") / "mtfl"
    (folder / "AFLW").mkdir(parents=True)
    random = np.random.default_rng(0)
    for name, count in (("training.txt", 12), ("testing.txt", 4)):
        lines = []
        for index in range(count):
            file = f"{name[:4]}-{index}.jpg"
            x, y = random.uniform(40, 60, 2)
            picture = np.full((100, 100, 3), 60, np.uint8)
            picture[int(y) - 15 : int(y) + 15, int(x) - 15 : int(x) + 15] = (240, 200, 160)
            Image.fromarray(picture).save(folder / "AFLW" / file)
            xs, ys = [x - 14, x + 14, x, x - 10, x + 10], [y - 10, y - 10, y, y + 10, y + 10]
            lines.append(" AFLW\\" + " ".join([file, *(f"{value:.4f}" for value in xs + ys), "1 1 2 3"]))
        (folder / name).write_text("\r\n".join(lines) + "\r\n")
    return folder
