"""Where dlib's detector puts the face on the crops of a source: the numbers of `faces.USUAL_BOX`.

python benchmarks/dlib_box.py mtfl:FOLDER
"""

from __future__ import annotations

import sys

import numpy as np

from trigpoint.core.config.tree import Config
from trigpoint.core.sources import open_source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.faces import SIZE, Dlib


def main() -> None:
    source, model = open_source(sys.argv[1]), Dlib()
    boxes = []
    rows = np.linspace(0, len(source) - 1, 500).astype(int)
    for row in rows:
        box, found = model.box(square(source, int(row), Config(), SIZE)[0])
        if found:
            boxes.append((box.left(), box.top(), box.right() + 1, box.bottom() + 1))
    median = np.median(boxes, axis=0) / SIZE
    print(f"found {len(boxes)} of {len(rows)} faces; median left, top, right, bottom: {median.round(3)}")


if __name__ == "__main__":
    main()
