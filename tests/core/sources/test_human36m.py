"""The Human3.6M source, on a small dataset written in its true formats: mp4, CDF and MAT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import cdflib
import h5py
import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.sources import ACTIONS, open_source
from trigpoint.core.sources.human36m import JOINTS, SWAPS, Human36M, boxes, open_masks
from trigpoint.core.sources.video import Video

SIZE = 64


def level(frame: int) -> int:
    """Each frame is a flat grey of its own."""
    return 20 + 3 * frame


def write_video(path: Path, images: Sequence[NDArray[np.uint8]]) -> None:
    """H.264 with a key frame every 12 and frames that refer to later ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=50, options={"bf": "2", "crf": "1"})
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        stream.codec_context.gop_size = 12
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def flat(value: int) -> NDArray[np.uint8]:
    return np.full((SIZE, SIZE, 3), value, np.uint8)


def standing(x: float = 32, foot: float = 60, height: float = 40) -> NDArray[np.float64]:
    """A body that stands straight and faces the camera: 32 joints."""
    shares = {
        "pelvis": (0, 0.55), "hip": (0.08, 0.55), "knee": (0.08, 0.28), "ankle": (0.08, 0),
        "toe base": (0.08, -0.02), "toe end": (0.08, -0.02), "spine": (0, 0.55), "back": (0, 0.69),
        "neck": (0, 0.85), "head": (0, 0.93), "head top": (0, 1), "collar": (0, 0.85),
        "shoulder": (0.1, 0.85), "elbow": (0.12, 0.68),
    }  # fmt: skip
    points = []
    for name in JOINTS:
        side, _, joint = name.partition(" ") if name.startswith(("left", "right")) else ("", "", name)
        across, up = shares.get(joint, (0.13, 0.52))  # wrists and hands
        points.append((x + {"left": 1, "right": -1, "": 0}[side] * across * height, foot - up * height))
    return np.array(points)


