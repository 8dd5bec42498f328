"""Tables of labels that people bring: CSV, COCO, DeepLabCut, SLEAP."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
from PIL import Image

from fuzzing.made import model, photo, write_photos
from fuzzing.mutate import after, bent_json, cells, numbers, one_of, opcodes, scrambled
from fuzzing.structured import bent_hdf5
from fuzzing.target import Change, Target, cli, files, some

PARTS = ("snout", "left ear", "right ear")


def points(count: int) -> Any:
    return np.random.default_rng(count).uniform(4, 36, (count, len(PARTS), 2)).round(1)


def write_csv(folder: Path) -> None:
    write_photos(folder, 4)
    found = points(4)
    wide = ["image," + ",".join(f"{part}_{axis}" for part in PARTS for axis in "xy") + ",split"]
    long = ["image,landmark,x,y,note"]
    for index, row in enumerate(found):
        wide.append(
            f"{index}.png," + ",".join(map(str, row.ravel())) + ("," + ("train", "test", "labels")[index % 3])
        )
        long += [f"{index}.png,{part},{x},{y}," for part, (x, y) in zip(PARTS, row, strict=True)]
    (folder / "wide.csv").write_text("\n".join(wide) + "\n")
    (folder / "long.csv").write_text("\n".join(long) + "\n")


def csv_call(folder: Path, out: Path) -> int:
    codes = [
        cli(
            "data",
            "inspect",
            f"csv:{folder / name}",
            "--json",
            out / f"{name}.json",
            "--sheet",
            out / f"{name}.png",
        )
        for name in ("wide.csv", "long.csv")
    ]
    return max(codes)


def write_coco(folder: Path) -> None:
    write_photos(folder, 4)
    content = {
        "info": {"description": "small"},
        "categories": [{"id": 1, "name": "mouse", "keypoints": list(PARTS), "skeleton": [[1, 2]]}],
        "images": [
            {"id": n, "file_name": f"{n}.png", "width": 48, "height": 40, "split": "train"} for n in range(4)
        ],
        "annotations": [
            {
                "id": 10 + n,
                "image_id": n,
                "category_id": 1,
                "bbox": [4.0, 4.0, 32.0, 30.0],
                "area": 960.0,
                "keypoints": [value for x, y in row for value in (x, y, 2)],
                "num_keypoints": 3,
                "iscrowd": 0,
            }
            for n, row in enumerate(points(4).tolist())
        ],
    }
    (folder / "labels.json").write_text(json.dumps(content))


def coco_call(folder: Path, out: Path) -> int:
    return cli(
        "data",
        "inspect",
        f"coco:{folder / 'labels.json'}",
        "--json",
        out / "f.json",
        "--sheet",
        out / "s.png",
    )


def fit_call(folder: Path, out: Path) -> int:
    return cli(
        "fit", model(), f"coco:{folder / 'labels.json'}", "--out", out / "k.json", "--json", out / "m.json"
    )


# ---- DeepLabCut


def deeplabcut(folder: Path, count: int = 3) -> tuple[Path, list[str], Any]:
    place = folder / "labeled-data" / "m1"
    place.mkdir(parents=True)
    for index in range(count):
        Image.fromarray(photo(index)).save(place / f"img{index}.png")
    return (
        place,
        [f"labeled-data/m1/img{index}.png" for index in range(count)],
        points(count).reshape(count, -1),
    )


def write_dlc_csv(folder: Path) -> None:
    place, names, values = deeplabcut(folder)
    lines = [
        "scorer" + ",me" * 6,
        "bodyparts," + ",".join(part for part in PARTS for _ in "xy"),
        "coords" + ",x,y" * 3,
    ]
    lines += [f"{name}," + ",".join(map(str, row)) for name, row in zip(names, values.tolist(), strict=True)]
    (place / "CollectedData_me.csv").write_text("\n".join(lines) + "\n")


def write_dlc_fixed(folder: Path) -> None:
    from trigpoint.core.files.frame import write_frame

    place, names, values = deeplabcut(folder)
    levels = [
        ("scorer", ["me"] * 6),
        ("bodyparts", [part for part in PARTS for _ in "xy"]),
        ("coords", ["x", "y"] * 3),
    ]
    write_frame(place / "CollectedData_me.h5", "df_with_missing", levels, names, [(0, values)])


def write_dlc_table(folder: Path) -> None:
    """As pandas appends a table: the names of its columns in pickled attributes."""
    place, names, values = deeplabcut(folder)
    columns = [("me", part, axis) for part in PARTS for axis in "xy"]
    rows = np.zeros(len(names), [("index", "S40"), ("values_block_0", "<f8", (6,))])
    rows["index"], rows["values_block_0"] = names, values
    with h5py.File(place / "CollectedData_me.h5", "w") as file:
        group = file.create_group("df_with_missing")
        group.attrs["pandas_type"] = np.bytes_("frame_table")
        group.attrs["non_index_axes"] = np.bytes_(pickle.dumps([(1, columns)], 0))
        group.attrs["levels"] = np.int64(1)
        table = group.create_dataset("table", data=rows)
        table.attrs["values_block_0_kind"] = np.bytes_(pickle.dumps(columns, 4 - 4))


def dlc_call(folder: Path, out: Path) -> int:
    return cli("data", "inspect", f"deeplabcut:{folder}", "--json", out / "f.json", "--sheet", out / "s.png")


def hdf5(pattern: str, head: int = 8) -> Change:
    """Changed by h5py, most of the time, or in its bytes."""

    def structure(random: Random, folder: Path) -> None:
        bent_hdf5(random, next(iter(sorted(folder.glob(pattern)))))

    return some(structure, structure, structure, files({pattern: one_of(after(head), after(96), scrambled)}))


def write_pickle(folder: Path) -> None:
    columns = [("me", part, axis) for part in PARTS for axis in "xy"]
    for protocol in range(6):
        (folder / f"{protocol}.pickle").write_bytes(pickle.dumps([(1, columns)], protocol))


def pickle_call(folder: Path, out: Path) -> None:
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.readers.plain_pickle import NotPlain, plain

    for path in sorted(folder.iterdir()):
        try:
            plain(path.read_bytes())
        except NotPlain as error:
            raise TrigpointError(str(error)) from None


# ---- SLEAP


def write_sleap(folder: Path) -> None:
    import sleap_io

    write_photos(folder, 4)
    skeleton = sleap_io.Skeleton(nodes=list(PARTS), edges=[("snout", "left ear")], name="mouse")
    video = sleap_io.Video.from_filename([str(folder / f"{index}.png") for index in range(4)])
    frames = [
        sleap_io.LabeledFrame(
            video=video,
            frame_idx=index,
            instances=[
                getattr(sleap_io, kind).from_numpy(row, skeleton=skeleton)
                for kind in ("Instance", "PredictedInstance")
            ],
        )
        for index, row in enumerate(points(4))
    ]
    sleap_io.save_slp(
        sleap_io.Labels(labeled_frames=frames, videos=[video], skeletons=[skeleton]),
        str(folder / "labels.slp"),
        verbose=False,
    )


def sleap_call(folder: Path, out: Path) -> int:
    return cli("data", "inspect", folder / "labels.slp", "--json", out / "f.json", "--sheet", out / "s.png")


NO_HDF5 = r"nable to (synchronously )?open file|signature not found|truncated file"
TARGETS = {
    "csv": Target(
        write_csv,
        files({"*.csv": one_of(numbers, cells(","), cells(","), scrambled)}),
        csv_call,
        r"line 1: expected the columns",
        8,
    ),
    "coco": Target(
        write_coco, files({"*.json": one_of(*[bent_json] * 4, scrambled)}), coco_call, r"expected JSON", 12
    ),
    "fit": Target(write_coco, files({"*.json": bent_json}), fit_call, r"expected JSON", 2),
    "deeplabcut-csv": Target(
        write_dlc_csv,
        files({"**/*.csv": one_of(numbers, cells(","), cells(","), scrambled)}),
        dlc_call,
        r"no table of text|three header rows",
        5,
    ),
    "deeplabcut-fixed": Target(write_dlc_fixed, hdf5("**/*.h5"), dlc_call, NO_HDF5, 5, apart=True),
    "deeplabcut-table": Target(write_dlc_table, hdf5("**/*.h5"), dlc_call, NO_HDF5, 5, apart=True),
    "pickles": Target(
        write_pickle,
        files({"*.pickle": one_of(opcodes, opcodes, scrambled)}),
        pickle_call,
        r"a damaged pickle",
        6,
    ),
    "sleap": Target(write_sleap, hdf5("labels.slp"), sleap_call, NO_HDF5, 8, apart=True),
}
