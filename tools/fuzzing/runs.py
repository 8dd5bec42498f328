"""What is in the folder of a run, and what else a model reads: configs, weights, keypoints, words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.made import made, model, photo, write_photos
from fuzzing.mutate import (
    CELLS,
    Mutation,
    after,
    bent_json,
    bent_lines,
    bent_npy,
    bent_npz,
    bent_png,
    bent_safetensors,
    cells,
    one_of,
    scrambled,
)
from fuzzing.target import Target, cli, files, some

JSON: Mutation = one_of(*[bent_json] * 5, scrambled)


def a_copy(name: str, *without: str) -> Any:
    def seed(folder: Path) -> None:
        shutil.copytree(made(name), folder, dirs_exist_ok=True)
        for pattern in without:
            for path in folder.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return seed


FINISHED = a_copy("run", "cache", "checkpoint", "report.html", "README.md", "overview.png")


def a_photo(out: Path) -> Path:
    from PIL import Image

    path = out / "photo.png"
    Image.fromarray(photo(3)).save(path)
    return path


def detected(folder: Path, out: Path) -> int:
    return cli("detect", folder, a_photo(out), "--out", out / "found")


def reported(folder: Path, out: Path) -> int:
    return cli("report", folder)


def resumed(folder: Path, out: Path) -> int:
    return cli("train", "--out", folder, "--resume", "--threads", 1)


def with_config(folder: Path, out: Path) -> None:
    """Read and checked, and the model of it made where it is a small one."""
    from trigpoint.api import choose, named_config
    from trigpoint.core.sources import open_source

    choose(open_source(made("photos")), None, named_config(folder / "config.json"))


def write_words(folder: Path) -> None:
    (folder / "words.json").write_text(
        json.dumps(
            [
                "losses.sep=0",
                "train.seed=3",
                "model.detector=D8 | 8/8 S1 P 16 | out1",
                "video.crop=[1,2,30,30]",
                "train.lr_decay_at=[1,2]",
                "model.pooling=map",
                "fit=crop",
                "train.mirror=true",
            ]
        )
    )


def bent_words(random: Random, data: bytes) -> bytes:
    words = json.loads(data)
    for _ in range(random.choice((1, 2))):
        at = random.randrange(len(words))
        name, _, value = words[at].partition("=")
        from fuzzing.mutate import VALUES

        value = random.choice(
            (*VALUES, *CELLS, "P" * 2000, "| |", "out1", "D8 | 99999999 P | out1", value[: len(value) // 2])
        )
        name = random.choice(
            (name, name, name, name + "x", name.partition(".")[0], "", "a.b.c", "model", name.upper())
        )
        words[at] = random.choice((f"{name}={value}", name, f"={value}"))
    return json.dumps(words).encode()


def set_words(folder: Path, out: Path) -> None:
    from trigpoint.core.config.generator import COMPACT
    from trigpoint.core.config.generator import with_values as of_generator
    from trigpoint.core.config.tree import Config, with_values

    words = json.loads((folder / "words.json").read_text())
    with_values(Config(), words)
    of_generator(COMPACT, [word.partition(".")[2] for word in words])


def write_names(folder: Path) -> None:
    FINISHED(folder / "run")
    (folder / "words.json").write_text(json.dumps(["0=snout", "1=tail", "3=left ear", "2="]))


def named(folder: Path, out: Path) -> int:
    return cli(
        "name", folder / "run", *[word for word in json.loads((folder / "words.json").read_text()) if word]
    )


def bent_names(random: Random, data: bytes) -> bytes:
    words = json.loads(data)
    for _ in range(random.choice((1, 2))):
        number = random.choice(("0", "1", "99", "9" * 5000, "\u0661", "\u00b2", "+1", "", "x", "01"))
        words[random.randrange(len(words))] = f"{number}={random.choice((*CELLS, 'snout'))}".replace("\0", "")
    return json.dumps(words).encode()


def write_options(folder: Path) -> None:
    write_photos(folder / "photos", 1)
    (folder / "words.json").write_text(json.dumps(["detect", "--box=4,4,30,30"]))


def bent_options(random: Random, data: bytes) -> bytes:
    numbers = [
        random.choice((*CELLS[:18], "4", "30", "-30", "100000", "1e5", "1e-9", "1e15")) for _ in range(4)
    ]
    numbers = [word.replace("\0", "") for word in numbers]
    box = "--box=" + ",".join(numbers[: random.choice((4, 4, 4, 4, 3))])
    move = f"{random.choice(('0', '3', '4', '-1', '99999', '9' * 5000))}:{numbers[0]},{numbers[1]}"
    field = f"{random.choice(('twist', 'swell', 'lean', 'x'))}:{numbers[0]}"
    ways = (
        ["detect", box],
        ["detect", box, "--overlay"],
        ["edit", "--move", move, "--as", "blended"],
        ["edit", "--move=0:0.1,0", box],
        ["edit", "--field", field, "--as", "warped"],
    )
    return json.dumps(random.choice(ways)).encode()


def with_options(folder: Path, out: Path) -> int:
    verb, *options = json.loads((folder / "words.json").read_text())
    path = folder / "photos" / "0.png"
    return cli(verb, model(), path, *options, "--out", out / ("found" if verb == "detect" else "edited.png"))


# ---- results of a detection that a further call adds to


def write_found(folder: Path) -> None:
    import contextlib
    import os

    write_photos(folder / "photos", 3)
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        # The names of a Folder do not say where it lies, so that the copies of it are the same inputs.
        code = cli("detect", model(), folder / "photos", "--out", folder / "found", "--format", "csv,coco")
    assert code == 0
    write_photos(folder / "more", 1)
    (folder / "more" / "0.png").rename(folder / "photos" / "new.png")
    (folder / "more").rmdir()


def found_more(folder: Path, out: Path) -> int:
    words = ("detect", model(), folder / "photos", "--out", folder / "found", "--format", "csv,coco,dlc,slp")
    return cli(*words, "--overlay")


def write_keypoints(folder: Path) -> None:
    weights = np.random.default_rng(0).normal(0, 0.3, (3, 2, 9)).round(3).tolist()
    content = {
        "names": ["snout", "left ear", "tail"],
        "weights": weights,
        "measured": {"images": 3, "folds": 1},
    }
    (folder / "keypoints.json").write_text(json.dumps(content))


def with_keypoints(folder: Path, out: Path) -> int:
    words = ("detect", model(), a_photo(out), "--out", out / "found", "--format", "csv,dlc,coco", "--overlay")
    return cli(*words, "--keypoints", folder / "keypoints.json")


# ---- caches


def write_prepared(folder: Path) -> None:
    from trigpoint.core.runs import Run
    from trigpoint.core.sources import open_source
    from trigpoint.learning.data.prepared import prepare

    prepare(open_source(made("photos")), Run(model()).config(), folder)


def prepared(folder: Path, out: Path) -> None:
    from trigpoint.core.runs import Run
    from trigpoint.core.sources import open_source
    from trigpoint.learning.data.prepared import prepare

    found = prepare(open_source(made("photos")), Run(model()).config(), folder)
    found.batch(np.arange(len(found)))
    if len(found.indices) != len(found) or not all(0 <= index < 8 for index in found.indices.tolist()):
        raise AssertionError(f"{len(found)} images by the indices {found.indices}")


def write_notes(folder: Path) -> None:
    np.save(folder / "landmarks.npy", np.full((8, 4, 2), 0.5, np.float32))
    np.save(folder / "features.npy", np.ones((8, 5), np.float32))


def with_notes(folder: Path, out: Path) -> None:
    """The landmarks that a generator's training keeps, and features that a user brings."""
    from trigpoint.core.runs import Run
    from trigpoint.learning.backends.pytorch import load
    from trigpoint.learning.data.prepared import Prepared
    from trigpoint.learning.evaluation.embedding import brought
    from trigpoint.learning.generation.train import references

    images = Prepared(np.zeros((8, 32, 32, 3), np.uint8), np.arange(8), {})
    found = references(load(Run(model())).model, images, folder / "landmarks.npy")
    if found.shape != (8, 4, 2):
        raise AssertionError(f"landmarks of shape {found.shape}")
    brought(folder / "features.npy", 8)