def write_poses(path: Path, poses: NDArray[np.float64]) -> None:
    """(frames, 32, 2) as its owners do: one record (frames, 64) of the variable Pose."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = poses.reshape(1, len(poses), -1).astype(np.float32)
    writer = cdflib.cdfwrite.CDF(path, delete=True)
    spec = {"Variable": "Pose", "Data_Type": writer.CDF_FLOAT, "Num_Elements": 1, "Rec_Vary": True}
    writer.write_var({**spec, "Dim_Sizes": list(values.shape[1:])}, var_data=values)
    writer.close()


def write_masks(path: Path, masks: Sequence[NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = np.empty((len(masks), 1), object)
    for row, mask in enumerate(masks):
        cells[row, 0] = mask
    scipy.io.savemat(path, {"Masks": cells}, do_compression=True)


def write_sequence(folder: Path, subject: str, name: str, frames: int) -> None:
    """Frames of grey `level(frame)`, of which the masks keep the left half."""
    write_video(folder / subject / "Videos" / f"{name}.mp4", [flat(level(frame)) for frame in range(frames)])
    poses = np.stack([standing(x=20 + frame) for frame in range(frames)])
    write_poses(folder / subject / "MyPoseFeatures" / "D2_Positions" / f"{name}.cdf", poses)
    left = np.zeros((SIZE, SIZE), bool)
    left[:, : SIZE // 2] = True
    write_masks(folder / subject / "MySegmentsMat" / "ground_truth_bs" / f"{name}.mat", [left] * frames)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "h36m"
    write_sequence(folder, "S1", "Walking 1.54138969", 5)
    write_sequence(folder, "S1", "WalkDog.54138969", 2)
    write_sequence(folder, "S5", "Directions.55011271", 4)
    write_sequence(folder, "S11", "Posing.60457274", 3)
    return folder


def test_splits_are_by_subject_and_only_the_six_actions_count(small: Path) -> None:
    train, test = Human36M(small), Human36M(small, "test")
    assert [train.name(i) for i in (0, 4, 5, 8)] == [
        "S1/Walking 1.54138969/000000",
        "S1/Walking 1.54138969/000004",
        "S5/Directions.55011271/000000",
        "S5/Directions.55011271/000003",
    ]
    assert (len(train), len(test), len(Human36M(small, "labels"))) == (9, 3, 9)
    assert test.name(2) == "S11/Posing.60457274/000002"
    assert train.attributes is not None
    assert train.attributes.names == ("action",)
    assert [ACTIONS[number] for number in train.attributes.values[:, 0]] == ["walking"] * 5 + [
        "directions"
    ] * 4


def test_a_variant_keeps_one_action(small: Path) -> None:
    source = open_source(f"human36m-walking:{small}")
    assert source.words == (f"human36m-walking:{small}",)
    assert len(source) == 5
    with pytest.raises(TrigpointError, match=r"has no video of waiting by S1, S5\."):
        open_source(f"human36m-waiting:{small}")


def test_images_are_the_frames_with_a_grey_background(small: Path) -> None:
    source = Human36M(small)
    for index, frame in ((3, 3), (4, 4), (5, 0), (0, 0), (8, 3)):
        image = source.image(index)
        assert (image.shape, image.dtype) == ((SIZE, SIZE, 3), np.uint8)
        assert (image[:, SIZE // 2 :] == 128).all()
        assert np.abs(image[:, : SIZE // 2].astype(int) - level(frame)).max() <= 1


def test_joints_and_their_counterparts(small: Path) -> None:
    found = Human36M(small).annotations
    assert found is not None
    assert (len(found.names), len(set(found.names))) == (32, 32)
    # The owners' order: right leg, left leg, spine and head, left arm, right arm.
    known = {1: "right hip", 3: "right ankle", 6: "left hip", 8: "left ankle", 13: "neck", 15: "head top"}
    known |= {17: "left shoulder", 19: "left wrist", 25: "right shoulder", 27: "right wrist"}
    assert {number: found.names[number] for number in known} == known
    assert (found.reference, found.unit, found.swaps) == (None, "image edge", SWAPS)
    assert sorted(joint for pair in SWAPS for joint in pair) == [
        number for number, name in enumerate(JOINTS) if "left" in name or "right" in name
    ]
    for left, right in SWAPS:
        assert JOINTS[left].replace("left", "right") == JOINTS[right]
    np.testing.assert_allclose(found.points[6], standing(x=21), atol=1e-5)


def test_the_box_is_square_on_the_pelvis_and_above_the_feet() -> None:
    ((left, top, edge),) = boxes(standing(x=30, foot=70, height=50)[None])
    assert edge == pytest.approx(1.4 * 50)
    assert left + edge / 2 == pytest.approx(30)
    assert top + edge == pytest.approx(71 + 0.05 * edge)  # the toes lie 0.02 heights below the ankle


def test_the_box_keeps_its_size_when_the_body_bends() -> None:
    upright = standing(height=100)
    crouching, bowing = upright.copy(), upright.copy()
    for joint in ("left hip", "right hip", "left knee", "right knee"):
        crouching[JOINTS.index(joint), 1] += 30  # the thighs point at the camera
    trunk = [JOINTS.index(joint) for joint in ("back", "neck", "head", "head top")]
    bowing[trunk, 1] = bowing[0, 1] - (bowing[0, 1] - bowing[trunk, 1]) * 0.4  # so does the trunk
    edges = boxes(np.stack((upright, crouching, bowing)))[:, 2]
    np.testing.assert_allclose(edges, edges[0], rtol=0.02)
    twice = boxes(upright[None] * 2)[0]
    np.testing.assert_allclose(twice, boxes(upright[None])[0] * 2)


def test_the_box_is_filled_with_grey(small: Path) -> None:
    source = Human36M(small)
    box = source.box(2)
    assert box is not None
    assert (box.fill, box.width) == (128, box.height)
    assert box.x + box.width / 2 == pytest.approx(22)


def test_any_frame_in_any_order(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", [flat(level(frame)) for frame in range(60)])
    video = Video(tmp_path / "a.mp4")
    order = np.random.default_rng(0).permutation(60)[:12].tolist()
    for frame in [*range(16), 59, 0, 0, 58, *order]:
        shown = video.read(frame, "rgb24").astype(int)
        assert np.abs(shown - level(frame)).max() <= 1, frame
    assert video.read(7, "gray").shape == (SIZE, SIZE)
    with pytest.raises(UnreadableImage, match=r"a\.mp4 ends after 60 frames"):
        video.read(60, "rgb24")
    assert abs(int(video.read(8, "rgb24")[0, 0, 0]) - level(8)) <= 1  # still usable


def test_more_poses_than_frames_are_unreadable_images(small: Path) -> None:
    path = small / "S11" / "MyPoseFeatures" / "D2_Positions" / "Posing.60457274.cdf"
    write_poses(path, np.stack([standing()] * 5))
    source = Human36M(small, "test")
    assert len(source) == 5
    with pytest.raises(UnreadableImage, match="ends after 3 frames"):
        source.image(4)


def test_masks_may_be_videos(small: Path) -> None:
    folder = small / "S11" / "MySegmentsMat" / "ground_truth_bs"
    (folder / "Posing.60457274.mat").unlink()
    above = flat(0)
    above[: SIZE // 2] = 255
    write_video(folder / "Posing.60457274.mp4", [above] * 3)
    image = Human36M(small, "test").image(1)
    assert (image[SIZE // 2 + 1 :] == 128).all()
    assert np.abs(image[: SIZE // 2 - 1].astype(int) - level(1)).max() <= 1


def test_masks_of_several_planes_and_too_few_of_them(tmp_path: Path) -> None:
    mask = np.zeros((6, 8, 3), np.uint8)
    mask[2:, :, 0] = 255
    write_masks(tmp_path / "a.mat", [mask, mask])
    found = open_masks(tmp_path / "a.mat")
    np.testing.assert_array_equal(found(1), mask[:, :, 0] > 0)
    with pytest.raises(UnreadableImage, match=r"a\.mat ends after 2 masks"):
        found(2)


def test_a_mask_of_another_size_is_an_unreadable_image(small: Path) -> None:
    path = small / "S11" / "MySegmentsMat" / "ground_truth_bs" / "Posing.60457274.mat"
    write_masks(path, [np.ones((10, 12), bool)] * 3)
    with pytest.raises(UnreadableImage, match=r"the mask has \(10, 12\) pixels, the frame \(64, 64\)"):
        Human36M(small, "test").image(0)


HDF5 = b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + b" " * 100


def test_matlab_7_3_needs_h5py(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (small / "S11" / "MySegmentsMat" / "ground_truth_bs" / "Posing.60457274.mat").write_bytes(HDF5)
    with pytest.raises(
        TrigpointError, match=r"Posing\.60457274\.mat is a MATLAB 7\.3 file, .* pip install h5py"
    ):
        Human36M(small, "test")


def write_hdf5(path: Path, masks: Sequence[NDArray[Any]]) -> None:
    """As MATLAB 7.3: `Masks` holds references to arrays with their axes in the opposite order."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for number, mask in enumerate(masks):
            file[f"#refs#/{number}"] = mask.T
        references = [[file[f"#refs#/{number}"].ref for number in range(len(masks))]]
        file.create_dataset("Masks", data=np.array(references, h5py.ref_dtype))
    content = bytearray(path.read_bytes())
    content[: len(HDF5)] = HDF5
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["5", "7.3"])
def test_any_mask_in_any_order(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    masks = np.random.default_rng(0).random((30, 7, 5)) > 0.5
    (write_masks if kind == "5" else write_hdf5)(
        tmp_path / "a.mat", [mask.astype(np.uint8) for mask in masks]
    )
    starts = []
    call = apart.call
    monkeypatch.setattr(apart, "call", lambda *words: starts.append(words[2]) or call(*words))
    found = open_masks(tmp_path / "a.mat")
    for frame in (*range(30), 29, 3, 17, 16):
        np.testing.assert_array_equal(found(frame), masks[frame])
    assert starts == [0, 8, 24, 3, 17, 16]
    for _ in range(2):
        with pytest.raises(UnreadableImage, match=r"a\.mat ends after 30 masks"):
            found(30)


def test_masks_that_say_they_are_terabytes_are_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file.create_dataset("big", (2**20, 2**20), "u1", chunks=(64, 64))
        file.create_dataset("Masks", data=np.array([[file["big"].ref]], h5py.ref_dtype))
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[: len(HDF5)] = HDF5
    (tmp_path / "a.mat").write_bytes(content)
    found = open_masks(tmp_path / "a.mat")
    for _ in range(2):
        with pytest.raises(UnreadableImage, match="big has 1,099,511,627,776 bytes; the limit is"):
            found(0)
        monkeypatch.setattr(apart, "call", None)


@pytest.mark.parametrize("wrong", [1e30, np.nan])
def test_poses_that_no_frame_has_are_refused(small: Path, wrong: float) -> None:
    path = small / "S11" / "MyPoseFeatures" / "D2_Positions" / "Posing.60457274.cdf"
    poses = np.stack([standing()] * 3)
    poses[1, 3, 0] = wrong
    write_poses(path, poses)
    with pytest.raises(
        TrigpointError, match=r"274\.cdf: expected (pixels; got the coordinate 1e\+30|a number for)"
    ):
        Human36M(small, "test")


def test_what_is_missing_is_named(small: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"Human3\.6M needs the folder .*nowhere"):
        Human36M(tmp_path / "nowhere")
    with pytest.raises(TrigpointError, match=r"Human3\.6M needs the folder .*S1"):
        Human36M(tmp_path)
    masks = small / "S11" / "MySegmentsMat" / "ground_truth_bs"
    (masks / "Posing.60457274.mat").rename(masks / "Posing 1.60457274.mat")
    with pytest.raises(TrigpointError, match=r"Human3\.6M needs the file .*Posing\.60457274\.mat"):
        Human36M(small, "test")
    masks.rename(small / "elsewhere")
    with pytest.raises(TrigpointError, match=r"Human3\.6M needs the folder .*ground_truth_bs"):
        Human36M(small, "test")
    (small / "S5" / "MyPoseFeatures" / "D2_Positions" / "Directions.55011271.cdf").unlink()
    with pytest.raises(TrigpointError, match=r"Human3\.6M needs the file .*Directions\.55011271\.cdf"):
        Human36M(small)


def test_damaged_files_are_named(small: Path) -> None:
    poses = small / "S11" / "MyPoseFeatures" / "D2_Positions" / "Posing.60457274.cdf"
    whole = poses.read_bytes()
    poses.write_bytes(b"no poses here")
    with pytest.raises(
        TrigpointError, match=r"Posing\.60457274\.cdf: expected a CDF file with the variable Pose"
    ):
        Human36M(small, "test")
    write_poses(poses, np.zeros((3, 17, 2)))
    with pytest.raises(
        TrigpointError, match=r"expected poses of 64 numbers a frame; got an array of \(1, 3, 34\)"
    ):
        Human36M(small, "test")
    poses.write_bytes(whole)
    masks = small / "S11" / "MySegmentsMat" / "ground_truth_bs" / "Posing.60457274.mat"
    kept = masks.read_bytes()
    masks.write_bytes(b"no masks here")
    with pytest.raises(
        TrigpointError, match=r"Posing\.60457274\.mat: expected a MATLAB file with the cells Masks"
    ):
        Human36M(small, "test").image(0)
    masks.write_bytes(kept)
    (small / "S11" / "Videos" / "Posing.60457274.mp4").write_bytes(b"no video here")
    with pytest.raises(UnreadableImage, match=r"Posing\.60457274\.mp4 is not a readable video"):
        Human36M(small, "test").image(0)
