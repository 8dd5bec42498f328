"""report.html: complete, self-contained, and alive in a browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trigpoint.app.report import write_report
from trigpoint.app.report.page import over_time
from trigpoint.app.report.pictures import chart, data_url, map_picture, trajectories
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.runs import Run


class Outline(HTMLParser):
    """The tags of a page with their attributes, and the text of each table row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append("")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1] += data + " "

    def attributes(self, tag: str, name: str) -> list[str]:
        return [found[name] or "" for kind, found in self.tags if kind == tag and name in found]


@pytest.fixture(params=["tiny_run", "colour_run"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


@pytest.fixture
def copied(tiny_run: Run, tmp_path: Path) -> Run:
    shutil.copytree(tiny_run.folder, tmp_path / "copied")
    return Run(tmp_path / "copied")


def test_nothing_is_fetched(run: Run) -> None:
    text = run.report_file.read_text()
    outside = set(re.findall(r"\w+://[^\s\"'<>)]*", text))
    assert outside <= {"http://www.w3.org/2000/svg"}
    page = Outline(text)
    links = [
        page.attributes(tag, name)
        for tag in ("img", "image", "link", "script", "a")
        for name in ("src", "href")
    ]
    links += [re.findall(r"url\(([^)]*)\)", text)]
    found = [link for group in links for link in group]
    assert len(found) > 20
    assert all(link.startswith("data:") for link in found)
    assert "@import" not in text


def test_every_section_is_there(run: Run) -> None:
    page = Outline(run.report_file.read_text())
    assert page.attributes("section", "id") == [
        "landmarks", "morph", "reconstructions", "evolution", "curves", "health", "facts",
    ]  # fmt: skip
    classes = page.attributes("div", "class")
    assert classes.count("player") >= 1
    assert classes.count("pair") >= 8
    assert page.attributes("figure", "class").count("chart") == 4
    assert len(page.attributes("img", "alt")) == len(page.attributes("img", "src"))


def test_every_landmark_is_in_the_health_table(run: Run) -> None:
    page = Outline(run.report_file.read_text())
    health = run.summary()["health"]
    rows = page.rows[1:]
    assert len(rows) == len(health)
    for row, entry in zip(rows, health, strict=True):
        words = row.split()
        assert words[0] == str(entry["landmark"])
        assert entry["verdict"] in row
        assert entry["why"] in row


def test_every_landmark_has_a_chip_and_a_dot_in_every_image(run: Run) -> None:
    page = Outline(run.report_file.read_text())
    count = run.config().model.landmarks
    assert page.attributes("button", "data-k") == [str(k) for k in range(count)]
    dots = page.attributes("circle", "data-k")
    shots = page.attributes("svg", "class").count("shot")
    assert dots == [str(k) for k in range(count)] * shots


def test_the_facts_are_those_of_the_run(run: Run) -> None:
    text, summary = run.report_file.read_text(), run.summary()
    assert f"{summary['train_images']:,}" in text
    assert run.config().preset in text
    assert f"{summary['warp_error']:.1%}" in text
    assert "skipped" not in text


def test_writing_it_again_gives_the_same_page(copied: Run, tiny_run: Run) -> None:
    copied.report_file.unlink()
    assert write_report(copied) == copied.report_file
    text = copied.report_file.read_text()
    assert text.replace(str(copied.folder), str(tiny_run.folder)) == tiny_run.report_file.read_text()


def test_names_cannot_break_the_page(copied: Run) -> None:
    bad = "<script>alert('$title')</script> & Co"
    meta = copied.meta()
    copied.config_file.write_text(json.dumps({**meta, "source": [bad]}))
    summary = copied.summary()
    summary["skipped"] = {bad: "<i>broken</i>"}
    copied.summary_file.write_text(json.dumps(summary))
    text = write_report(copied).read_text()
    assert "<script>alert" not in text
    assert "<i>broken" not in text
    assert "&lt;script&gt;alert" in text
    assert "1 unreadable" in text


def test_an_unfinished_run_has_no_report(tmp_path: Path, micro: Config) -> None:
    run = Run(tmp_path / "run")
    run.start(micro, ("digits",))
    with pytest.raises(
        TrigpointError, match=r"not finished; go on with: trigpoint train --out .*run --resume"
    ):
        write_report(run)
    assert not run.report_file.exists()


def test_images_said_to_be_kept_out_of_training_were(colour_run: Run, tiny_run: Run) -> None:
    """Of twelve photos none can be spared, and the page must not say otherwise."""
    promise = "kept out of training"
    assert promise in tiny_run.report_file.read_text()
    assert promise not in colour_run.report_file.read_text()


def test_a_chart_survives_odd_values() -> None:
    assert "polyline" in chart("loss", [1, 2, 3], [3.0, 2.0, 1.0], "%", log=True)
    assert "polyline" in chart("loss", [1, 2, 3], [2.0, 2.0, 2.0], "%", log=False)
    assert chart("loss", [1], [2.0], "%", log=False) == ""
    for log in (False, True):
        text = chart("loss", [1, 2, 3], [1.0, 0.0, 2.0], "%", log=log)
        line = re.search(r'points="([^"]*)"', text)
        assert line is not None
        numbers = [float(number) for number in re.split(r"[ ,]", line[1])]
        assert all(0 <= number <= 320 for number in numbers)


def test_pictures_are_inline() -> None:
    assert re.match(r"data:image/(png|jpeg);base64,\w", data_url(np.zeros((8, 8, 1), np.uint8)))
    maps = np.zeros((3, 4, 4), np.uint8)
    maps[0, 1, 2] = 255
    glow = map_picture(maps)
    assert glow.shape == (4, 4, 3)
    assert glow[1, 2].max() > 200
    assert glow.sum() == glow[1, 2].sum()


# Over time


def numbers_of(points: str) -> np.ndarray:
    return np.array([[float(number) for number in pair.split(",")] for pair in points.split()])


def test_trajectories_are_drawn_to_scale_in_the_landmarks_colours() -> None:
    """Four frames of two landmarks: time goes to the right, large values are at the top."""
    page = Outline(trajectories("x", np.array([[10.0, 50.0], [20.0, 50.0], [30.0, 50.0], [40.0, 20.0]])))
    first, second = (numbers_of(points) for points in page.attributes("polyline", "points"))
    assert page.attributes("polyline", "data-k") == ["0", "1"]
    assert page.attributes("polyline", "style") == [f"stroke:{hexadecimal(colour)}" for colour in colours(2)]
    for line in (first, second):
        assert np.ptp(np.diff(line[:, 0])) < 0.2
        assert line.min() >= 0
        assert (line <= (320, 170)).all()
    assert np.ptp(np.diff(first[:, 1])) < 0.2
    assert (np.diff(first[:, 1]) < 0).all()
    top, bottom = second[0, 1], first[0, 1]  # 50 and 10
    assert second[3, 1] == pytest.approx(bottom + (top - bottom) * (20 - 10) / (50 - 10), abs=0.15)


def test_a_landmark_that_does_not_move_is_a_line() -> None:
    page = Outline(trajectories("y", np.full((5, 1), 7.0)))
    (points,) = page.attributes("polyline", "points")
    assert np.isfinite(numbers_of(points)).all()
    assert np.ptp(numbers_of(points)[:, 1]) == 0


MEASURED = {
    "first_frame": "a.mp4:000000",
    "frames": 9,
    "jitter_pixels": [0.123, 4.5],
    "flow_pixels": [1.25, None],
    "low_confidence": [0.0, 0.333],
    "trajectories": np.random.default_rng(0).uniform(0, 60, (9, 2, 2)).tolist(),
}


def test_steadiness_of_each_landmark_is_a_row() -> None:
    page = Outline(over_time(MEASURED))
    assert page.attributes("section", "id") == ["time"]
    assert len(page.attributes("polyline", "points")) == 4  # x and y of both
    assert [row.split() for row in page.rows[1:]] == [
        ["0", "0.12", "px", "1.25", "px", "0%"],
        ["1", "4.50", "px", "33%"],
    ]


def test_where_a_background_is_known_the_rows_say_how_often_a_landmark_is_on_the_subject() -> None:
    page = Outline(over_time(MEASURED | {"on_subject": [0.991, 0.5]}))
    assert [row.split()[-1] for row in page.rows[1:]] == ["99%", "50%"]


@pytest.mark.parametrize("measured", [None, {}])
def test_what_was_not_measured_has_no_section(measured: dict[str, Any] | None) -> None:
    assert over_time(measured) == ""


def test_a_run_on_videos_has_the_section(copied: Run) -> None:
    count = copied.config().model.landmarks
    measured = MEASURED | {
        "jitter_pixels": [0.1] * count,
        "flow_pixels": [0.2] * count,
        "low_confidence": [0.3] * count,
        "trajectories": np.zeros((9, count, 2)).tolist(),
    }
    copied.summary_file.write_text(json.dumps(copied.summary() | {"temporal": measured}))
    page = Outline(write_report(copied).read_text())
    sections = page.attributes("section", "id")
    assert sections[sections.index("health") :] == ["health", "time", "facts"]
    assert page.attributes("figure", "class").count("chart") == 6


# In a browser

ATTACK = "<img src=x onerror='document.title=1'><script>document.title=2</script>\"'`$title"


def attacked(run: Run) -> Run:
    """Every text of the run's files that reaches the page is an attack on it."""
    meta, summary = run.meta(), run.summary()
    for row in summary["health"]:
        row |= {
            "nearest": 1,
            "nearest_distance": 0.1,
            "verdict": ATTACK,
            "why": ATTACK,
        }
    summary["skipped"] = {ATTACK: ATTACK}
    summary["temporal"] = {
        "trajectories": np.zeros((2, len(summary["health"]), 2)).tolist(),
        "frames": 2,
        **{
            name: [0.5] * len(summary["health"])
            for name in ("jitter_pixels", "flow_pixels", "low_confidence")
        },
    }
    meta |= {"source": [ATTACK], "versions": {ATTACK: ATTACK}}
    meta["config"] |= {"preset": ATTACK}
    run.config_file.write_text(json.dumps(meta))
    run.summary_file.write_text(json.dumps(summary))
    return run


def opened(browser: Any, file: Path) -> Any:
    """The page after its scripts ran, and what its console said."""
    page = browser.new_page()
    page.said = []
    page.on("console", lambda said: page.said.append(said.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_load_state("networkidle")
    return page


def test_no_text_of_a_run_becomes_a_part_of_the_page(browser: Any, copied: Run) -> None:
    page = opened(browser, write_report(attacked(copied)))
    assert page.title() == f"5 landmarks of {ATTACK}"
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
    assert page.locator("#health tbody tr").count() == 5
    assert page.locator("#health").inner_text().count(ATTACK) == 5 * 2
    assert page.said == []
    page.locator(".chip[data-k='2']").click()
    assert page.locator(".chip[data-k='2']").get_attribute("aria-pressed") == "true"
    card = re.sub(r"`[^`]*`|\\<", "", (copied.folder / "README.md").read_text())  # without code
    assert "<" not in card
    page.close()


def test_the_policy_runs_no_script_but_the_page_s_own(
    browser: Any, copied: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where something was not escaped."""
    monkeypatch.setattr("trigpoint.app.report.page.escaped", str)
    page = opened(browser, write_report(attacked(copied)))
    assert page.evaluate("document.querySelectorAll('img[src=x]').length") > 0
    assert page.title() not in ("1", "2")
    assert any("Content Security Policy" in line for line in page.said)
    page.locator(".chip[data-k='2']").click()
    assert page.locator(".chip[data-k='2']").get_attribute("aria-pressed") == "true"
    page.close()


def wait(page: Any, condition: str) -> None:
    """Until it holds; the page's policy forbids the evaluation that Playwright's own waiting does."""
    end = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


@pytest.fixture
def open_report(browser: Any, run: Run) -> Iterator[Callable[..., Any]]:
    contexts = []

    def open_page(**options: Any) -> Any:
        contexts.append(browser.new_context(reduced_motion="reduce", **options))
        page = contexts[-1].new_page()
        page.complaints = []
        page.on("console", lambda said: page.complaints.append(said.text) if said.type != "log" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on(
            "request", lambda asked: page.complaints.append(asked.url) if "data:" not in asked.url else None
        )
        page.goto(run.report_file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_it_loads_without_a_complaint(open_report: Callable[..., Any], run: Run) -> None:
    page = open_report()
    assert page.complaints == [run.report_file.as_uri()]  # it asked for itself and nothing else
    broken = "[...document.images].filter(image => !image.complete || !image.naturalWidth).length"
    assert page.evaluate(broken) == 0
    assert str(run.config().model.landmarks) in page.title()


def test_a_chip_dims_the_other_landmarks(open_report: Callable[..., Any]) -> None:
    page = open_report()
    opacity = "k => getComputedStyle(document.querySelector(`#landmarks circle[data-k='${k}']`)).opacity"
    assert [page.evaluate(opacity, k) for k in (0, 2)] == ["1", "1"]
    chip = page.locator(".chip[data-k='2']")
    chip.click()
    wait(page, f"Number(({opacity})(0)) < 0.3")
    assert page.evaluate(opacity, 2) == "1"
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    wait(page, f"Number(({opacity})(0)) === 1")
    assert chip.get_attribute("aria-pressed") == "false"


def test_the_slider_moves_the_morph(open_report: Callable[..., Any]) -> None:
    page = open_report()
    state = """() => {
        const player = document.querySelector(".player");
        const dots = [...player.querySelectorAll("circle")];
        return {
            at: parseFloat(player.style.backgroundPosition),
            dots: dots.map(dot => [dot, "cx", "cy"].slice(1).map(name => Number(dot.getAttribute(name)))),
            ends: JSON.parse(player.dataset.dots),
        };
    }"""
    before = page.evaluate(state)
    assert before["at"] == 0
    np.testing.assert_allclose(before["dots"], before["ends"][0], atol=1e-6)
    page.locator("#at").fill("20")
    after = page.evaluate(state)
    assert after["at"] == 100
    np.testing.assert_allclose(after["dots"], after["ends"][1], atol=1e-6)
    page.locator("#at").fill("10")
    np.testing.assert_allclose(page.evaluate(state)["dots"], np.mean(after["ends"], axis=0), atol=1e-6)


def test_the_morph_plays_and_pauses(open_report: Callable[..., Any]) -> None:
    page = open_report()
    button = page.locator("#play")
    assert button.inner_text() == "Play"  # this visitor asked for less motion
    button.click()
    assert button.inner_text() == "Pause"
    wait(page, "Number(document.getElementById('at').value) > 2")
    button.click()
    assert button.inner_text() == "Play"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_sideways(open_report: Callable[..., Any], width: int) -> None:
    page = open_report(viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
