"""The cars of PASCAL3D+: its camera, which cars count as profile, their landmarks, boxes and bad files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.sources.cars import LANDMARKS, Cars, project

# A car as the owners' models are made: front at -y, height along z, their "left" at -x.
CAR = {
    "left_front_wheel": (-0.16, -0.27, -0.08),
    "left_back_wheel": (-0.16, 0.25, -0.08),
    "upper_left_windshield": (-0.09, -0.07, 0.10),
    "upper_left_rearwindow": (-0.10, 0.27, 0.11),
    "left_front_light": (-0.12, -0.40, -0.02),
    "left_back_trunk": (-0.12, 0.40, 0.02),
}
CAR |= {name.replace("left", "right"): (-x, y, z) for name, (x, y, z) in CAR.items()}
RIGHT = [name for name in CAR if "right" in name]
LEFT = [name for name in CAR if "left" in name]
VIEW = {"azimuth": 90.0, "elevation": 0.0, "distance": 10.0, "focal": 1.0, "theta": 0.0}
VIEW |= {"px": 150.0, "py": 100.0, "viewport": 3000.0, "azimuth_coarse": 90.0, "elevation_coarse": 0.0}


def structs(values: Sequence[dict[str, Any]]) -> NDArray[np.void]:
    """A MATLAB struct array."""
    array = np.empty(len(values), [(name, object) for name in values[0]])
    for row, value in enumerate(values):
        for name in value:
            array[row][name] = value[name]
    return array


def anchors(places: dict[str, tuple[float, float]]) -> NDArray[np.void]:
    """What people clicked on: status 1 is visible, everything else has no place."""
    found = {}
    for name in CAR:
        location = np.array(places.get(name, ()), float)
        found[name] = structs([{"location": location, "status": 1 if name in places else 5}])
    return structs([found])


def car(clicks: dict[str, tuple[float, float]] | None = None, **view: float) -> dict[str, Any]:
    return {
        "class": "car",
        "bbox": np.array([20.0, 40, 280, 160]),
        "anchors": anchors(clicks or {}),
        "viewpoint": structs([VIEW | view]),
        "cad_index": 1,
        "truncated": 0,
        "occluded": 0,
        "difficult": 0,
    }


def annotate(folder: Path, name: str, *objects: dict[str, Any], kind: str = "car_imagenet") -> None:
    record = structs([{"filename": f"{name}.JPEG", "objects": structs(objects)}])
    savemat(folder / "Annotations" / kind / f"{name}.mat", {"record": record})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """PASCAL3D+ with one model and no annotation yet."""
    for part in ("Annotations/car_imagenet", "Annotations/car_pascal", "CAD", "Images/car_imagenet"):
        (tmp_path / part).mkdir(parents=True)
    model = {"vertices": np.zeros((3, 3)), "faces": np.ones((1, 3)), "pnames": list(CAR)}
    model |= {name: np.array([place]) for name, place in CAR.items()}
    savemat(tmp_path / "CAD" / "car.mat", {"car": structs([model, model])})
    return tmp_path


def points_of(source: Cars) -> NDArray[np.float64]:
    assert source.annotations is not None
    return source.annotations.points


def test_projection_is_that_of_the_owners_matrices() -> None:
    """Their formula: P = diag(Mf, Mf, -1) [R | -RC], turned by theta, y upwards, plus the principal point."""
    random = np.random.default_rng(0)
    for _ in range(20):
        points = random.uniform(-0.5, 0.5, (12, 3))
        values = random.uniform((0, -20, 3, 1, -15, 50, 50), (360, 60, 20, 2, 15, 400, 300))
        names = ("azimuth", "elevation", "distance", "focal", "theta", "px", "py")
        view = dict(zip(names, values.tolist(), strict=True)) | {"viewport": 3000.0}
        a, e, t = np.radians([view["azimuth"], view["elevation"], view["theta"]])
        centre = view["distance"] * np.array([np.cos(e) * np.sin(a), -np.cos(e) * np.cos(a), np.sin(e)])
        around_z = np.array([[np.cos(-a), -np.sin(-a), 0], [np.sin(-a), np.cos(-a), 0], [0, 0, 1]])
        tilt = e - np.pi / 2
        around_x = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
        turned = (around_x @ around_z @ (points - centre).T).T
        flat = 3000 * view["focal"] * turned[:, :2] / -turned[:, 2:]
        flat = flat @ np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]).T
        expected = flat * (1, -1) + (view["px"], view["py"])

        found, depth = project(points, view)

        np.testing.assert_allclose(found, expected - 0.5, atol=1e-8)  # their first pixel is 1, its centre 1
        np.testing.assert_allclose(depth, -turned[:, 2])


def test_landmarks_are_the_projected_anchors_of_the_side_one_sees(folder: Path) -> None:
    annotate(folder, "n01_1", car())
    source = Cars(folder)
    assert source.annotations is not None
    assert source.annotations.names == LANDMARKS
    assert source.annotations.reference == (0, 1)
    assert source.annotations.unit == "bi-wheel distance"
    # Seen from +x: y of the model runs to the right, z up, 3000 pixels to the unit at depth 1.
    expected = [
        (150 + 3000 * y / (10 - x) - 0.5, 100 - 3000 * z / (10 - x) - 0.5)
        for x, y, z in (CAR[name] for name in RIGHT)
    ]
    np.testing.assert_allclose(points_of(source)[0], expected)
    assert source.words == (f"cars:{folder}",)
    assert source.name(0) == "car_imagenet/n01_1.JPEG"


def test_cars_that_face_right_are_mirrored(folder: Path) -> None:
    annotate(folder, "n01_1", car(azimuth=90.0))
    annotate(folder, "n01_2", car(azimuth=270.0))
    source = Cars(folder)
    boxes = [source.box(index) for index in range(2)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert [box.mirrored for box in boxes if box] == [False, True]
    # The model is the same on both sides, so the two squares show the same.
    np.testing.assert_allclose(
        boxes[0].to_unit(points_of(source)[0]), boxes[1].to_unit(points_of(source)[1]), atol=1e-9
    )


def test_the_box_has_an_eighth_of_its_length_around_the_landmarks(folder: Path) -> None:
    annotate(folder, "n01_1", car())
    source = Cars(folder)
    box, points = source.box(0), points_of(source)[0]
    assert box is not None
    length = np.ptp(points[:, 0])
    assert box.x == pytest.approx(points[:, 0].min() - length / 8)
    assert box.y == pytest.approx(points[:, 1].min() - length / 8)
    assert box.width == pytest.approx(length * 1.25)
    assert box.height == pytest.approx(np.ptp(points[:, 1]) + length / 4)
    assert 2 < box.width / box.height < 3  # not square: stretched; the paper shows its cars as 2:1


@pytest.mark.parametrize(
    ("azimuth", "kept"), [(80, 1), (100, 1), (260, 1), (280, 1), (79, 0), (101, 0), (0, 0), (180, 0)]
)
def test_profile_is_ten_degrees_around_90_and_270(folder: Path, azimuth: float, kept: int) -> None:
    annotate(folder, "n01_1", car(azimuth=90.0))
    annotate(folder, "n01_2", car(azimuth=float(azimuth)))
    assert len(Cars(folder)) == 1 + kept


def test_only_whole_and_easy_cars_count_and_one_image_may_have_several(folder: Path) -> None:
    objects = [car(), car(azimuth=270.0)]
    for flag in ("truncated", "occluded", "difficult"):
        objects.append(car() | {flag: 1})
    objects.append(car() | {"class": "bus"})
    annotate(folder, "2008_1", *objects, kind="car_pascal")
    source = Cars(folder)
    assert [source.name(index) for index in range(len(source))] == [
        "car_pascal/2008_1.jpg",
        "car_pascal/2008_1.jpg#2",
    ]


def test_without_a_fitted_camera_the_clicks_count(folder: Path) -> None:
    clicks = {"left_front_wheel": (200.0, 120.0), "left_back_wheel": (90.0, 121.0)}
    clicks |= {"upper_left_windshield": (170.0, 60.0), "upper_right_windshield": (171.0, 59.0)}
    annotate(folder, "n01_1", car(clicks, distance=0.0, azimuth=0.0, azimuth_coarse=270.0))
    source = Cars(folder)
    expected = np.full((6, 2), np.nan)
    expected[:3] = [(199.5, 119.5), (89.5, 120.5), (169.5, 59.5)]
    np.testing.assert_array_equal(points_of(source)[0], expected)
    box = source.box(0)
    assert box is not None
    assert box.mirrored
    np.testing.assert_allclose([box.x, box.y, box.width], [89.5 - 110 / 8, 59.5 - 110 / 8, 110 * 1.25])


@pytest.mark.parametrize(
    "places",
    [
        {"left_front_wheel": (200.0, 120.0), "upper_left_windshield": (170.0, 60.0)},
        {"left_front_wheel": (200.0, 120.0), "left_back_wheel": (90.0, 121.0)},
    ],
)
def test_clicks_without_both_wheels_or_without_height_are_left_out(
    folder: Path, places: dict[str, tuple[float, float]]
) -> None:
    annotate(folder, "n01_1", car())
    annotate(folder, "n01_2", car(places, distance=0.0))
    annotate(folder, "n01_4", car() | {"cad_index": 3})  # there are two models, and nobody clicked
    annotate(folder, "n01_5", car() | {"viewpoint": np.empty((0, 0)), "anchors": np.empty((0, 0))})
    assert [Cars(folder).name(index) for index in range(len(Cars(folder)))] == ["car_imagenet/n01_1.JPEG"]


def test_a_tenth_is_for_testing_by_name(folder: Path) -> None:
    annotate(folder, "n01_1", car())
    annotation = (folder / "Annotations" / "car_imagenet" / "n01_1.mat").rename(folder / "one.mat")
    for number in range(40):
        shutil.copy(annotation, folder / "Annotations" / "car_imagenet" / f"n02814533_{number}.mat")
    train, labels, test = Cars(folder), Cars(folder, "labels"), Cars(folder, "test")
    names = [[source.name(index) for index in range(len(source))] for source in (train, labels, test)]
    assert names[0] == names[1]
    assert len(set(names[0]) | set(names[2])) == len(train) + len(test) == 40
    assert 1 <= len(test) <= 9


def test_images_are_read_where_they_lie(folder: Path) -> None:
    annotate(folder, "n01_1", car())
    annotate(folder, "n01_2", car())
    Image.new("RGB", (300, 200)).save(folder / "Images" / "car_imagenet" / "n01_1.JPEG", "JPEG")
    source = Cars(folder)
    assert source.image(0).shape == (200, 300, 3)
    with pytest.raises(UnreadableImage):
        source.image(1)


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="holds no profile car of the split 'train'"):
        Cars(folder)
    (folder / "Annotations" / "car_pascal").rmdir()
    annotate(folder, "n01_1", car())
    with pytest.raises(TrigpointError, match=r"PASCAL3D\+ needs the folder .*car_pascal"):
        Cars(folder)
    with pytest.raises(TrigpointError, match=r"PASCAL3D\+ needs the file .*car\.mat"):
        Cars(tmp_path / "elsewhere")


@pytest.mark.parametrize("content", [b"", b"not MATLAB", b"MATLAB 5.0 MAT-file" + bytes(200)])
def test_a_damaged_annotation_is_named(folder: Path, content: bytes) -> None:
    (folder / "Annotations" / "car_imagenet" / "n01_1.mat").write_bytes(content)
    with pytest.raises(TrigpointError, match=r"n01_1\.mat: expected a MATLAB file with record\.objects"):
        Cars(folder)


def test_files_of_something_else_are_refused(folder: Path) -> None:
    savemat(folder / "Annotations" / "car_imagenet" / "n01_1.mat", {"record": np.eye(3)})
    with pytest.raises(TrigpointError, match=r"n01_1\.mat: expected a MATLAB file with record\.objects"):
        Cars(folder)
    savemat(folder / "CAD" / "car.mat", {"car": structs([{"vertices": np.zeros((3, 3))}])})
    with pytest.raises(TrigpointError, match=r"car\.mat: expected CAD models with anchors in space"):
        Cars(folder)
    savemat(folder / "CAD" / "car.mat", {"bus": np.eye(3)})
    with pytest.raises(TrigpointError, match=r"car\.mat: expected a MATLAB file with car"):
        Cars(folder)
