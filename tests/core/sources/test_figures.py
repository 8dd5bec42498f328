"""The drawn figures: reproducible, with joints and motion that agree with what is drawn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources import open_source
from trigpoint.core.sources.figures import (
    ARM,
    FOREARM,
    HEAD,
    JOINTS,
    PARTS,
    SHIN,
    SWAPS,
    THIGH,
    TORSO,
    Figures,
    Look,
    Pose,
    background,
    draw,
    motion,
    place,
    video,
)

HEIGHTS = [JOINTS.index(name) for name in ("head", "neck", "left hip", "left knee", "left ankle")]


@pytest.fixture(scope="module")
def look_and_poses() -> tuple[Look, Pose, Pose]:
    """One figure, and the same a little later: everything has moved, its size too."""
    look, pose = Figures("30").figure(7)
    later = replace(
        pose,
        x=pose.x + 0.01,
        floor=pose.floor - 0.005,
        scale=pose.scale * 1.01,
        lean=pose.lean + 0.03,
        nod=pose.nod - 0.05,
        arms=pose.arms + 0.06,
        forearms=pose.forearms - 0.08,
        thighs=pose.thighs + np.array((0.04, -0.02)),
        shins=pose.shins - 0.03,
    )
    return look, pose, later


def test_counts_follow_the_split_and_the_word() -> None:
    assert [len(Figures("", split)) for split in ("train", "labels", "test")] == [2000, 2000, 500]
    assert len(Figures("12", "test")) == 12
    assert Figures("12", variant="back").words == ("figures-back:12",)
    assert Figures().words == ("figures",)


@pytest.mark.parametrize("word", ["x", "0", "-3", "1.5", "²", " 5"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(TrigpointError, match="figures takes a number of images, such as figures:200"):
        Figures(word)


def test_an_image_depends_on_its_split_and_number_alone() -> None:
    whole, few, test = Figures(), Figures("5"), Figures("5", "test")
    np.testing.assert_array_equal(whole.image(3), few.image(3))
    np.testing.assert_array_equal(whole.image(3), Figures("9", "labels").image(3))
    assert (whole.image(3).shape, whole.image(3).dtype) == ((96, 96, 3), np.uint8)
    assert np.abs(whole.image(3).astype(int) - test.image(3)).max() > 50
    assert np.abs(whole.image(3).astype(int) - whole.image(4)).max() > 50
    assert (whole.name(3), test.name(3)) == ("train-00003", "test-00003")
    with pytest.raises(IndexError):
        few.image(5)


def test_words_open_it_again() -> None:
    source = open_source("figures-front:4", "test")
    again = open_source(source.words, "test")
    assert len(again) == 4
    assert again.box(0) is None
    np.testing.assert_array_equal(source.image(2), again.image(2))


def test_joints_lie_inside_and_on_the_figure() -> None:
    source = Figures("60")
    assert source.annotations is not None
    points = source.annotations.points
    assert points.shape == (60, 14, 2)
    assert points.min() > 2
    assert points.max() < 94
    for index in range(0, 60, 5):
        look, pose = source.figure(index)
        frames, joints = place(look, pose, 96)
        parts = draw(look, frames, 96).parts
        column, row = np.floor(joints).astype(int).T
        assert (parts[row, column] >= 0).all()
    heights = points[:, HEIGHTS, 1]
    assert (np.diff(heights, axis=1) > 0).all()  # the head above the neck above the hip above the knee ...


def test_left_is_at_the_right_seen_from_the_front_and_at_the_left_from_behind() -> None:
    front, back = Figures("40", variant="front"), Figures("40", variant="back")
    assert front.annotations is not None
    assert back.annotations is not None
    for left, right in SWAPS:
        assert JOINTS[left].replace("left", "right") == JOINTS[right]
    for source, sign in ((front.annotations, 1), (back.annotations, -1)):
        for joint in (2, 8):  # arms and lower legs may cross, shoulders and hips do not
            assert (sign * (source.points[:, joint, 0] - source.points[:, joint + 1, 0]) > 0).all()
    # The same figure from the other side is its mirror image about where it stands.
    stands = np.array([front.figure(index)[1].x * 96 for index in range(40)])[:, None]
    np.testing.assert_allclose(
        front.annotations.points[..., 0] - stands, stands - back.annotations.points[..., 0], atol=1e-9
    )


def test_the_face_is_seen_from_the_front_and_the_hair_from_behind() -> None:
    sides = [Figures("8", variant=variant) for variant in ("front", "back")]
    for index in range(8):
        skin, hair = sides[0].figure(index)[0].colours[:2]
        for source, expected, other in zip(sides, (skin, hair), (hair, skin), strict=True):
            assert source.annotations is not None
            x, y = source.annotations.points[index, 0]
            middle = source.image(index)[int(y), int(x)].astype(float)
            assert np.abs(middle - expected).sum() < np.abs(middle - other).sum()


def test_attributes_say_what_is_drawn() -> None:
    source = Figures("80")
    assert source.attributes is not None
    assert source.attributes.names[0] == "view"
    assert source.attributes.values.shape == (80, len(source.attributes.names))
    assert set(np.unique(source.attributes.values)) == {0, 1}
    assert (source.attributes.values.mean(0) > 0.15).all()
    assert (source.attributes.values.mean(0) < 0.85).all()
    assert source.attributes.values[:, 0].tolist() == [source.figure(i)[0].back for i in range(80)]
    back = Figures("5", variant="back").attributes
    assert back is not None
    assert (back.values[:, 0] == 1).all()


def test_the_background_is_the_same_in_all_images() -> None:
    images = np.stack([Figures("20").image(index) for index in range(20)])
    still = np.rint(background(96)).astype(np.uint8)
    np.testing.assert_array_equal(images[:, -1], np.broadcast_to(still[-1], (20, 96, 3)))
    assert (images == still).all(-1).mean() > 0.6


def test_outlines_are_smooth() -> None:
    """A figure at twice the size, shrunk, is nearly the same picture: edges are not jagged."""
    look, pose = Figures("9").figure(8)
    small = draw(look, place(look, pose, 96)[0], 96).image.astype(float)
    large = draw(look, place(look, pose, 384)[0], 384).image
    shrunk = cv2.resize(large, (96, 96), interpolation=cv2.INTER_AREA).astype(float)
    assert np.abs(small - shrunk).mean() < 1
    assert np.percentile(np.abs(small - shrunk), 99) < 20


def test_frames_put_limbs_from_joint_to_joint(look_and_poses: tuple[Look, Pose, Pose]) -> None:
    look, pose, _ = look_and_poses
    frames, joints = place(look, pose, 96)
    for part, length, begin, end in (
        (THIGH, look.leg, "hip", "knee"),
        (SHIN, look.leg, "knee", "ankle"),
        (ARM, look.arm, "shoulder", "elbow"),
        (FOREARM, 0.95 * look.arm, "elbow", "wrist"),
    ):
        for number, side in enumerate(("left", "right")):
            turn, origin = frames[part + number]
            for point, name in ((0, begin), (1j * length, end)):
                there = turn * point + origin
                x, y = joints[JOINTS.index(f"{side} {name}")]
                assert (there.real, there.imag) == pytest.approx((x, y))
    assert frames[HEAD][1] == pytest.approx(complex(*joints[1]))
    assert frames[TORSO][1] == pytest.approx(complex(*joints[8:10].mean(0)))


def _sampled(image: NDArray[np.generic], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """An image read between its pixels, at (H, W, 2) pixels."""
    maps = (points - 0.5).astype(np.float32)
    return np.asarray(cv2.remap(image.astype(np.float32), maps[..., 0], maps[..., 1], cv2.INTER_LINEAR))


def test_flow_keeps_each_pixel_at_its_place_in_its_part(look_and_poses: tuple[Look, Pose, Pose]) -> None:
    look, pose, later = look_and_poses
    (now, _), (then, _) = place(look, pose, 96), place(look, later, 96)
    drawing = draw(look, now, 96)
    assert set(np.unique(drawing.parts)) == set(range(-1, PARTS))
    flow = motion(drawing.parts, now, then)
    assert (flow.shape, flow.dtype) == ((96, 96, 2), np.float32)
    for row, column in np.argwhere(drawing.parts >= 0)[::7]:
        part = drawing.parts[row, column]
        here = complex(column + 0.5, row + 0.5)
        there = here + complex(*flow[row, column])
        local_now, local_then = (here - now[part, 1]) / now[part, 0], (there - then[part, 1]) / then[part, 0]
        assert abs(local_now - local_then) < 1e-6  # of an image edge
    assert (flow[drawing.parts < 0] == 0).all()


def test_flow_takes_colours_along(look_and_poses: tuple[Look, Pose, Pose]) -> None:
    """Judged by the images alone: what a part shows here, the next frame shows where the flow leads."""
    look, pose, later = look_and_poses
    (now, _), (then, _) = place(look, pose, 192), place(look, later, 192)
    first, second = draw(look, now, 192), draw(look, then, 192)
    flow = motion(first.parts, now, then)
    row, column = np.indices((192, 192))
    target = np.stack((column, row), -1) + 0.5 + flow
    moved = _sampled(second.image, target)
    errors = np.abs(moved - first.image).mean(-1)
    still = np.abs(second.image.astype(float) - first.image).mean(-1)
    nearest = np.floor(target).astype(int).clip(0, 191)
    visible = (first.parts >= 0) & (second.parts[nearest[..., 1], nearest[..., 0]] == first.parts)
    assert np.median(errors[visible]) < 1.5
    assert errors[visible].mean() < 0.25 * still[visible].mean()


def test_video_is_smooth_and_its_flow_carries_the_joints() -> None:
    frames = list(video(9, seed=3))
    assert len(frames) == 9
    assert frames[-1].flow is None
    still = np.rint(background(96)).astype(np.uint8)
    carried = 0
    for now, then in pairwise(frames):
        assert now.flow is not None
        assert now.image.shape == (96, 96, 3)
        assert (now.flow[(now.image == still).all(-1)] == 0).all()
        assert np.abs(now.flow).max() < 4
        column, row = np.floor(now.joints).astype(int).T
        moved = now.joints + now.flow[row, column]
        # A joint hidden behind another part has that part's motion: most are not.
        carried += int((np.linalg.norm(moved - then.joints, axis=1) < 0.1).sum())
        assert np.abs(moved - then.joints).max() < 4
    assert carried > 0.8 * 8 * len(JOINTS)


def test_video_is_reproducible_and_of_any_size() -> None:
    first, again, other = (next(video(2, seed, 48)) for seed in (1, 1, 2))
    assert first.image.shape == (48, 48, 3)
    np.testing.assert_array_equal(first.image, again.image)
    assert np.abs(first.image.astype(int) - other.image).max() > 30
    np.testing.assert_allclose(next(video(2, 1, 96)).joints, first.joints * 2)
    assert list(video(0)) == []


def test_walking_moves_the_figure_and_stays_inside() -> None:
    joints = np.stack([frame.joints for frame in video(40, 5, 24)]) * 4
    assert joints.min() > 2
    assert joints.max() < 94
    assert (np.ptp(joints, axis=0).max(1) > 2).all()  # every joint moves
    assert np.abs(np.diff(joints, axis=0)).max() < 4
