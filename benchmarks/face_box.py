"""How OpenCV's face box lies to the framing that shipped face models know: the numbers of `core/subjects.py`.

python benchmarks/face_box.py mtfl:FOLDER
"""

from __future__ import annotations

import sys

import numpy as np

from trigpoint.core.sources import open_source
from trigpoint.core.subjects import FRAME, cascade_boxes


def main() -> None:
    source = open_source(sys.argv[1])
    assert source.annotations is not None
    rows = np.linspace(0, len(source) - 1, 500).astype(int)
    ratios, false, error = [], 0, []
    for row in map(int, rows):
        crop = source.box(row)
        if crop is None:
            continue
        centre, edge = np.array((crop.x + crop.width / 2, crop.y + crop.height / 2)), crop.width
        boxes = cascade_boxes(source.image(row))
        near = [box for box in boxes if np.hypot(*(box[:2] + box[2:] / 2 - centre)) < edge / 4]
        false += len(boxes) - len(near)
        if near:
            box = max(near, key=lambda box: box[2])
            ratios.append((edge / box[2], *((centre - box[:2]) / box[2])))
            framed = (FRAME[0] * box[2], *(box[:2] + np.array(FRAME[1:]) * box[2]))
            error.append((abs(framed[0] / edge - 1), np.hypot(*(np.array(framed[1:]) - centre)) / edge))
    median, spread = np.median(ratios, axis=0), np.std(ratios, axis=0)
    print(f"found {len(ratios)} of {len(rows)} faces, and {false} other boxes")
    print(
        f"edge, x and y of the crop's centre, in edges of the box: {median.round(3)}, "
        f"spread {spread.round(3)}"
    )
    size, place = np.mean(error, axis=0)
    print(f"framed as FRAME has it: edge off by {size:.1%}, centre by {place:.1%} of the crop")


if __name__ == "__main__":
    main()
