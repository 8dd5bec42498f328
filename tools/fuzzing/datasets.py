"""Small folders in the layouts of the datasets that have a reader."""

from __future__ import annotations

import copy
import gzip
import io
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import cdflib
import h5py
import numpy as np
import scipy.io
from PIL import Image

from fuzzing.made import photo
from fuzzing.mutate import Mutation, after, bent_png, cells, numbers, one_of, scrambled
from fuzzing.pictures import write_video
from fuzzing.structured import bent_hdf5, bent_sqlite, bent_struct
from fuzzing.target import Change, Target, cli, files, some


def inspected(name: str, split: str = "train") -> Any:
    def call(folder: Path, out: Path) -> int:
        words = ("data", "inspect", f"{name}:{folder}", "--split", split)
        return cli(*words, "--json", out / "f.json", "--sheet", out / "s.png")

    return call


def picture(path: Path, index: int = 0, width: int = 48, height: int = 40) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(photo(index, width, height)).save(path)


# ---- lists of text


def write_cats(folder: Path) -> None:
    for index in range(4):
        path = folder / "CAT_00" / f"0000000{index}_00{index}.jpg"
        picture(path, index)
        numbers = np.random.default_rng(index).integers(4, 36, 18).tolist()
        path.with_name(path.name + ".cat").write_text("9 " + " ".join(map(str, numbers)) + " \n")


def write_celeba(folder: Path) -> None:
    names = [f"00000{index}.jpg" for index in range(1, 5)]
    random = np.random.default_rng(0)
    for index, name in enumerate(names):
        picture(folder / "Img/img_align_celeba" / name, index, 178, 218)
        picture(folder / "Img/img_celeba" / name, index)

    def table(path: str, heading: Sequence[str], columns: int, low: int, high: int) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        rows = [f"{name} {' '.join(map(str, random.integers(low, high, columns)))}" for name in names]
        (folder / path).write_text("\n".join([*heading, *rows]) + "\n")

    table("Anno/list_landmarks_align_celeba.txt", ("4", "lefteye_x lefteye_y"), 10, 40, 140)
    table("Anno/list_landmarks_celeba.txt", ("4", "lefteye_x lefteye_y"), 10, 4, 36)
    table("Anno/list_bbox_celeba.txt", ("4", "image_id x_1 y_1 width height"), 4, 4, 36)
    table("Anno/list_attr_celeba.txt", ("4", "Smiling Male Young"), 3, 1, 2)
    table("Eval/list_eval_partition.txt", (), 1, 0, 1)
    (folder / "MAFL").mkdir()
    (folder / "MAFL/training.txt").write_text("\n".join(names[:2]) + "\n")
    (folder / "MAFL/testing.txt").write_text("\n".join(names[3:]) + "\n")


