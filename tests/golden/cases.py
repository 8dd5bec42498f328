"""What is recorded: each case is one call of the package from outside, and the plain value it gives.

Cases of one file of `values/` change together. Those of which a change is planned have files of their own:
name, options, presets, box, views, face, squares. Landmarks are in edges of the image where the package gives
numbers, and in pixels where it writes files of so many decimals.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import names
import numpy as np
from names import Editor, Placement, Predictor
from numpy.typing import NDArray
from reading import (
    Studio,
    as_text,
    coco,
    deeplabcut,
    differences,
    first,
    options,
    rounded,
    run,
    sleap,
    small,
    table,
)

__all__ = ["CASES", "Case", "as_text", "differences", "files", "first", "of", "rounded"]

EDGE = 1e-5  # of the image's edge: what landmarks may differ by from one machine to another
WRITTEN = 0.0101  # pixels: one in the second decimal
LEVELS = 1.01  # of a picture's colours, one
PERCENT = 0.02  # of what is measured
SHIPPED = {
    "faces-10": "material/faces",
    "faces-30": "material/faces",
    "lips-8": "material/mouths",
    "shoes-8": "material/faces",
    "digits-7": "material/grey",
}
TWO, ONE, UPRIGHT, WIDE, SMALL = (
    f"material/photos/{name}.png" for name in ("two", "one", "upright", "wide", "small")
)
PHOTOS = (TWO, ONE, UPRIGHT, WIDE, SMALL)
SCENE = "material/scene.mkv"
FINISHED, FOLLOWED, GENERATOR = "runs/finished", "runs/followed", "runs/generator"


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    make: Callable[[Path], Any]  # given a folder to write into
    tolerance: float


CASES: list[Case] = []


def case(file: str, name: str, tolerance: float = 0.0) -> Callable[[Callable[[Path], Any]], None]:
    return lambda make: CASES.append(Case(file, name, make, tolerance))


def files() -> list[str]:
    return list(dict.fromkeys(one.file for one in CASES))


def of(file: str) -> list[Case]:
    return [one for one in CASES if one.file == file]


def images(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.png")))


def whole(files: Sequence[str]) -> list[Placement]:
    """All of each image as the box to look at."""
    return [Placement(0, 0, *pixels(file).shape[1::-1]) for file in files]


def pixels(file: str) -> NDArray[np.uint8]:
    """As it is stored: (H, W) or (H, W, 3)."""
    stored = cv2.imread(file, cv2.IMREAD_UNCHANGED)
    return stored if stored.ndim == 2 else np.ascontiguousarray(stored[:, :, ::-1])


def found(landmarks: Any, edge: float = 1.0) -> dict[str, Any]:
    """Points in edges of the image, and confidence, which is a sum of many more numbers."""
    return {
        "points": (np.asarray(landmarks.points) / edge).tolist(),
        "confidence": np.asarray(landmarks.confidence).round(4).tolist(),
    }


def longer(file: str) -> int:
    return max(pixels(file).shape[:2])


def place(box: Any) -> list[float]:
    return [box.x, box.y, box.width, box.height]


# The name


@case("name", "package and command")
def _(folder: Path) -> Any:
    return {
        "package": names.PACKAGE,
        "version": run("--version"),
        "verbs": re.findall(r"^  (\w+)  ", run(), re.MULTILINE),
        "usage": run().splitlines()[:3],
        "public": sorted(names.package.__all__),
    }


# Options


VERBS = [
    words
    for verb in names.VERBS
    for words in {
        "data": (("data", "list"), ("data", "inspect")),
        "generate": (("generate", "train"), ("generate", "sample"), ("generate", "evaluate")),
    }.get(verb, ((verb,),))
]
for verb in VERBS:
    case("options", " ".join(verb))(lambda folder, verb=verb: options(*verb))


# Presets


@case("presets", "of models")
def _(folder: Path) -> Any:
    families = [
        f"{family}-{k}" for family in ("compact", "hour", "detail", "tiny") for k in (7, 12, 13, 24, 25)
    ]
    return {name: dataclasses.asdict(names.preset(name)) for name in (*names.PAPER_PRESETS, *families)}


@case("presets", "of generators")
def _(folder: Path) -> Any:
    return {name: dataclasses.asdict(config) for name, config in names.GENERATOR_PRESETS.items()}


# Landmarks on prepared squares: exactly as large as the model's


def shipped(model: str, squares: str) -> None:
    @case("landmarks", f"Predictor, {model}", EDGE)
    def _(folder: Path) -> Any:
        predictor = Predictor.load(model)
        size = pixels(images(squares)[0]).shape[0]
        return {
            "digest": predictor.digest,
            "names": list(predictor.names),
            "found": [
                found(one, size) for one in predictor.detect_many(images(squares), whole(images(squares)))
            ],
        }

    @case("landmarks", f"Predictor, {model}, another number of views", EDGE)
    def _(folder: Path) -> Any:
        if model == "digits-7":  # it does not know its mean shape
            return [found(Predictor.load(model, 1).detect(file), 28) for file in images(squares)[:2]]
        several = Predictor.load(model, 4).detect_many(images(squares)[:3], whole(images(squares)[:3]))
        return [found(one, 64) for one in several]

    @case("landmarks", f"command line, {model}", WRITTEN)
    def _(folder: Path) -> Any:
        run("detect", model, squares, "--whole", "--out", folder)
        return table(folder / "landmarks.csv")

    @case("landmarks", f"Editor, {model}", EDGE)
    def _(folder: Path) -> Any:
        editor = Editor.load(model)
        size = pixels(images(squares)[0]).shape[0]
        codes = [editor.encode(file, Placement(0, 0, size, size)) for file in images(squares)[:3]]
        decoded = editor.decode_many(codes)
        told = [
            np.asarray(code.descriptors).round(3).tolist() for code in codes if code.descriptors is not None
        ]
        return {
            "landmarks": [code.landmarks.tolist() for code in codes],
            "descriptors": [[round(float(np.mean(one)), 3)] for one in told],
            "found again": editor.redetect(decoded).round(3).tolist(),
        }


for model, squares in SHIPPED.items():
    if model != "faces-30":
        shipped(model, squares)


@case("landmarks", "Predictor, files and arrays and boxes", EDGE)
def _(folder: Path) -> Any:
    predictor = Predictor.load(FINISHED)
    file = "material/squares/03.png"
    return {
        "array": found(predictor.detect(pixels(file)), 32),
        "grey": found(predictor.detect(cv2.cvtColor(pixels(file), cv2.COLOR_RGB2GRAY)), 32),
        "box": found(predictor.detect("material/faces/0.png", Placement(16, 8, 32, 32)), 64),
        "mirrored": found(predictor.detect(file, Placement(0, 0, 32, 32, mirrored=True)), 32),
        "all": [found(one, 32) for one in predictor.detect_all(file)],
        "a batch and one": [found(one, 32) for one in predictor.detect_many(images("material/squares"))][23],
    }


# Landmarks on photos


@case("photos", "command line, faces", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", "faces-10", *PHOTOS[:4], "--out", folder)
    return table(folder / "landmarks.csv")


@case("photos", "command line, whole", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", "faces-10", *PHOTOS, "--whole", "--looks", "3", "--out", folder)
    return table(folder / "landmarks.csv")


@case("photos", "command line, box", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", "faces-10", TWO, ONE, "--box", "10,20,120,100", "--out", folder)
    return table(folder / "landmarks.csv")


@case("photos", "Predictor", EDGE)
def _(folder: Path) -> Any:
    faces, shoes = Predictor.load("faces-10"), Predictor.load("shoes-8")
    return {
        "whole": [found(one, longer(file)) for file in PHOTOS for one in [shoes.detect(file)]],
        "faces": [[found(one, longer(file)) for one in faces.detect_all(file)] for file in PHOTOS],
        "places": [
            [box and place(box) for box in faces.subjects(np.atleast_3d(pixels(file)))] for file in PHOTOS
        ],
        "one is whole": found(faces.detect(ONE), longer(ONE)),
    }


@case("photos", "Editor", EDGE)
def _(folder: Path) -> Any:
    codes = [Editor.load("faces-10").encode(file) for file in (ONE, UPRIGHT, WIDE, SMALL)]
    codes += [Editor.load("shoes-8").encode(TWO)]
    return [
        {"place": [round(part, 3) for part in place(code.place)], "points": code.landmarks.tolist()}
        for code in codes
    ]


# Which face: of several the leftmost


@case("face", "Editor", EDGE)
def _(folder: Path) -> Any:
    code = Editor.load("faces-10").encode(TWO)
    return {"place": [round(part, 3) for part in place(code.place)], "points": code.landmarks.tolist()}


@case("face", "edit", LEVELS)
def _(folder: Path) -> Any:
    run("edit", "faces-10", TWO, "--move", "3:0.05,0", "--as", "warped", "--out", folder / "out.png")
    run("morph", "faces-10", ONE, TWO, "--out", folder / "strip.png")
    return [small(folder / "out.png"), small(folder / "strip.png")]


@case("face", "studio", 2 * EDGE)
def _(folder: Path) -> Any:
    with Studio("faces-10", TWO) as studio:
        image = studio.json("/api/model")["images"][0]
    return {"box": np.round(image["box"], 2).tolist(), "landmarks": image["landmarks"]}


# How often faces-30 looks, and by which net


@case("views", "Predictor", EDGE)
def _(folder: Path) -> Any:
    predictor = Predictor.load("faces-30")
    return {
        "squares": [found(one, 64) for one in predictor.detect_many(images("material/faces"))],
        "faces": [[found(one, longer(file)) for one in predictor.detect_all(file)] for file in (TWO, ONE)],
    }


@case("views", "command line", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", "faces-30", ONE, "--out", folder)
    run("detect", "faces-30", "material/faces", "--whole", "--out", folder / "whole")
    return [table(folder / "landmarks.csv"), table(folder / "whole" / "landmarks.csv")]


@case("views", "Editor", EDGE)
def _(folder: Path) -> Any:
    editor = Editor.load("faces-30")
    codes = [editor.encode(ONE), editor.encode("material/faces/0.png", Placement(0, 0, 64, 64))]
    return {
        "landmarks": [code.landmarks.tolist() for code in codes],
        "found again": editor.redetect(editor.decode_many(codes)).round(3).tolist(),
    }


@case("views", "studio", 2 * EDGE)
def _(folder: Path) -> Any:
    with Studio("faces-30", ONE) as studio:
        return studio.json("/api/model")["images"][0]["landmarks"]


@case("views", "evaluate", PERCENT)
def _(folder: Path) -> Any:
    return measured(folder, "faces-30", "--looks", "3", "--no-untrained")


# Boxes of sources, and `--box`: on images the source's wins, on videos the option


@case("box", "images", WRITTEN)
def _(folder: Path) -> Any:
    source = "coco:material/labels.json"
    run("detect", "faces-10", source, "--out", folder / "own")
    run("detect", "faces-10", source, "--box", "10,20,120,100", "--out", folder / "told")
    return {name: table(folder / name / "landmarks.csv") for name in ("own", "told")}


@case("box", "a followed video", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", FOLLOWED, SCENE, "--out", folder / "own")
    run("detect", FOLLOWED, SCENE, "--box", "20,4,56,56", "--out", folder / "told")
    return {name: table(folder / name / "scene.csv")[::4] for name in ("own", "told")}


# Prepared squares: the pixels


@case("squares", "predictor")
def _(folder: Path) -> Any:
    faces, micro = Predictor.load("faces-10"), Predictor.load(FINISHED)
    large = [faces.prepare(file)[0] for file in PHOTOS]
    large += [faces.prepare(file, Placement(-9.5, 12.25, 77, 61, fill=90))[0] for file in (TWO, ONE)]
    little = [micro.prepare(file)[0] for file in (*PHOTOS, *images("material/faces"))]
    return np.concatenate((np.concatenate(large, 1), padded(np.concatenate(little, 1), 64 * len(large))))


@case("squares", "training")
def _(folder: Path) -> Any:
    few = ["--config", "material/micro.json", "--steps", "1", "--threads", "1"]
    run("train", "material/photos", *few, "--out", folder / "photos")
    run("train", SCENE, *few, "--follow", "--background", "grey", "--every", "4", "--out", folder / "scene")
    run("train", SCENE, *few, "--crop", "20,4,56,56", "--frames", "8", "--out", folder / "crop")
    rows = [
        np.concatenate(list(np.load(folder / name / "samples.npz")["pixels"]), 1)
        for name in ("photos", "scene", "crop")
    ]
    return np.concatenate([padded(row, 256) for row in rows])


def padded(picture: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    return np.pad(picture, ((0, 0), (0, width - picture.shape[1]), (0, 0)))


# Videos


def video(name: str, *words: object, every: int = 5) -> None:
    @case("video", name, WRITTEN)
    def _(folder: Path) -> Any:
        run("detect", *words, "--out", folder)
        rows = table(folder / "scene.csv")
        landmarks = len({row[3] for row in rows[1:]})
        return rows[:1] + [row for row in rows[1:] if row[1] % every == 0][: 10 * landmarks]


video("whole", "shoes-8", SCENE)
video("faces, whole", "faces-10", SCENE, "--whole")
video("box and smooth", "faces-10", SCENE, "--box", "10,2,60,60", "--smooth")
video("follow", FOLLOWED, SCENE)
video("crop of another size", "lips-8", SCENE)


@case("video", "overlay", LEVELS)
def _(folder: Path) -> Any:
    run("detect", FINISHED, SCENE, "--overlay", "--trails", "5", "--out", folder)
    drawn = cv2.VideoCapture(str(folder / "scene.overlay.mp4"))
    shape = [drawn.get(what) for what in (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FPS)]
    return [*shape, sorted(file.name for file in folder.iterdir())]


# Files


def read_all(folder: Path, stem: str) -> dict[str, Any]:
    return {
        "files": sorted(file.name for file in folder.iterdir()),
        "csv": table(folder / f"{stem}.csv"),
        "dlc": table(folder / f"{stem}.dlc.csv"),
        "h5": deeplabcut(next(folder.glob("*.h5"))),
        "coco": coco(folder / f"{stem}.coco.json"),
        "slp": sleap(folder / f"{stem}.slp"),
    }


@case("files", "of images", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", FINISHED, *PHOTOS[:3], "--format", "csv,dlc,coco,slp", "--out", folder)
    return read_all(folder, "landmarks")


@case("files", "of faces", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", "faces-10", TWO, ONE, "--format", "coco", "--out", folder)
    return {"csv": table(folder / "landmarks.csv"), "coco": coco(folder / "landmarks.coco.json")}


@case("files", "of a video", WRITTEN)
def _(folder: Path) -> Any:
    run("detect", FINISHED, "material/square.mkv", "--format", "csv,dlc,coco,slp", "--out", folder)
    return read_all(folder, "square")


@case("files", "of keypoints", WRITTEN)
def _(folder: Path) -> Any:
    run("fit", FINISHED, "csv:material/labels.csv", "--out", folder / "keypoints.json")
    told = ["--keypoints", folder / "keypoints.json", "--format", "csv,dlc,coco,slp", "--out", folder / "out"]
    run("detect", FINISHED, ONE, WIDE, *told)
    return read_all(folder / "out", "landmarks")


@case("files", "overlays", LEVELS)
def _(folder: Path) -> Any:
    run("detect", "faces-10", TWO, ONE, "--overlay", "--out", folder)
    return {file.name: small(file) for file in sorted((folder / "overlays").iterdir())}


def told_of(record: Path) -> dict[str, Any]:
    """Without times, sizes of files with compressed or rounded contents, and versions."""
    kept = json.loads(record.read_text())
    kept["inputs"] = {name: sorted(entry) for name, entry in kept["inputs"].items()}
    kept["results"] = {name: sorted(entry) for name, entry in kept["results"].items()}
    kept["noted"] = sorted(kept["noted"])
    return kept


@case("record", "of images", EDGE)
def _(folder: Path) -> Any:
    run("detect", "faces-10", TWO, ONE, "--overlay", "--out", folder)
    run("detect", "faces-10", TWO, ONE, WIDE, "--overlay", "--out", folder)
    return told_of(folder / "landmarks.record.json")


@case("record", "of a video", EDGE)
def _(folder: Path) -> Any:
    run("detect", FOLLOWED, SCENE, "--smooth", "--format", "dlc", "--out", folder)
    return told_of(folder / "scene.record.json")


# Run folders of the recorded form


def runs(folder: str) -> None:
    @case("runs", folder, EDGE)
    def _(scratch: Path) -> Any:
        predictor = Predictor.load(folder)
        files = images("material/squares")[:6]
        squares = [pixels(file) for file in files]
        decoded = Editor.load(folder).decode_many([Editor.load(folder).encode(one) for one in squares])
        return {
            "digest": predictor.digest,
            "landmarks": predictor.landmarks,
            "names": list(predictor.names),
            "found": [found(one, 32) for one in predictor.detect_many(squares, whole(files))],
            "decoded": decoded.mean((1, 2, 3)).round(1).tolist(),
        }


for folder in (FINISHED, FOLLOWED, GENERATOR):
    runs(folder)


@case("runs", "samples of a generator", LEVELS)
def _(folder: Path) -> Any:
    like = ["--like", "material/squares/00.png", "material/squares/05.png"]
    run("generate", "sample", GENERATOR, *like, "--count", "3", "--seed", "5", "--out", folder)
    return {file.name: small(file) for file in sorted(folder.iterdir())}


@case("runs", "report")
def _(folder: Path) -> Any:
    for kind in (FINISHED, FOLLOWED):
        shutil.copytree(kind, folder / Path(kind).name)
        run("report", folder / Path(kind).name)
    return {one.name: sorted(file.name for file in one.iterdir()) for one in sorted(folder.iterdir())}


@case("runs", "unfinished")
def _(folder: Path) -> Any:
    """Refused by one sentence of bad input."""
    with contextlib.suppress(Exception):
        Predictor.load("runs/halfway")
        return "loaded"
    return "refused"


# Other verbs


def measured(folder: Path, model: str, *words: str) -> dict[str, Any]:
    """What `evaluate` writes, without its sentences."""
    run("evaluate", model, "csv:material/labels.csv", *words, "--json", folder / "out.json")
    return numbers(json.loads((folder / "out.json").read_text()))


def numbers(tree: Any) -> Any:
    """The numbers of a tree."""
    if isinstance(tree, dict):
        return {
            key: numbers(part) for key, part in tree.items() if key != "seconds" and not isinstance(part, str)
        }
    return [numbers(part) for part in tree] if isinstance(tree, list) else tree


for protocol in ("lmdis", "autolink", "imm", "imm-bias", "bkind", "saic"):
    case("verbs", f"evaluate, {protocol}", PERCENT)(
        lambda folder, protocol=protocol: measured(
            folder, "shoes-8", "--protocol", protocol, "--labels", "3,all", "--draws", "2", "--no-untrained"
        )
    )


@case("verbs", "evaluate, untrained and validation", PERCENT)
def _(folder: Path) -> Any:
    return measured(folder, FINISHED, "--validation")


@case("verbs", "fit", WRITTEN)
def _(folder: Path) -> Any:
    run("fit", "shoes-8", "csv:material/labels.csv", "--out", folder / "a.json", "--json", folder / "b.json")
    kept = json.loads((folder / "a.json").read_text())
    return {
        "file": sorted(kept),
        "names": kept.get("names"),
        "measured": json.loads((folder / "b.json").read_text()),
    }


@case("verbs", "name")
def _(folder: Path) -> Any:
    shutil.copytree(FINISHED, folder / "run")
    said = run("name", folder / "run", "1=nose", "3=chin")
    run("detect", folder / "run", ONE, "--out", folder / "out")
    called = [row[3] for row in table(folder / "out" / "landmarks.csv")]
    return {"said": said, "landmarks": called, "names": list(Predictor.load(folder / "run").names)}


@case("verbs", "attributes", 8.0)  # percent: of six test images one is 17
def _(folder: Path) -> Any:
    words = ["--features", "landmarks", "--json", folder / "out.json"]
    run("attributes", "faces-10", "mtfl:material/mtfl", *words)
    result = json.loads((folder / "out.json").read_text())
    del result["seconds"]
    return result


@case("verbs", "data")
def _(folder: Path) -> Any:
    sources = (
        "material/photos",
        SCENE,
        "csv:material/labels.csv",
        "coco:material/labels.json",
        "mtfl:material/mtfl",
    )
    listed = {}
    for number, source in enumerate(sources):
        sheet = folder / f"{number}.png"
        run("data", "inspect", source, "--json", folder / "out.json", "--sheet", sheet)
        listed[source] = json.loads((folder / "out.json").read_text()) | {
            "sheet": cv2.imread(str(sheet)).shape
        }
    return {"list": run("data", "list").splitlines(), "inspect": listed}


@case("verbs", "models")
def _(folder: Path) -> Any:
    return json.loads(run("models", "--json"))


@case("verbs", "edit and morph", LEVELS)
def _(folder: Path) -> Any:
    made = {}
    for kind in ("decoded", "warped", "blended", "figure"):
        out = folder / f"edit-{kind}.png"
        run("edit", "faces-10", ONE, "--move", "3:0.06,0", "7:0,0.05", "--as", kind, "--out", out)
        run(
            "morph",
            "faces-10",
            ONE,
            UPRIGHT,
            "--as",
            kind,
            "--frames",
            "3",
            "--out",
            folder / f"morph-{kind}.png",
        )
    run(
        "edit",
        "shoes-8",
        TWO,
        "--field",
        "twist:0.4",
        "--box",
        "20,10,150,150",
        "--out",
        folder / "field.png",
    )
    run(
        "edit",
        FINISHED,
        "material/squares/00.png",
        "--dress",
        "material/squares/01.png",
        "--out",
        folder / "dress.png",
    )
    for file in sorted(folder.glob("*.png")):
        made[file.name] = small(file)
    return made


@case("verbs", "generate evaluate", PERCENT)
def _(folder: Path) -> Any:
    return numbers(
        json.loads(
            run("generate", "evaluate", GENERATOR, "csv:material/labels.csv", "--references", "4", "--json")
        )
    )


@case("verbs", "reproduce list")
def _(folder: Path) -> Any:
    return run("reproduce", "list").splitlines()


# The studio's routes


def routes(model: str, *opened: str) -> None:
    @case("studio", model, LEVELS)
    def _(folder: Path) -> Any:
        with Studio(model, *opened) as studio:
            sent = studio.json("/api/images", Path(UPRIGHT).read_bytes())
            state = studio.json("/api/model")
            number = state["images"][0]["id"]
            goal = np.add(state["images"][0]["landmarks"], (0.03, -0.02)).tolist()
            seen = {
                kind: small(studio.ask("/api/render", {"id": number, "kind": kind, "landmarks": goal}))
                for kind in ("decoded", "warped", "blended", "maps")
            }
            if state["generator"]:
                seen["generated"] = small(studio.ask("/api/render", {"id": number, "seed": 3}))
            if state["descriptors"]:
                other = {"id": number, "appearance": sent["id"], "share": 0.5}
                seen["dressed"] = small(studio.ask("/api/render", other))
            for kind in ("square", "photo"):
                seen[kind] = small(studio.ask(f"/api/images/{number}/{kind}"))
            strip = {"id": number, "landmarks": goal, "format": "png"}
            seen["morph"] = small(studio.ask("/api/morph", strip))
            page = studio.ask("/").decode()
        for image in (*state["images"], sent):
            image.pop("id")
            image["landmarks"] = exact(image["landmarks"])
        return {"state": state, "sent": sent, "seen": seen, "page": "<html" in page}


def exact(points: Sequence[Sequence[float]]) -> list[int]:
    """Hundred-thousandths of an edge as whole numbers, which may differ by one as well."""
    return (np.round(points, 5) * 1e5).round().ravel().tolist()


routes("faces-10", ONE)
routes("shoes-8", "material/faces/0.png")
routes("digits-7", "material/grey/03.png")
routes(GENERATOR, "material/squares/00.png")
