"""The studio's page in a browser: every picture it shows is compared with what the editor makes itself."""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageSequence

from trigpoint.app.studio import server
from trigpoint.app.studio.server import Studio
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.generation.sampler import Sampler

SPREAD = np.array([(0.25, 0.3), (0.7, 0.35), (0.5, 0.55), (0.4, 0.8)])
GOAL = np.array([(0.3, 0.2), (0.6, 0.45), (0.55, 0.6), (0.3, 0.7)])


def photo(seed: int, size: tuple[int, int] = (64, 48)) -> NDArray[np.uint8]:
    random = np.random.default_rng(seed)
    picture = Image.new("RGB", size, tuple(random.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(picture)
    for _ in range(4):
        x, y, radius = random.uniform(0, size[0]), random.uniform(0, size[1]), random.uniform(3, 12)
        colour = tuple(random.integers(0, 256, 3).tolist())
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    return np.asarray(picture)


class Page:
    """The page as a person uses it, beside the editor that should give the same pictures."""

    def __init__(self, browser: Any, served: Any, **options: Any) -> None:
        self.studio, self.editor = served.studio, served.studio.editor
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type != "log" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self.check(asked.url, served.address))
        query = f"?token={served.studio.token}" if served.studio.token else ""
        self.page.goto(served.address + query)
        self.page.locator("html[data-ready]").wait_for(state="attached")

    def check(self, url: str, address: str) -> None:
        if not url.startswith((address, "blob:")):
            self.complaints.append(f"asked for {url}")

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def code(self, name: str) -> Code:
        (found,) = [image.code for image in self.studio.opened.values() if image.name == name]
        return found

    def number(self, name: str) -> str:
        (found,) = [number for number, image in self.studio.opened.items() if image.name == name]
        return found

    def landmarks(self) -> NDArray[np.float64]:
        """Where the handles are."""
        found = "dots => dots.map(dot => ['cx', 'cy'].map(name => Number(dot.getAttribute(name))))"
        return np.array(self.find("#handles circle").evaluate_all(found))

    def chosen(self) -> list[int]:
        return self.find("#handles circle.chosen").evaluate_all(
            "dots => dots.map(dot => Number(dot.dataset.k))"
        )

    def picture(self) -> NDArray[np.uint8]:
        """The pixels of the result as the browser sees them."""
        url = self.find("#result").evaluate(
            """image => {
                const canvas = document.createElement("canvas");
                [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
                canvas.getContext("2d").drawImage(image, 0, 0);
                return canvas.toDataURL("image/png");
            }"""
        )
        with Image.open(io.BytesIO(b64decode(url.partition(",")[2]))) as drawn:
            return np.asarray(drawn.convert("RGB"))

    def comes_to_show(self, expected: NDArray[np.uint8], tolerance: float = 0) -> bool:
        """Wait until the result is this picture: while one is dragged there are others in between."""
        while True:
            drawn = self.find("html").get_attribute("data-drawn")
            if drawn is not None:
                shown = self.picture()
                same = shown.shape == expected.shape
                if same and np.abs(shown.astype(int) - expected).mean() <= tolerance:
                    return True
            selector = "html[data-drawn]" if drawn is None else f'html:not([data-drawn="{drawn}"])'
            self.find(selector).wait_for(state="attached")

    def decoded(self, landmarks: NDArray[np.floating] | None = None, name: str = "first.png") -> Any:
        """What the editor makes of landmarks, or of those that the page shows."""
        return self.editor.decode(
            self.code(name).with_landmarks(self.landmarks() if landmarks is None else landmarks)
        )

    def invented(self, seed: int, landmarks: NDArray[np.floating] | None = None) -> Any:
        """What the generator makes of landmarks, or of those that the page shows, with a seed."""
        points = self.landmarks() if landmarks is None else landmarks
        return self.studio.sampler.generate(points[None], self.studio.sampler.latents(1, seed))[0]

    def asked_on(self, act: Callable[[], Any]) -> Any:
        """What the page asks the server to draw when one does something."""
        with self.page.expect_request("**/api/render") as caught:
            act()
        return caught.value.post_data_json

    def invent(self) -> int:
        """Ask for a new appearance; the seed that was sent."""
        asked = self.asked_on(lambda: self.click("New appearance"))
        assert asked["kind"] == "decoded"
        return int(asked["seed"])

    def at(self, point: NDArray[np.floating] | tuple[float, float]) -> tuple[float, float]:
        """Pixels of the window of a place on the image."""
        box = self.find("#handles").bounding_box()
        return box["x"] + point[0] * box["width"], box["y"] + point[1] * box["height"]

    def drag(self, *points: Any) -> None:
        mouse = self.page.mouse
        mouse.move(*self.at(points[0]))
        mouse.down()
        for point in points[1:]:
            mouse.move(*self.at(point), steps=2)
        mouse.up()

    def lasso(self, left: float, top: float, right: float, bottom: float) -> None:
        self.drag((left, top), (right, top), (right, bottom), (left, bottom))


@pytest.fixture
def studio(editor: Editor) -> Studio:
    """Two images with four landmarks each, far enough apart to be taken one by one."""
    made = Studio(editor)
    for name, seed, landmarks in (("first.png", 1, SPREAD), ("second.png", 2, GOAL)):
        number = made.open(name, photo(seed))
        image = made.opened[number]
        made.opened[number] = replace(image, code=image.code.with_landmarks(landmarks))
    return made


@pytest.fixture
def open_page(browser: Any, serve: Callable[..., Any], studio: Studio) -> Iterator[Callable[..., Page]]:
    """Opens pages on a new studio; at the end none may have complained of anything not foreseen."""
    pages: list[Page] = []
    with serve(studio) as served:

        def open_one(**options: Any) -> Page:
            pages.append(Page(browser, served, **options))
            return pages[-1]

        yield open_one
        for page in pages:
            page.context.close()
    assert [page.complaints for page in pages] == [[]] * len(pages)


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture
def open_inventive(open_page: Callable[..., Page], studio: Studio, sampler: Sampler) -> Callable[..., Page]:
    """The same, of a model that comes with a generator."""
    studio.sampler = sampler
    return open_page


@pytest.fixture
def inventive(open_inventive: Callable[..., Page]) -> Page:
    page = open_inventive()
    assert page.comes_to_show(page.decoded(SPREAD))
    return page


# Opening


def test_the_first_image_is_shown_with_its_landmarks(page: Page) -> None:
    assert page.comes_to_show(page.decoded(SPREAD))
    np.testing.assert_allclose(page.landmarks(), SPREAD)
    assert page.find(".thumb").count() == 2
    assert page.find(".thumb[aria-pressed=true]").get_attribute("aria-label") == "edit first.png"
    assert page.find("#goal option").all_inner_texts() == ["none", "first.png", "second.png"]
    assert page.find("#square").evaluate("image => [image.naturalWidth, image.naturalHeight]") == [384, 384]
    assert re.fullmatch(
        r"Drawn from the landmarks in \d+ ms \(model \d+ ms\)", page.find("#status").inner_text()
    )


def test_a_studio_without_images_asks_for_one(
    browser: Any, serve: Callable[..., Any], editor: Editor, tmp_path: Path
) -> None:
    file = tmp_path / "later.png"
    Image.fromarray(photo(3)).save(file)
    with serve(Studio(editor)) as served:
        page = Page(browser, served)
        assert page.find("#status").inner_text() == "Ready: a model of 4 landmarks. Open an image."
        assert page.find("#empty").is_visible()
        assert page.find("#save-png").is_disabled()
        page.find("#file").set_input_files(file)
        assert page.comes_to_show(editor.decode(editor.encode(photo(3))), tolerance=0.1)
        assert not page.find("#empty").is_visible()
        assert page.complaints == []
        page.context.close()


def test_the_token_of_the_address_is_used(browser: Any, serve: Callable[..., Any], editor: Editor) -> None:
    studio = Studio(editor, "a-long_token")
    studio.open("first.png", photo(1))
    with serve(studio) as served:
        page = Page(browser, served)
        assert page.comes_to_show(page.decoded())
        assert page.complaints == []
        page.context.close()


def test_another_image_is_chosen_by_its_thumb(page: Page) -> None:
    page.click("edit second.png")
    assert page.comes_to_show(page.decoded(GOAL, "second.png"))
    np.testing.assert_allclose(page.landmarks(), GOAL)
    assert page.find(".thumb[aria-pressed=true]").get_attribute("aria-label") == "edit second.png"


def test_a_file_is_opened(page: Page, tmp_path: Path) -> None:
    name = "\u00fcber 100% " + "\u732b" * 90 + ".png"  # more than is kept of a name
    data = io.BytesIO()
    Image.fromarray(photo(4)).save(data, "PNG")
    page.find("#file").set_input_files({"name": name, "mimeType": "image/png", "buffer": data.getvalue()})
    page.find(".thumb").nth(2).wait_for()
    page.find("#goal option").nth(3).wait_for(state="attached")
    kept = name[:80]
    page.find(f'.thumb[aria-pressed=true][title="{kept}"]').wait_for()
    assert page.find("#goal option").nth(3).inner_text() == kept
    assert page.comes_to_show(page.editor.decode(page.editor.encode(photo(4))), tolerance=0.1)
    page.page.reload()
    page.find("html[data-ready]").wait_for(state="attached")
    assert page.find("#goal option").all_inner_texts() == ["none", "first.png", "second.png", kept]


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_file_is_dropped_or_pasted(page: Page, way: str) -> None:
    data = io.BytesIO()
    Image.fromarray(photo(5)).save(data, "PNG")
    page.find("body").evaluate(
        """(body, [way, bytes]) => {
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "brought.png", {type: "image/png"}));
            const options = {bubbles: true, cancelable: true};
            const event = way === "drop"
                ? new DragEvent("drop", {...options, dataTransfer: clipboardData})
                : new ClipboardEvent("paste", {...options, clipboardData});
            body.dispatchEvent(event);
        }""",
        [way, list(data.getvalue())],
    )
    page.find('.thumb[aria-pressed=true][title="brought.png"]').wait_for()
    assert page.comes_to_show(page.editor.decode(page.editor.encode(photo(5))), tolerance=0.1)


def test_what_is_no_image_is_said_and_nothing_changes(page: Page) -> None:
    assert page.comes_to_show(page.decoded(SPREAD))
    bad = {"name": "bad.png", "mimeType": "image/png", "buffer": b"<svg></svg>"}
    page.find("#file").set_input_files(bad)
    page.find("#status.bad").wait_for()
    assert "This is not a readable image (expected JPEG, PNG" in page.find("#status").inner_text()
    assert page.find(".thumb").count() == 2
    assert page.comes_to_show(page.decoded(SPREAD))
    assert len(page.complaints) == 1  # the browser's own line on the answer
    assert "415" in page.complaints.pop()


def test_an_image_that_was_put_away_is_said(page: Page) -> None:
    assert page.comes_to_show(page.decoded(SPREAD))
    page.studio.opened.clear()
    page.find("#handles circle").first.focus()
    page.page.keyboard.press("ArrowRight")
    page.find("#status.bad").wait_for()
    assert page.find("#status").inner_text() == "That image is not open any more; open it again."
    assert len(page.complaints) == 1
    assert "404" in page.complaints.pop()


# Dragging


def test_a_drag_moves_one_landmark_and_the_image_follows(page: Page) -> None:
    assert page.comes_to_show(page.decoded(SPREAD))
    page.drag(SPREAD[2], (0.6, 0.6), (0.75, 0.65))
    moved = page.landmarks()
    np.testing.assert_allclose(moved[2], (0.75, 0.65), atol=0.005)
    np.testing.assert_allclose(moved[[0, 1, 3]], SPREAD[[0, 1, 3]])
    assert page.chosen() == [2]
    assert page.find("#chosen").inner_text() == "2"
    after = page.decoded(moved)
    assert (after != page.decoded(SPREAD)).any()
    assert page.comes_to_show(after)
    label = page.find("#handles circle").nth(2).get_attribute("aria-label")
    assert label == f"landmark 2 at {moved[2][0]:.2f}, {moved[2][1]:.2f}"


def test_undo_gives_the_same_picture_and_redo_the_other(page: Page) -> None:
    undo, redo = page.find("#undo"), page.find("#redo")
    assert undo.is_disabled()
    assert redo.is_disabled()
    page.drag(SPREAD[0], (0.45, 0.2))
    first = page.landmarks()
    page.drag(SPREAD[1], (0.8, 0.6))
    second = page.landmarks()
    assert page.comes_to_show(page.decoded(second))
    for act, landmarks in (
        (undo.click, first), (undo.click, SPREAD), (redo.click, first), (redo.click, second),
        (lambda: page.page.keyboard.press("Control+z"), first),
        (lambda: page.page.keyboard.press("Control+z"), SPREAD),
        (lambda: page.page.keyboard.press("Control+Shift+z"), first),
        (lambda: page.page.keyboard.press("Control+y"), second),
    ):  # fmt: skip
        act()
        np.testing.assert_array_equal(page.landmarks(), landmarks)
        assert page.comes_to_show(page.decoded(landmarks))
    assert redo.is_disabled()
    undo.click()
    page.drag(SPREAD[3], (0.3, 0.9))  # another way: there is nothing to redo any more
    assert redo.is_disabled()


def test_reset_goes_back_to_what_was_found(page: Page) -> None:
    page.drag(SPREAD[0], (0.45, 0.2))
    moved = page.landmarks()
    page.click("Reset")
    np.testing.assert_array_equal(page.landmarks(), SPREAD)
    assert page.comes_to_show(page.decoded(SPREAD))
    page.click("Undo")
    np.testing.assert_array_equal(page.landmarks(), moved)


def test_a_landmark_may_be_dragged_off_the_image_but_not_out_of_reach(page: Page) -> None:
    page.drag(SPREAD[0], (-0.02, 0.3))
    assert page.landmarks()[0, 0] == pytest.approx(-0.02, abs=0.005)
    for _ in range(3):
        page.drag((0.5, 0.55), (0.5, 1.3))
    assert page.landmarks()[:, 1].max() <= 1.5
    assert page.comes_to_show(page.decoded())


def test_a_finger_need_not_hit_the_landmark(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.page.touchscreen.tap(*page.at(np.add(SPREAD[1], (0.035, -0.035))))
    assert page.chosen() == [1]
    page.page.touchscreen.tap(*page.at((0.9, 0.9)))
    assert page.chosen() == []


def test_pictures_do_not_queue_up_while_one_drags(page: Page) -> None:
    """One is on its way at a time; of the wishes meanwhile only the newest is kept."""
    assert page.comes_to_show(page.decoded(SPREAD))
    held: list[Any] = []
    page.page.route("**/api/render", lambda route: held.append(route))

    def wait_for(number: int) -> None:
        while len(held) < number:
            page.page.wait_for_timeout(5)

    page.drag(*[(0.25 + 0.02 * step, 0.3 + 0.016 * step) for step in range(15)])
    last = page.landmarks()
    wait_for(1)
    held[0].continue_()
    wait_for(2)
    assert np.abs(np.array(held[0].request.post_data_json["landmarks"]) - last).max() > 0.1
    np.testing.assert_array_equal(held[1].request.post_data_json["landmarks"], last)
    held[1].continue_()
    assert page.comes_to_show(page.decoded(last))
    assert len(held) == 2


# Choosing several


def test_a_lasso_chooses_and_what_is_chosen_scales_and_turns(page: Page) -> None:
    page.lasso(0.15, 0.2, 0.85, 0.45)
    assert page.chosen() == [0, 1]
    assert page.find("#chosen").inner_text() == "0, 1"
    centre = SPREAD[:2].mean(axis=0)
    page.click("Larger")
    np.testing.assert_allclose(page.landmarks()[:2], centre + 1.06 * (SPREAD[:2] - centre))
    np.testing.assert_array_equal(page.landmarks()[2:], SPREAD[2:])
    assert page.comes_to_show(page.decoded())
    page.click("Smaller")
    np.testing.assert_allclose(page.landmarks(), SPREAD)
    page.click("Turn right")
    x, y = (SPREAD[:2] - centre).T
    cos, sin = np.cos(0.06), np.sin(0.06)  # clockwise on a screen, where y points down
    np.testing.assert_allclose(
        page.landmarks()[:2], centre + np.column_stack((cos * x - sin * y, sin * x + cos * y))
    )
    page.click("Turn left")
    np.testing.assert_allclose(page.landmarks(), SPREAD)
    page.page.keyboard.press("+")
    np.testing.assert_allclose(page.landmarks()[:2], centre + 1.06 * (SPREAD[:2] - centre))
    page.page.keyboard.press("-")
    page.page.keyboard.press("]")
    page.page.keyboard.press("[")
    np.testing.assert_allclose(page.landmarks(), SPREAD)


def test_what_is_chosen_moves_together(page: Page) -> None:
    page.lasso(0.15, 0.2, 0.85, 0.45)
    page.drag(SPREAD[0], np.add(SPREAD[0], (0.1, 0.05)))
    np.testing.assert_allclose(page.landmarks()[:2], np.add(SPREAD[:2], (0.1, 0.05)), atol=0.005)
    np.testing.assert_array_equal(page.landmarks()[2:], SPREAD[2:])
    page.click("Undo")
    np.testing.assert_array_equal(page.landmarks(), SPREAD)


def test_shift_adds_and_escape_lets_go(page: Page) -> None:
    page.lasso(0.15, 0.2, 0.35, 0.4)
    assert page.chosen() == [0]
    page.page.keyboard.down("Shift")
    page.lasso(0.3, 0.7, 0.5, 0.9)
    assert page.chosen() == [0, 3]
    page.page.mouse.click(*page.at(SPREAD[2]))
    page.page.keyboard.up("Shift")
    assert page.chosen() == [0, 2, 3]
    page.page.keyboard.press("Escape")
    assert page.chosen() == []
    page.click("All")
    assert page.chosen() == [0, 1, 2, 3]
    page.click("None")
    assert page.chosen() == []
    assert page.find("#smaller").is_disabled()
    page.page.keyboard.press("Control+a")
    assert page.chosen() == [0, 1, 2, 3]


# Keyboard


def test_a_landmark_moves_by_keys(page: Page) -> None:
    page.find("#handles circle").nth(1).focus()
    assert page.chosen() == [1]
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Shift+ArrowLeft", "Shift+ArrowUp"):
        page.page.keyboard.press(key)
    expected = SPREAD.copy()
    expected[1] += (0.006 - 0.03, 2 * 0.006 - 0.03)
    np.testing.assert_allclose(page.landmarks(), expected)
    assert page.comes_to_show(page.decoded())
    for _ in range(5):
        page.page.keyboard.press("Control+z")
    np.testing.assert_array_equal(page.landmarks(), SPREAD)


def test_landmarks_are_reached_by_tab(page: Page) -> None:
    page.find("#save-mp4").focus()
    for number in range(4):
        page.page.keyboard.press("Tab")
        assert page.chosen() == [number]


# What is shown


def test_kinds_of_pictures(page: Page) -> None:
    page.drag(SPREAD[2], (0.6, 0.6))
    page.page.get_by_label("Reconstruction").check()
    assert page.comes_to_show(page.decoded(SPREAD))
    page.page.get_by_label("Decoded").check()
    assert page.comes_to_show(page.decoded())
    for label, kind in (("Warped photo", "warped"), ("Blended photo", "blended"), ("Detection maps", "maps")):
        drawn = page.find("html").get_attribute("data-drawn")
        page.page.get_by_label(label).check()
        page.find(f'html:not([data-drawn="{drawn}"])').wait_for(state="attached")
        assert page.picture().shape == ((256, 256, 3) if kind == "maps" else (48, 64, 3))


# Towards another image


def test_landmarks_go_towards_another_image(page: Page) -> None:
    assert page.find("#share").is_disabled()
    page.find("#goal").select_option("second.png")
    page.find("#share").fill("50")
    np.testing.assert_allclose(page.landmarks(), (SPREAD + GOAL) / 2)
    assert page.find("#share-value").inner_text() == "50 %"
    assert page.comes_to_show(page.decoded())
    page.find("#share").fill("150")
    np.testing.assert_allclose(page.landmarks(), SPREAD + 1.5 * (GOAL - SPREAD))
    page.find("#share").fill("0")
    np.testing.assert_allclose(page.landmarks(), SPREAD)


def test_only_the_chosen_ones_go(page: Page) -> None:
    page.find("#goal").select_option("second.png")
    page.lasso(0.15, 0.2, 0.85, 0.45)
    page.find("#share").fill("100")
    np.testing.assert_allclose(page.landmarks(), np.concatenate((GOAL[:2], SPREAD[2:])))


def test_a_slide_by_keys_is_undone_key_by_key(page: Page) -> None:
    page.find("#goal").select_option("second.png")
    page.find("#share").focus()
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    np.testing.assert_allclose(page.landmarks(), SPREAD + 0.03 * (GOAL - SPREAD))
    page.page.keyboard.press("Control+z")  # while the slider has the focus
    np.testing.assert_allclose(page.landmarks(), SPREAD + 0.02 * (GOAL - SPREAD))
    page.click("Undo")
    page.click("Undo")
    np.testing.assert_array_equal(page.landmarks(), SPREAD)
    assert page.find("#undo").is_disabled()


def test_another_goal_starts_where_the_landmarks_are(page: Page) -> None:
    page.find("#goal").select_option("second.png")
    page.find("#share").fill("50")
    middle = page.landmarks()
    page.find("#goal").select_option("first.png")
    assert page.find("#share-value").inner_text() == "0 %"
    page.find("#share").fill("10")
    np.testing.assert_allclose(page.landmarks(), middle + 0.1 * (SPREAD - middle))


def test_the_appearance_is_swapped(page: Page) -> None:
    first, second = page.code("first.png"), page.code("second.png")
    page.find("#goal").select_option("second.png")
    page.click("Swap appearance")
    dressed = page.editor.decode(first.dressed(second))
    assert (dressed != page.decoded(SPREAD)).any()
    assert page.comes_to_show(dressed)
    assert page.find("#look-value").inner_text() == "100 %"
    page.click("Undo")
    assert page.comes_to_show(page.decoded(SPREAD))
    assert page.find("#look-value").inner_text() == "0 %"
    page.find("#look").fill("50")
    assert page.comes_to_show(page.editor.decode(first.towards(second, 0.5, (), "blend")))
    page.click("Undo")
    assert page.comes_to_show(page.decoded(SPREAD))


def test_playing_moves_and_stops(page: Page) -> None:
    page.find("#goal").select_option("second.png")
    page.click("Play")
    page.find("#play[aria-pressed=true]").wait_for()
    page.find(
        "#share-value",
    ).filter(has_text=re.compile("^[1-9]")).wait_for()
    page.click("Stop")
    page.find("#play[aria-pressed=false]").wait_for()
    share = page.landmarks() - SPREAD
    assert np.abs(share).max() > 0
    assert page.comes_to_show(page.decoded())
    page.click("Undo")
    np.testing.assert_array_equal(page.landmarks(), SPREAD)


@pytest.mark.parametrize("ending", ["no goal", "undo", "drag", "another image"])
def test_other_things_end_the_playing(page: Page, ending: str) -> None:
    page.find("#goal").select_option("second.png")
    page.click("Play")
    page.find("#share-value").filter(has_text=re.compile("^[1-9]")).wait_for()
    if ending == "no goal":
        page.find("#goal").select_option("none")
    elif ending == "undo":
        page.click("Undo")
    elif ending == "drag":
        page.lasso(0.9, 0.9, 0.95, 0.95)
    else:
        page.click("edit second.png")
    page.find("#play[aria-pressed=false]").wait_for()
    still = page.landmarks()
    page.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    np.testing.assert_array_equal(page.landmarks(), still)


def test_those_who_want_no_movement_are_taken_to_the_goal(open_page: Callable[..., Page]) -> None:
    page = open_page(reduced_motion="reduce")
    page.find("#goal").select_option("second.png")
    page.click("Play")
    np.testing.assert_allclose(page.landmarks(), GOAL)
    assert page.find("#play").get_attribute("aria-pressed") == "false"


# A new appearance


def focused(page: Page) -> str:
    return str(page.page.evaluate("document.activeElement.id"))


def test_a_new_appearance_is_the_generator_s_and_stays_while_one_drags(inventive: Page) -> None:
    page = inventive
    assert page.find("#own").is_disabled()
    seed = page.invent()
    new = page.invented(seed, SPREAD)
    assert np.abs(new.astype(int) - page.decoded(SPREAD)).mean() > 2
    assert page.comes_to_show(new)
    page.find("#status").filter(
        has_text=re.compile(r"^A new appearance, made in \d+ ms \(model \d+ ms\)$")
    ).wait_for()
    sent: list[Any] = []
    page.page.on("request", lambda asked: sent.append(asked.post_data_json))
    page.drag(SPREAD[2], (0.6, 0.6), (0.75, 0.65))
    moved = page.landmarks()
    np.testing.assert_allclose(moved[2], (0.75, 0.65), atol=0.005)
    after = page.invented(seed, moved)
    assert (after != new).any()
    assert page.comes_to_show(after)
    asked = [request for request in sent if request is not None]  # the others are for pictures already made
    assert asked
    assert {request["seed"] for request in asked} == {seed}
    assert asked[-1]["landmarks"] == moved.tolist()


def test_a_new_appearance_is_undone_and_done_again(inventive: Page) -> None:
    page = inventive
    seed = page.invent()
    page.drag(SPREAD[0], (0.45, 0.2))
    moved = page.landmarks()
    assert page.comes_to_show(page.invented(seed, moved))
    other = page.invent()
    assert other != seed
    assert page.comes_to_show(page.invented(other, moved))
    for button, landmarks, now in (
        ("Undo", moved, seed), ("Undo", SPREAD, seed), ("Undo", SPREAD, None),
        ("Redo", SPREAD, seed), ("Redo", moved, seed), ("Redo", moved, other),
    ):  # fmt: skip
        asked = page.asked_on(lambda button=button: page.click(button))
        assert asked.get("seed") == now
        np.testing.assert_array_equal(page.landmarks(), landmarks)
        assert page.comes_to_show(page.decoded(landmarks) if now is None else page.invented(now, landmarks))
        assert page.find("#own").is_disabled() == (now is None)


def test_undo_also_brings_back_the_kind_of_picture(inventive: Page) -> None:
    """A new appearance is shown decoded, whatever was shown before."""
    page = inventive
    page.page.get_by_label("Warped photo").check()
    seed = page.invent()
    for button, kind, now in (("Undo", "warped", None), ("Redo", "decoded", seed)):
        asked = page.asked_on(lambda button=button: page.click(button))
        assert (asked["kind"], asked.get("seed")) == (kind, now)
        assert page.find("input[name=kind]:checked").get_attribute("value") == kind


def test_the_own_appearance_comes_back(inventive: Page) -> None:
    page = inventive
    seed = page.invent()
    page.drag(SPREAD[1], (0.8, 0.6))
    moved = page.landmarks()
    assert page.comes_to_show(page.invented(seed, moved))
    asked = page.asked_on(lambda: page.click("Own appearance"))
    assert "seed" not in asked
    np.testing.assert_array_equal(page.landmarks(), moved)
    assert page.comes_to_show(page.decoded(moved))
    assert page.find("#own").is_disabled()
    page.click("Undo")
    assert page.comes_to_show(page.invented(seed, moved))


def test_reset_takes_the_new_appearance_away(inventive: Page) -> None:
    page = inventive
    seed = page.invent()
    page.drag(SPREAD[1], (0.8, 0.6))
    moved = page.landmarks()
    assert page.comes_to_show(page.invented(seed, moved))
    asked = page.asked_on(lambda: page.click("Reset"))
    assert "seed" not in asked
    np.testing.assert_array_equal(page.landmarks(), SPREAD)
    assert page.comes_to_show(page.decoded(SPREAD))
    assert page.find("#own").is_disabled()
    page.click("Undo")
    assert page.comes_to_show(page.invented(seed, moved))


def test_another_image_begins_with_its_own_appearance(inventive: Page) -> None:
    page = inventive
    assert page.comes_to_show(page.invented(page.invent(), SPREAD))
    page.click("edit second.png")
    assert page.comes_to_show(page.decoded(GOAL, "second.png"))
    assert page.find("#own").is_disabled()
    assert page.comes_to_show(page.invented(page.invent(), GOAL))


def test_a_new_and_another_image_s_appearance_take_each_other_s_place(inventive: Page) -> None:
    page = inventive
    first, second = page.code("first.png"), page.code("second.png")
    page.find("#goal").select_option("second.png")
    page.find("#look").fill("50")
    half = page.editor.decode(first.towards(second, 0.5, (), "blend"))
    assert page.comes_to_show(half)
    seed = page.invent()
    assert page.comes_to_show(page.invented(seed, SPREAD))
    assert page.find("#look-value").inner_text() == "0 %"
    page.click("Swap appearance")
    assert page.comes_to_show(page.editor.decode(first.dressed(second)))
    assert page.find("#own").is_disabled()
    page.click("Undo")
    assert page.comes_to_show(page.invented(seed, SPREAD))
    page.click("Undo")
    assert page.comes_to_show(half)
    assert page.find("#look-value").inner_text() == "50 %"


def test_a_new_appearance_goes_towards_another_image(inventive: Page) -> None:
    page = inventive
    seed = page.invent()
    page.find("#goal").select_option("second.png")
    page.find("#share").fill("50")
    np.testing.assert_allclose(page.landmarks(), (SPREAD + GOAL) / 2)
    assert page.comes_to_show(page.invented(seed))


def test_a_new_appearance_is_shown_whatever_was_before(inventive: Page) -> None:
    page = inventive
    page.page.get_by_label("Warped photo").check()
    page.find("#status").filter(has_text="own pixels").wait_for()
    seed = page.invent()
    assert page.page.get_by_label("Decoded").is_checked()
    assert page.comes_to_show(page.invented(seed, SPREAD))
    page.page.get_by_label("Reconstruction").check()
    assert page.comes_to_show(page.decoded(SPREAD))
    page.page.get_by_label("Decoded").check()
    assert page.comes_to_show(page.invented(seed, SPREAD))


@pytest.mark.parametrize(("chance", "seed"), [(0.0, 0), (1 - 2**-53, 2**31 - 1)])
def test_the_first_and_the_last_seed_are_as_good_as_others(inventive: Page, chance: float, seed: int) -> None:
    page = inventive
    page.page.evaluate("chance => { Math.random = () => chance; }", chance)
    assert page.invent() == seed
    assert page.comes_to_show(page.invented(seed, SPREAD))
    page.click("Own appearance")
    assert page.comes_to_show(page.decoded(SPREAD))


def test_a_new_appearance_by_keys(inventive: Page) -> None:
    """It lies between the goal and the selection, and the focus is not lost."""
    page, keys = inventive, inventive.page.keyboard
    page.find("#goal").focus()
    keys.press("Tab")
    assert focused(page) == "invent"
    seed = page.asked_on(lambda: keys.press("Enter"))["seed"]
    assert page.comes_to_show(page.invented(seed, SPREAD))
    keys.press("Tab")
    assert focused(page) == "own"
    keys.press("Space")
    assert page.comes_to_show(page.decoded(SPREAD))
    assert focused(page) == "invent"
    keys.press("Tab")
    assert focused(page) == "all"


def test_without_a_generator_there_is_no_new_appearance(page: Page) -> None:
    assert page.comes_to_show(page.decoded(SPREAD))
    assert page.find("#new").is_hidden()
    assert page.find("#invent").is_hidden()
    assert page.page.get_by_role("button", name="New appearance").count() == 0
    assert "New appearance" not in page.find("aside").inner_text()
    page.find("#goal").focus()
    page.page.keyboard.press("Tab")
    assert focused(page) == "all"


def test_with_a_generator_but_no_image_there_is_nothing_to_invent(
    browser: Any, serve: Callable[..., Any], editor: Editor, sampler: Sampler
) -> None:
    with serve(Studio(editor, sampler=sampler)) as served:
        page = Page(browser, served)
        assert page.find("#invent").is_visible()
        assert page.find("#invent").is_disabled()
        assert page.find("#own").is_disabled()
        assert page.complaints == []
        page.context.close()


def test_what_is_hidden_is_not_seen(page: Page) -> None:
    """Whatever the style sheet lays out as a grid or a row."""
    assert page.comes_to_show(page.decoded(SPREAD))
    shown = "nodes => nodes.map(node => getComputedStyle(node).display)"
    assert page.find("[hidden]").evaluate_all(shown) == ["none", "none"]  # the invitation, and the section
    page.find(".group").evaluate_all("nodes => nodes.forEach(node => { node.hidden = true; })")
    assert set(page.find(".group").evaluate_all(shown)) == {"none"}


# Saving


def saved(page: Page, button: str) -> tuple[str, bytes]:
    with page.page.expect_download() as download:
        page.click(button)
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_the_picture_is_saved(page: Page) -> None:
    page.drag(SPREAD[2], (0.6, 0.6))
    expected = page.decoded()
    assert page.comes_to_show(expected)
    name, data = saved(page, "PNG")
    assert name == "first-decoded.png"
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.format == "PNG"
        np.testing.assert_array_equal(np.asarray(picture), expected)


def test_a_photo_is_saved_as_what_it_is(page: Page) -> None:
    page.page.get_by_label("Warped photo").check()
    page.find("#status").filter(has_text="own pixels").wait_for()
    name, data = saved(page, "PNG")
    assert name == "first-warped.jpg"
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (64, 48))


def test_the_morph_is_saved(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FRAMES", 4)
    page.drag(SPREAD[2], (0.8, 0.8))
    assert page.comes_to_show(page.decoded())
    name, data = saved(page, "GIF")
    assert name == "first-morph.gif"
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.n_frames) == ("GIF", 4)
    page.find("#status").filter(has_text="Saved the GIF.").wait_for()
    name, data = saved(page, "MP4")
    assert name == "first-morph.mp4"
    with av.open(io.BytesIO(data)) as movie:
        assert len(list(movie.decode(video=0))) == 4


def test_a_new_appearance_is_saved_under_its_seed(inventive: Page) -> None:
    page = inventive
    seed = page.invent()
    expected = page.invented(seed, SPREAD)
    assert page.comes_to_show(expected)
    name, data = saved(page, "PNG")
    assert name == f"first-new-{seed}.png"
    with Image.open(io.BytesIO(data)) as picture:
        np.testing.assert_array_equal(np.asarray(picture), expected)
    page.page.get_by_label("Reconstruction").check()
    assert page.comes_to_show(page.decoded(SPREAD))
    assert saved(page, "PNG")[0] == "first-original.png"


@pytest.mark.parametrize(("shown", "kind"), [("Decoded", "MP4"), ("Reconstruction", "GIF")])
def test_the_morph_of_a_new_appearance_is_saved(
    inventive: Page, monkeypatch: pytest.MonkeyPatch, shown: str, kind: str
) -> None:
    """Whatever is shown meanwhile."""
    monkeypatch.setattr(server, "FRAMES", 3)
    page = inventive
    seed = page.invent()
    page.drag(SPREAD[2], (0.8, 0.8))
    moved = page.landmarks()
    assert page.comes_to_show(page.invented(seed, moved))
    page.page.get_by_label(shown).check()
    now = page.decoded(SPREAD) if shown == "Reconstruction" else page.invented(seed, moved)
    assert page.comes_to_show(now)
    with page.page.expect_request("**/api/morph") as caught:
        name, data = saved(page, kind)
    assert name == f"first-morph.{kind.lower()}"
    assert caught.value.post_data_json["seed"] == seed
    page.find("#status").filter(has_text=f"Saved the {kind}.").wait_for()
    if kind == "GIF":
        with Image.open(io.BytesIO(data)) as movie:
            frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(movie)]
    else:
        with av.open(io.BytesIO(data)) as movie:
            frames = [frame.to_ndarray(format="rgb24") for frame in movie.decode(video=0)]
    assert len(frames) == 3
    for frame, points in ((frames[0], SPREAD), (frames[-1], moved)):
        generated, decoded = (
            np.abs(cv2.resize(picture, (256, 256), interpolation=cv2.INTER_CUBIC).astype(int) - frame).mean()
            for picture in (page.invented(seed, points), page.decoded(points))
        )
        assert generated < decoded / 2  # not exactly: both formats lose colours