def write_mtfl(folder: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("training.txt", "testing.txt"):
        lines = []
        for index, kind in enumerate(("AFLW", "lfw_5590", "net_7876", "net_7876")):
            picture(folder / kind / f"{name[:4]}{index}.jpg", index, 160 + 240 * (index == 3), 160)
            numbers = " ".join(f"{value:.2f}" for value in random.uniform(60, 100, 10))
            lines.append(f" {kind}\\{name[:4]}{index}.jpg {numbers} 1 2 1 {index + 1}")
        (folder / name).write_text("\r\n".join(lines) + "\r\n")


def write_animals(folder: Path) -> None:
    lines = ["image,x,y,width,height,facing"]
    for index, species in enumerate(("antelope", "deer", "moose", "horse", "zebra")):
        picture(folder / "JPEGImages" / species / f"{index}.jpg", index)
        lines.append(f"{species}/{index}.jpg,{index},2.5,30,{20 + index},{('left', 'right')[index % 2]}")
    (folder / "boxes.csv").write_text("\n".join(lines) + "\n")


def write_horses(folder: Path) -> None:
    for index in range(3):
        picture(folder / "rgb" / f"horse00{index}.jpg", index)
        mask = np.zeros((40, 48), np.uint8)
        mask[8:30, 10:40] = 255
        (folder / "figure_ground").mkdir(exist_ok=True)
        Image.fromarray(mask).save(folder / "figure_ground" / f"horse00{index}.png")


def write_shoes(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for index in range(3):
        (folder / "Boots").mkdir(exist_ok=True)
        Image.fromarray(photo(index)).save(folder / "Boots" / f"{index}.jpg", exif=exif)


JPEG: Mutation = one_of(after(3), after(20), scrambled)
LIST: Mutation = one_of(numbers, numbers, cells(" "), cells(" "), scrambled)

# ---- idx


def write_mnist(folder: Path) -> None:
    digits = np.random.default_rng(0).integers(0, 256, (12, 28, 28), np.uint8)
    images = struct.pack(">4I", 0x0803, 12, 28, 28) + digits.tobytes()
    labels = struct.pack(">2I", 0x0801, 12) + bytes(index % 10 for index in range(12))
    for prefix in ("train", "t10k"):
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)


def write_mnist_packed(folder: Path) -> None:
    write_mnist(folder)
    for path in list(folder.iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def bent_gzip(random: Random, data: bytes) -> bytes:
    """Packed anew with other content, or much of it."""
    content = gzip.decompress(data)
    how = random.randrange(6)
    if how == 0:
        return scrambled(random, data, 10)
    if how == 1:
        content = content[:4] + struct.pack(">3I", 2**20, 28, 28) + bytes(60_000_000)
    elif how == 2:
        return data + gzip.compress(scrambled(random, content), mtime=0)
    else:
        content = scrambled(random, content, 4 if how < 5 else 0)
    return gzip.compress(content, 1, mtime=0)


# ---- MATLAB and SQLite

CAR = {
    f"{side}_{part}": (0.1 * (2 * (side == "left") - 1), 0.2, -0.1)
    for side in ("left", "right")
    for part in ("front_wheel", "back_wheel", "front_light", "back_trunk")
}
CAR |= {
    f"upper_{side}_{part}": (0.1, 0.0, 0.2)
    for side in ("left", "right")
    for part in ("windshield", "rearwindow")
}
MODEL = {
    "vertices": np.zeros((3, 3)),
    "pnames": list(CAR),
    **{name: np.array([place]) for name, place in CAR.items()},
}


def car_record(index: int) -> dict[str, Any]:
    view = {"azimuth": 90.0 + index, "azimuth_coarse": 90.0, "elevation": 5.0, "distance": 8.0, "focal": 1.0}
    view |= {"theta": 1.0, "px": 24.0, "py": 20.0, "viewport": 300.0}
    anchors = {name: {"location": np.array([10.0 + index, 12.0]), "status": 1.0} for name in CAR}
    thing = {"class": "car", "truncated": 0.0, "occluded": 0.0, "difficult": 0.0, "cad_index": 1.0}
    return {"filename": f"n{index}.JPEG", "objects": {**thing, "viewpoint": view, "anchors": anchors}}


def write_cars(folder: Path) -> None:
    for part in ("car_imagenet", "car_pascal"):
        (folder / "Annotations" / part).mkdir(parents=True)
    (folder / "CAD").mkdir()
    save_mat(folder / "CAD" / "car.mat", {"car": MODEL})
    for index in range(3):
        save_mat(folder / "Annotations" / "car_imagenet" / f"n{index}.mat", {"record": car_record(index)})
        picture(folder / "Images" / "car_imagenet" / f"n{index}.JPEG", index)


def save_mat(path: Path, tree: Any, packed: bool = True) -> None:
    """Without the time of writing, which the head has room for."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, tree, do_compression=packed, long_field_names=True)
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + stream.getvalue()[116:])


def bent_cars(random: Random, folder: Path) -> None:
    path = random.choice(sorted(folder.rglob("*.mat")))
    tree: Any = {"car": copy.deepcopy(MODEL)} if path.name == "car.mat" else {"record": car_record(1)}
    for _ in range(random.choice((1, 1, 3))):
        tree = bent_struct(random, tree)
    try:
        save_mat(path, tree, random.random() < 0.5)
    except (TypeError, ValueError, RecursionError, OverflowError):  # which the format has no way to say
        files({"**/*.mat": after(128)})(random, folder)


AFLW = """
CREATE TABLE Faces (face_id INTEGER PRIMARY KEY, file_id TEXT, db_id TEXT);
CREATE TABLE FaceImages (image_id INTEGER PRIMARY KEY, db_id TEXT, file_id TEXT, filepath TEXT);
CREATE TABLE FaceRect (face_id INTEGER, x INTEGER, y INTEGER, w INTEGER, h INTEGER, annot_type_id INTEGER);
CREATE TABLE FeatureCoords (face_id INTEGER, feature_id INTEGER, x REAL, y REAL);
CREATE TABLE FeatureCoordTypes (feature_id INTEGER PRIMARY KEY, descr TEXT);
"""


def write_aflw(folder: Path) -> None:
    from trigpoint.core.sources.aflw import FEATURES

    with closing(sqlite3.connect(folder / "aflw.sqlite")) as connection, connection:
        connection.executescript(AFLW)
        connection.executemany("INSERT INTO FeatureCoordTypes VALUES (?, ?)", enumerate(FEATURES, 1))
        for face in range(8):
            picture(folder / "flickr" / "0" / f"{face}.jpg", face)
            connection.execute("INSERT INTO Faces VALUES (?, ?, 'flickr')", (face, f"{face}.jpg"))
            words = (f"{face}.jpg", f"0/{face}.jpg")
            connection.execute("INSERT INTO FaceImages VALUES (NULL, 'flickr', ?, ?)", words)
            connection.execute("INSERT INTO FaceRect VALUES (?, 4, 4, 30, 30, 1)", (face,))
            rows = [(face, number, 5.0 + number + face, 6.0 + number) for number in range(1, 6)]
            connection.executemany("INSERT INTO FeatureCoords VALUES (?, ?, ?, ?)", rows)


def hostile_aflw(random: Random, folder: Path) -> None:
    bent_sqlite(random, folder / "aflw.sqlite")


# ---- Human3.6M


def write_human36m(folder: Path) -> None:
    subject = folder / "S1"
    frames = [photo(index, 64, 64) for index in range(5)]
    for number, name in enumerate(("Walking 1.54138969", "Posing.60457274", "Waiting.55011271")):
        (subject / "Videos").mkdir(parents=True, exist_ok=True)
        write_video(subject / "Videos" / f"{name}.mp4", "libx264", frames)
        poses = subject / "MyPoseFeatures" / "D2_Positions" / f"{name}.cdf"
        poses.parent.mkdir(parents=True, exist_ok=True)
        write_poses(poses, np.random.default_rng(number).uniform(4, 60, (1, 5, 64)).astype(np.float32))
        masks = subject / "MySegmentsMat" / "ground_truth_bs" / f"{name}.mat"
        masks.parent.mkdir(parents=True, exist_ok=True)
        write_masks(masks, number % 2 == 1)


def write_poses(path: Path, values: Any, packed: bool = False) -> None:
    spec = {"Compressed": 6} if packed else None
    writer = cdflib.cdfwrite.CDF(path, spec, delete=True)
    about = {"Variable": "Pose", "Data_Type": writer.CDF_FLOAT, "Num_Elements": 1, "Rec_Vary": True}
    writer.write_var({**about, "Dim_Sizes": list(values.shape[1:])}, var_data=values)
    writer.close()


def write_masks(path: Path, hdf5: bool) -> None:
    half = np.zeros((64, 64), np.uint8)
    half[:, :32] = 1
    if not hdf5:
        cells_of = np.empty((5, 1), object)
        for row in range(5):
            cells_of[row, 0] = half
        save_mat(path, {"Masks": cells_of})
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("#refs#")
        references = [group.create_dataset(str(row), data=half).ref for row in range(5)]
        file.create_dataset("Masks", data=np.array([references], h5py.ref_dtype))
    head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"
    path.write_bytes(head + path.read_bytes()[len(head) :])


MATS = "S1/MySegmentsMat/ground_truth_bs/"


def bent_masks(random: Random, folder: Path) -> None:
    path = folder / MATS / random.choice(("Walking 1.54138969.mat", "Posing.60457274.mat"))
    for video in (folder / "S1/Videos").iterdir():
        if video.stem != path.stem:
            video.unlink()
    if path.name.startswith("Posing"):
        if random.random() < 0.75:
            bent_hdf5(random, path)
            head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"
            path.write_bytes(head + path.read_bytes()[len(head) :])
        else:
            path.write_bytes(after(520)(random, path.read_bytes()))
        return
    cells_of = np.empty((5, 1), object)
    for row in range(5):
        cells_of[row, 0] = random.choice(
            (
                np.ones((64, 64)),
                np.ones((64, 64, 2), bool),
                np.empty((0, 3)),
                "x",
                1.0,
                np.full((9, 9), np.nan),
                np.ones((2, 2, 2, 2)),
                {"a": 1.0},
            )
        )
    if random.random() < 0.6:
        save_mat(
            path,
            random.choice(
                (
                    {"Masks": cells_of},
                    {"Masks": cells_of.T},
                    {"Masks": cells_of[:2]},
                    {"Masks": np.ones((64, 64, 5))},
                    {"Other": cells_of},
                )
            ),
        )
    else:
        save_mat(path, {"Masks": cells_of}, packed=False)
        path.write_bytes(after(128)(random, path.read_bytes()))


def bent_poses(random: Random, folder: Path) -> None:
    path = folder / "S1/MyPoseFeatures/D2_Positions/Walking 1.54138969.cdf"
    if random.random() < 0.3:
        values = random.choice(
            (
                np.zeros((1, 0, 64)),
                np.zeros((1, 5, 63)),
                np.full((1, 5, 64), np.nan),
                np.ones((1, 9, 64)),
                np.full((1, 5, 64), 1e30),
                np.zeros((1, 64)),
                np.zeros((2, 5, 32)),
            )
        )
        write_poses(path, values.astype(np.float32), random.random() < 0.5)
    if random.random() < 0.8:
        path.write_bytes(after(8)(random, path.read_bytes()))


def plain(pattern: str, mutation: Mutation) -> Change:
    return files({pattern: mutation})


DATABASE = r"file is not a database"
TARGETS = {
    "cats": Target(write_cats, plain("CAT_00/*.cat", LIST), inspected("cats"), r"expected 9 and", 2),
    "celeba": Target(
        write_celeba,
        some(plain("Anno/*.txt", LIST), plain("MAFL/*.txt", LIST), plain("Eval/*.txt", LIST)),
        inspected("celeba"),
        r"expected a name",
        3,
    ),
    "celeba-unaligned": Target(
        write_celeba, plain("Anno/*.txt", LIST), inspected("celeba-unaligned", "test"), r"expected a name", 2
    ),
    "mtfl": Target(
        write_mtfl,
        some(plain("training.txt", LIST), plain("training.txt", LIST), plain("net*/*.jpg", JPEG)),
        inspected("mtfl"),
        r"line 1: expected a path",
        4,
    ),
    "animals": Target(
        write_animals,
        plain("boxes.csv", one_of(numbers, cells(","), cells(","), scrambled)),
        inspected("animals"),
        r"expected the header",
        3,
    ),
    "horses": Target(
        write_horses,
        some(plain("rgb/*", JPEG), plain("figure_ground/*", bent_png)),
        inspected("horses"),
        r"expected JPEG",
        3,
    ),
    "shoes": Target(write_shoes, plain("Boots/*", JPEG), inspected("shoes"), r"expected JPEG", 3),
    "mnist": Target(
        write_mnist,
        plain("train*", one_of(after(4), scrambled)),
        inspected("mnist"),
        r"expected an idx file",
        2,
    ),
    "mnist-packed": Target(
        write_mnist_packed,
        plain("train*", bent_gzip),
        inspected("mnist"),
        r"expected an idx file|Not a gzipped",
        2,
    ),
    "cars": Target(
        write_cars,
        some(bent_cars, bent_cars, bent_cars, plain("**/*.mat", after(124))),
        inspected("cars"),
        r"Unknown mat file type|Mat 4 mat",
        6,
        apart=True,
    ),
    "aflw": Target(
        write_aflw,
        some(hostile_aflw, hostile_aflw, plain("aflw.sqlite", one_of(after(16), after(100)))),
        inspected("aflw"),
        DATABASE,
        5,
        apart=True,
    ),
    "human36m-poses": Target(
        write_human36m, bent_poses, inspected("human36m"), r"not a CDF|magic|valid CDF", 3, apart=True
    ),
    "human36m-masks": Target(
        write_human36m,
        bent_masks,
        inspected("human36m"),
        r"nable to (synchronously )?open file|Unknown mat file type",
        5,
        apart=True,
    ),
}
