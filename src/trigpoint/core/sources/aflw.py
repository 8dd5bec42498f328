"""AFLW: faces in the wild with up to 21 landmarks, in the layout its owners distribute (ICCV workshops 2011).

    FOLDER/data/aflw.sqlite        annotations; FOLDER/aflw.sqlite will do
    FOLDER/data/flickr/0, 2, 3     the photos, beside the database
    FOLDER/testing.txt             optional: which photos are for testing, such as MTFL's testing.txt

Used are the faces with a box and all five of the landmarks that the paper regresses. A landmark that
cannot be seen has no row in the database.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.base import Annotations, Source, Split, require, require_pixels
from trigpoint.core.sources.images import read_image

FEATURES = {  # the owners' names; left and right are those of the photo
    "LeftEyeCenter": "left eye",
    "RightEyeCenter": "right eye",
    "NoseCenter": "nose",
    "MouthLeftCorner": "left mouth corner",
    "MouthRightCorner": "right mouth corner",
}
TESTED, COUNTED = 2991, 13113  # of the paper's faces: its shares for a split without a list

NAMES = ", ".join(f"'{feature}'" for feature in FEATURES)
POINTS = f"""
SELECT FeatureCoords.face_id, descr, FeatureCoords.x, FeatureCoords.y
FROM FeatureCoords JOIN FeatureCoordTypes ON FeatureCoordTypes.feature_id = FeatureCoords.feature_id
WHERE FeatureCoords.x IS NOT NULL AND FeatureCoords.y IS NOT NULL AND descr IN ({NAMES})
"""
# One row per face, the first of its boxes. The folder of the photos is named after db_id.
FACES = """
SELECT Faces.face_id, FaceImages.db_id, filepath, FaceRect.x, FaceRect.y, w, h, MIN(FaceRect.rowid)
FROM Faces
JOIN FaceImages ON FaceImages.file_id = Faces.file_id AND FaceImages.db_id = Faces.db_id
JOIN FaceRect ON FaceRect.face_id = Faces.face_id
WHERE w > 0 AND h > 0
GROUP BY Faces.face_id ORDER BY Faces.face_id
"""


@dataclass(frozen=True)
class Face:
    number: int  # face_id
    folder: str  # beside the database: flickr
    file: PurePosixPath  # below the folder: 0/image00013.jpg
    box: tuple[float, ...]  # x, y, width, height
    points: list[tuple[float, float]]


class AFLW(Source):
    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        flat = folder / "aflw.sqlite"
        database = require(flat if flat.exists() else folder / "data" / "aflw.sqlite", "AFLW")
        listing = folder / "testing.txt"
        listed = _listed(listing) if listing.is_file() else set()
        how = "testing.txt names the test photos" if listed else "test faces by a hash of face_id"
        self.words: tuple[str, ...] = (f"aflw:{folder}",)
        self.description = f"aflw:{folder} ({how})"
        self.photos = database.parent
        faces = _read(database)
        if listed and not any(face.file.stem in listed for face in faces):
            raise TrigpointError(
                f"None of the photos that {listing} lists has a complete face in {database}."
            )
        self.faces = [
            face
            for face in faces
            if (face.file.stem in listed if listed else _drawn(face.number)) == (split == "test")
        ]
        if not self.faces:
            raise TrigpointError(f"{database} holds no face of the {split} split with all five landmarks.")
        self.annotations = Annotations(
            tuple(FEATURES.values()), np.array([face.points for face in self.faces]), (0, 1)
        )

    def __len__(self) -> int:
        return len(self.faces)

    def name(self, index: int) -> str:
        """Path and number of the face, since a photo may show several: 0/image00013-39341.jpg."""
        face = self.faces[index]
        return str(face.file.with_stem(f"{face.file.stem}-{face.number}"))

    def file(self, index: int) -> Path:
        return self.photos / self.faces[index].folder / self.faces[index].file

    def image(self, index: int) -> NDArray[np.uint8]:
        face = self.faces[index]
        return read_image(self.photos / face.folder / face.file, upright=False)

    def box(self, index: int) -> Placement | None:
        """The paper's: the annotated box with a quarter of its height above and an eighth of its width
        on the left and on the right."""
        x, y, width, height = self.faces[index].box
        return Placement(x - width / 8, y - height / 4, width * 5 / 4, height * 5 / 4)


def _read(database: Path) -> list[Face]:
    """The faces with a box and all five landmarks, by number."""
    points: dict[int, dict[str, tuple[float, float]]] = {}
    faces = []
    try:
        answer, _ = apart.call(
            "trigpoint.core.readers.database:read_rows", str(database.resolve()), [POINTS, FACES]
        )
        for number, feature, x, y in answer[0]:
            points.setdefault(number, {})[feature] = (float(x), float(y))
        for number, folder, file, *box, _ in answer[1]:
            found = points.get(number, {})
            if len(found) == len(FEATURES):
                ordered = [found[feature] for feature in FEATURES]
                faces.append(Face(int(number), *_place(folder, file), tuple(map(float, box)), ordered))
    except (apart.ReaderFailed, TypeError, ValueError, OverflowError) as error:
        raise TrigpointError(
            f"{database} is not the database of AFLW's owners: {str(error)[:200]}."
        ) from None
    for face in faces:
        require_pixels([*face.box, *np.ravel(face.points)], f"{database}, face {face.number}")
    return faces


def _place(folder: object, file: object) -> tuple[str, PurePosixPath]:
    if not isinstance(folder, str) or not isinstance(file, str) or not PurePosixPath(file).stem:
        raise ValueError("a photo has no name")
    return folder, PurePosixPath(file)


def _drawn(face: int) -> bool:
    """Whether a face is for testing where no list says so: fixed by its number alone."""
    return zlib.crc32(str(face).encode()) % COUNTED < TESTED


def _listed(listing: Path) -> set[str]:
    """The photos' names without ending; MTFL writes AFLW/0005-image15367.jpg and landmarks after it."""
    fields = [line.split()[0] for line in listing.read_text(errors="replace").splitlines() if line.strip()]
    if not fields:
        raise TrigpointError(f"{listing} lists no photo.")
    return {PurePosixPath(field.replace("\\", "/")).stem.split("-")[-1] for field in fields}
