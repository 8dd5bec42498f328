"""Trainings of twenty seeded steps as the recorded commit takes them, and the digests of their weights.

    PYTHONPATH=OLD/src OMP_NUM_THREADS=1 python recorded.py OUT.json      from this folder

is run with the package of the commit that `commit` names, once on each machine. The words below are that
commit's: they stay as they are. What the words are today is in `trainings.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

Main = Callable[[Sequence[str]], int]
SQUARES = ("train", "material/squares", "--config", "material/micro.json", "--steps", "20", "--seed", "7")
FURTHER = ("train", "material/squares", "--from", "runs/finished", "--steps", "20", "--seed", "7")
GREY = ("train", "material/grey", "--preset", "tiny-4", "--steps", "20", "--seed", "7", "--set")
FACES = ("train", "material/faces", "--steps", "20", "--seed", "7")
MOVING = ("train", "material/square.mkv", "--config", "material/micro.json", "--steps", "20", "--seed", "7")
SMALL = ("train.batch_size=2", "train.recalibration_images=4")
GENERATE = (
    *("generate", "train", "runs/finished", "material/squares", "--steps", "20", "--seed", "7", "--set"),
    *("latent=8", "width=8", "decoder=| 8/8 S1 P 8 | U 8 out", "critic_width=4", "critic_hidden=8"),
    *("batch_size=4", "learning_rate=2e-3", "ema=0.9", "recalibration_images=16"),
)
CASES: dict[str, tuple[str, ...]] = {
    "discover": SQUARES,
    "discover-mirror": (*SQUARES, "--set", "train.mirror=true"),
    "discover-looks": (*SQUARES, "--set", "looks=3", "train.ema=0.9"),
    "discover-every-light": (
        *(*SQUARES, "--set", "train.gamma=0.4", "train.shade=0.4", "train.blur=1", "train.tint=0.5"),
        *("losses.ssim=10", "losses.eqv_linear=0.03", "losses.recon=0.003", "train.weight_decay=0.05"),
    ),
    "discover-release-form": (
        *(*SQUARES, "--set", "model.pooling=map", "model.conv_bias=true", "model.colour_margin=0.1"),
        *("losses.concentration=printed", "train.optimiser=adam", "train.schedule=steps"),
        *("train.lr_decay_at=[8,14]", "train.recon_raise_at=[5]", "train.landmark_points_at=[2,9]"),
        *("train.relight=false", "warp.landmark_share=0.5"),
    ),
    "discover-grey": (*GREY, "train.batch_size=8", "train.recalibration_images=16"),
    "discover-compact": (*FACES, "--preset", "compact-5", "--set", *SMALL),
    "discover-detail": (*FACES, "--preset", "detail-5", "--set", *SMALL),
    "discover-frames": MOVING,
    "discover-flow": (*MOVING, "--flow"),
    "discover-flow-printed": (*MOVING, "--flow", "--set", "losses.flow_prefer_form=printed"),
    "discover-further": FURTHER,
    "distill": (*FURTHER, "--self-taught"),
    "distill-fewer": (*FURTHER, "--self-taught", "--landmarks", "2"),
    "distill-mirror": (*FURTHER, "--self-taught", "--set", "train.mirror=true", "looks=3"),
    "draw": (*FURTHER, "--drawing"),
    "edit": (*FURTHER, "--for-edits"),
    "generate": GENERATE,
    "generate-plain": (*GENERATE, "apart=0"),
    "resume": ("train", "--resume"),
    "resume-generate": ("generate", "train", "--resume"),
}
BEGUN = {"resume": "runs/halfway", "resume-generate": "runs/halfway-generator"}  # what is gone on with


def digest(file: Path, start: str = "") -> str:
    """The SHA-256 of the tensors whose names begin so: of names, kinds, shapes and values."""
    found = hashlib.sha256()
    for name, array in sorted(load_file(file).items()):
        if name.startswith(start):
            found.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
            found.update(array.tobytes())
    return found.hexdigest()


def weights_of(run: Path) -> dict[str, Any]:
    """What is compared of a finished run: the model, what its last step left, the mean shape."""
    model = run / ("generator.safetensors" if (run / "model").is_dir() else "model.safetensors")
    checkpoint = run / "checkpoint" / "state.safetensors"
    return {
        "model": digest(model),
        "last step": digest(checkpoint, "model/"),
        "shape": json.loads((run / "config.json").read_text()).get("shape"),
    }


def train(main: Main, name: str, words: Sequence[str]) -> dict[str, Any]:
    """Take one training by the command line, in a folder of its own that goes."""
    with tempfile.TemporaryDirectory() as scratch:
        out, told = Path(scratch) / "run", io.StringIO()
        if name in BEGUN:
            shutil.copytree(BEGUN[name], out)
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = main([*words, "--out", str(out), "--threads", "1"])
        if code:
            raise RuntimeError(f"{name} ended with {code}: {told.getvalue()}")
        return weights_of(out)


def train_all(main: Main, cases: Mapping[str, Sequence[str]], out: Path) -> None:
    out.write_text(json.dumps({name: train(main, name, words) for name, words in cases.items()}))


if __name__ == "__main__":
    from cairns.cli import main as old

    train_all(old, CASES, Path(sys.argv[1]))