# ---- generators


def sampled(folder: Path, out: Path) -> int:
    return cli("generate", "sample", folder, "--like", a_photo(out), "--out", out / "made", "--count", 2)


def generator_reported(folder: Path, out: Path) -> int:
    return cli("generate", "train", "--out", folder, "--resume", "--threads", 1)


WEIGHTS = r"header|no safetensors file"
NO_JSON = r"(Expecting|Extra|Unterminated|Invalid \\|Invalid control|codec can)"
OWN = ("report.html", "README.md", "overview.png")
TARGETS = {
    "weights": Target(FINISHED, files({"model.safetensors": bent_safetensors}), detected, WEIGHTS, 8),
    "run-config": Target(FINISHED, files({"config.json": JSON}), detected, NO_JSON, 8),
    "config": Target(FINISHED, files({"config.json": JSON}), with_config, NO_JSON, 5),
    "words": Target(write_words, files({"words.json": bent_words}), set_words, r"takes name=value", 5),
    "names": Target(
        write_names, files({"words.json": bent_names}), named, r"Give NUMBER=NAME", 3, ("run/config.json",)
    ),
    "options": Target(
        write_options, files({"words.json": bent_options}), with_options, r"takes LEFT|takes LANDMARK", 4
    ),
    "report": Target(
        FINISHED,
        files(
            {
                "log.jsonl": bent_lines,
                "summary.json": JSON,
                "samples.npz": bent_npz,
                "evolution/*-0000002.npz": bent_npz,
                "config.json": JSON,
            }
        ),
        reported,
        NO_JSON,
        6,
        OWN,
    ),
    "resume": Target(
        a_copy("unfinished"),
        some(
            *[files({"checkpoint/*": bent_safetensors})] * 4,
            files(
                {
                    "log.jsonl": bent_lines,
                    "config.json": JSON,
                    "cache/images.json": JSON,
                    "evolution/*-0000002.npz": bent_npz,
                }
            ),
        ),
        resumed,
        f"{WEIGHTS}|{NO_JSON}",
        4,
        ("*",),
    ),
    "keypoints": Target(
        write_keypoints,
        files({"*.json": JSON}),
        with_keypoints,
        r"keypoints file of `trigpoint fit` \((Expecting|Extra|Unterm|Invalid|'utf)",
        6,
    ),
    "record": Target(
        write_found,
        files(
            {
                "found/landmarks.record.json": JSON,
                "found/landmarks.csv": one_of(cells(","), scrambled),
                "found/landmarks.coco.json": JSON,
            }
        ),
        found_more,
        r"is damaged \((Expecting|Extra|Unterm|Invalid|'utf)",
        5,
        ("found/*", "found/overlays/*"),
    ),
    "prepared": Target(
        write_prepared, files({"images.json": JSON, "images.bin": scrambled}), prepared, NO_JSON, 4, ("*",)
    ),
    "notes": Target(
        write_notes,
        files({"*.npy": one_of(bent_npy, after(6), scrambled)}),
        with_notes,
        r"magic string",
        3,
        ("landmarks.npy",),
    ),
    "generator": Target(
        a_copy("generator", "cache", "checkpoint", "report.html"),
        files(
            {
                "config.json": JSON,
                "generator.safetensors": bent_safetensors,
                "model/config.json": JSON,
                "model/model.safetensors": bent_safetensors,
            }
        ),
        sampled,
        f"{WEIGHTS}|{NO_JSON}",
        5,
    ),
    "generator-resume": Target(
        a_copy("generator"),
        some(
            files({"checkpoint/*": bent_safetensors}),
            files(
                {
                    "log.jsonl": bent_lines,
                    "summary.json": JSON,
                    "config.json": JSON,
                    "cache/*.npy": bent_npy,
                    "cache/images.json": JSON,
                    "evolution/*.png": bent_png,
                }
            ),
        ),
        generator_reported,
        f"{WEIGHTS}|{NO_JSON}",
        2,
        ("*",),
    ),
}