@pytest.mark.parametrize("clipboard", [True, False])
def test_the_landmarks_are_copied_in_pixels_of_the_photo(
    open_page: Callable[..., Page], clipboard: bool
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"] if clipboard else [])
    page.drag(SPREAD[2], (0.6, 0.6))
    assert page.comes_to_show(page.decoded())
    if clipboard:
        page.click("Copy JSON")
        page.find("#status").filter(has_text="Copied the landmarks").wait_for()
        told = json.loads(page.page.evaluate("navigator.clipboard.readText()"))
    else:
        page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
        name, data = saved(page, "Copy JSON")
        assert name == "first-landmarks.json"
        told = json.loads(data)
    assert (told["image"], told["width"], told["height"]) == ("first.png", 64, 48)
    assert [row["landmark"] for row in told["landmarks"]] == ["0", "1", "2", "3"]
    points = np.array([(row["x"], row["y"]) for row in told["landmarks"]])
    np.testing.assert_allclose(points, page.code("first.png").place.to_original(page.landmarks()), atol=0.006)


# For everybody


CONTROLS = {"button", "radio", "slider", "combobox", "textbox", "checkbox", "link", "spinbutton", "menuitem"}


def test_every_control_has_a_name(page: Page) -> None:
    """As Chromium tells a screen reader."""
    page.find("#goal").select_option("second.png")
    session = page.context.new_cdp_session(page.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    names: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"] and node["role"]["value"] in CONTROLS:
            names.setdefault(node["role"]["value"], []).append(node["name"]["value"].strip())
    assert all(name for group in names.values() for name in group), names
    assert {"Undo", "Redo", "Reset", "PNG", "GIF", "MP4", "Play", "edit first.png"} <= set(names["button"])
    assert sum(name.startswith("landmark ") for name in names["button"]) == 4
    assert any(name.startswith("Open image") for name in names["button"])
    assert len(names["radio"]) == 5
    assert names["combobox"] == ["Goal"]
    assert [name.split()[0] for name in names["slider"]] == ["Landmarks", "Appearance"]
    images = [node for node in nodes if not node["ignored"] and node["role"]["value"] == "image"]
    assert images
    assert all(node["name"]["value"] for node in images)


def contrast(one: str, other: str) -> float:
    """The ratio of the accessibility guidelines for two colours as `rgb(r, g, b)`."""
    levels = []
    for colour in (one, other):
        parts = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        levels.append(float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(levels) / min(levels)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_readable_in_both_schemes(open_page: Callable[..., Page], scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.find("#goal").select_option("second.png")
    page.click("Play")
    page.find("#play[aria-pressed=true]").wait_for()
    colours = """nodes => nodes.map(node => {
        let behind = node;
        while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        const colours = [getComputedStyle(node).color, getComputedStyle(behind).backgroundColor];
        return [node.id || node.tagName, ...colours];
    })"""
    words = page.find("h1, h2, .hint, label, button:not(:disabled):not(.thumb), select, footer p, #chosen")
    page.page.mouse.move(0, 0)
    found = words.evaluate_all(colours)
    assert len(found) > 20
    for name, ink, ground in found:
        assert contrast(ink, ground) >= 4.5, (name, ink, ground)
    ground = page.find("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert (contrast(ground, "rgb(0, 0, 0)") < 2) == (scheme == "dark")
    page.click("Stop")


def assert_nothing_overflows(page: Page, width: int) -> None:
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    outside = """width => [...document.querySelectorAll("button, select, input, .frame, label")]
        .filter(node => node.getBoundingClientRect().right > width + 1).map(node => node.id)"""
    assert page.page.evaluate(outside, width) == []


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_nothing_overflows_sideways(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(viewport={"width": width, "height": 844})
    assert page.comes_to_show(page.decoded(SPREAD))
    assert_nothing_overflows(page, width)
    box = page.find("#left").bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)
    assert box["width"] > 200


@pytest.mark.parametrize("width", [320, 390])
def test_a_new_appearance_on_a_phone(open_inventive: Callable[..., Page], width: int) -> None:
    page = open_inventive(viewport={"width": width, "height": 844}, has_touch=True, is_mobile=True)
    assert page.comes_to_show(page.decoded(SPREAD))
    assert_nothing_overflows(page, width)
    seed = page.asked_on(page.page.get_by_role("button", name="New appearance", exact=True).tap)["seed"]
    assert page.comes_to_show(page.invented(seed, SPREAD))
    page.page.get_by_role("button", name="Own appearance", exact=True).tap()
    assert page.comes_to_show(page.decoded(SPREAD))
    for name in ("#invent", "#own"):
        box = page.find(name).bounding_box()
        assert box["height"] >= 30
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
