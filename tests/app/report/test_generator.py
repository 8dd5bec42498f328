"""The report of a generator: complete, self-contained, and true."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from trigpoint.app.report.generator import closing_words, headline, write_report
from trigpoint.core.errors import TrigpointError
from trigpoint.core.generator_run import GeneratorRun


class Outline(HTMLParser):
    """The tags of a page with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())

    def attributes(self, tag: str, name: str) -> list[str]:
        return [found[name] or "" for kind, found in self.tags if kind == tag and name in found]


@pytest.fixture
def copied(generator_run: GeneratorRun, tmp_path: Path) -> GeneratorRun:
    shutil.copytree(generator_run.folder, tmp_path / "copied")
    return GeneratorRun(tmp_path / "copied")


@pytest.fixture(scope="module")
def page(generator_run: GeneratorRun) -> str:
    return generator_run.report_file.read_text()


def change(run: GeneratorRun, **values: Any) -> None:
    run.summary_file.write_text(json.dumps(run.summary() | values))


def test_nothing_is_fetched(page: str) -> None:
    words = re.sub(r"data:image[^\"]*", "", page)  # whatever letters the pictures happen to have
    assert "http" not in words.replace("http-equiv", "")
    assert "://" not in words
    outline = Outline(page)
    links = [
        link
        for tag in ("img", "image", "link", "script", "a")
        for name in ("src", "href")
        for link in outline.attributes(tag, name)
    ]
    assert len(links) > 5
    assert all(link.startswith("data:") for link in links)
    assert not re.findall(r"url\(|@import|\$", words)


def test_every_section_is_there(page: str) -> None:
    outline = Outline(page)
    assert outline.attributes("section", "id") == ["samples", "time", "balance", "facts"]
    assert outline.attributes("figure", "class") == ["chart"] * 6
    assert len(outline.attributes("img", "alt")) == len(outline.attributes("img", "src"))


def test_the_last_samples_come_first_then_those_of_earlier_steps(
    page: str, generator_run: GeneratorRun
) -> None:
    kept = [int(file.stem.removeprefix("step-")) for file in sorted(generator_run.evolution_folder.iterdir())]
    shown = [int(step) for step in re.findall(r"<figcaption>step (\d+)</figcaption>", page)]
    assert shown == [kept[-1], *kept[:-1]]
    assert kept[-1] == generator_run.settings().steps
    labels = Outline(page).attributes("img", "alt")
    assert labels == [f"samples at step {step}" for step in shown]


def test_it_names_what_was_measured(page: str, generator_run: GeneratorRun) -> None:
    summary, settings = generator_run.summary(), generator_run.settings()
    for words in (
        f"within {summary['cycle_distance']:.1%} of the image edge",
        f"({summary['shuffled_distance']:.1%} from another image's)",
        f"differ {summary['diversity']:.0%} as much as real images do",
        f"{summary['train_images']:,}",
        f"{summary['parameters']:,} parameters, latent of {settings.latent}",
        f"{settings.steps} steps of {settings.batch_size} images, seed {settings.seed}",
        f"gamma {settings.gamma}, cycle weight {settings.cycle}",
        f"{summary['images_per_second']:.0f} images/s",
        "digits:3",
    ):
        assert any(words in part for part in Outline(page).words), words


def test_charts_end_at_the_last_line_of_the_log(page: str, generator_run: GeneratorRun) -> None:
    last = generator_run.log()[-1]
    values = re.findall(r'<p class="value">([^ <]+)', page)
    expected = [last["measure"], last["k"], last["real"], last["made"], 100 * last["cycle"]]
    assert values == [f"{value:.3g}" for value in (*expected, 100 * last["apart"])]


def test_a_run_whose_samples_were_not_kept_apart_has_no_chart_of_it(copied: GeneratorRun) -> None:
    meta = copied.meta()
    copied.config_file.write_text(json.dumps(meta | {"config": meta["config"] | {"apart": 0.0}}))
    lines = [{name: value for name, value in line.items() if name != "apart"} for line in copied.log()]
    copied.log_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = write_report(copied).read_text()
    assert Outline(page).attributes("figure", "class") == ["chart"] * 5
    assert "apart weight" not in page


def test_writing_it_again_gives_the_same_page(copied: GeneratorRun, page: str) -> None:
    copied.report_file.unlink()
    assert write_report(copied) == copied.report_file
    again = copied.report_file.read_text()
    assert f"trigpoint generate sample {copied.folder} --like" in again
    cut = re.compile(r"trigpoint generate sample \S+")
    assert cut.sub("", again) == cut.sub("", page)


def test_names_cannot_break_the_page(copied: GeneratorRun) -> None:
    bad = "<script>alert('$title')</script> & Co"
    copied.config_file.write_text(json.dumps(copied.meta() | {"source": [bad]}))
    change(copied, skipped={bad: "<i>broken</i>"})
    text = write_report(copied).read_text()
    assert "<script>alert" not in text
    assert "<i>broken" not in text
    assert text.count("&lt;script&gt;alert") == 2


def test_images_said_to_be_kept_out_of_training_were(copied: GeneratorRun, page: str) -> None:
    assert "kept out of training" in page
    change(copied, held_out=0)
    assert "kept out of training" not in write_report(copied).read_text()


def test_images_left_out_are_told(copied: GeneratorRun, page: str) -> None:
    assert "Skipped" not in page
    assert "Skipped" not in closing_words(copied)
    change(copied, skipped={"a.jpg": "torn", "b.jpg": "empty"})
    words = "Skipped 2 unreadable images: a.jpg (torn), and 1 more."
    assert words in write_report(copied).read_text()
    assert words in closing_words(copied)


def test_a_damaged_picture_is_named(copied: GeneratorRun) -> None:
    first = min(copied.evolution_folder.iterdir())
    first.write_bytes(first.read_bytes()[:200])
    with pytest.raises(TrigpointError, match=rf"{first.name} is damaged: "):
        write_report(copied)
    shutil.rmtree(copied.evolution_folder)
    assert "<figcaption>step" not in write_report(copied).read_text()


def test_real_images_that_are_all_alike_have_no_diversity_to_compare_with(copied: GeneratorRun) -> None:
    change(copied, diversity=None)
    assert headline(copied.summary()).endswith("from another image's).")
    assert "as much as real images do" not in write_report(copied).read_text()


def test_the_headline() -> None:
    summary = {"cycle_distance": 0.0214, "shuffled_distance": 0.0661, "diversity": 0.75}
    assert headline(summary) == (
        "Landmarks on generated images lie within 2.1% of the image edge of where they were wanted "
        "(6.6% from another image's). Samples of one structure differ 75% as much as real images do."
    )


def test_the_closing_words(generator_run: GeneratorRun) -> None:
    summary = generator_run.summary()
    assert closing_words(generator_run).splitlines() == [
        headline(summary),
        f"Speed: {summary['images_per_second']:.0f} images/s; peak memory "
        f"{summary['peak_memory_mb']:.0f} MB.",
        f"Report: {generator_run.report_file}",
        f"Next:   trigpoint generate sample {generator_run.folder} --like IMAGE... --out made",
    ]


@pytest.mark.parametrize("missing", ["generator.safetensors", "summary.json"])
def test_an_unfinished_run_has_no_report(copied: GeneratorRun, missing: str) -> None:
    copied.report_file.unlink()
    (copied.folder / missing).unlink()
    with pytest.raises(TrigpointError) as caught:
        write_report(copied)
    assert str(caught.value) == (
        f"The run {copied.folder} is not finished; go on with: "
        f"trigpoint generate train --out {copied.folder} --resume."
    )
    assert not copied.report_file.exists()
