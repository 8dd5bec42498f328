"""`trigpoint studio`: the address it prints, the port it takes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette

from trigpoint.app.cli import studio
from trigpoint.app.studio import server
from trigpoint.app.studio.server import HELD, Studio
from trigpoint.app.studio.serving import LOOPBACK
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.runs import Run
from trigpoint.learning.checkpoint import save_tensors
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.generation.networks import Adversaries
from trigpoint.learning.generation.sampler import Sampler


class Started:
    """What the verb would have served, had it been let."""

    def __init__(self) -> None:
        self.studios: list[Studio] = []
        self.port = 0

    def create(self, studio: Studio) -> Starlette:
        self.studios.append(studio)
        return Starlette()

    def run(self, sockets: list[socket.socket]) -> None:
        (listener,) = sockets
        self.port = listener.getsockname()[1]
        listener.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The verb runs up to the point where it would serve."""
    found = Started()
    monkeypatch.setattr(server, "create_app", found.create)
    monkeypatch.setattr(uvicorn.Server, "run", lambda _, sockets: found.run(sockets))
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open; it is asked at once."""
    addresses: list[str] = []

    class AtOnce:
        def __init__(self, _: float, job: Callable[[], object]) -> None:
            self.start = job

    monkeypatch.setattr(studio.threading, "Timer", AtOnce)
    monkeypatch.setattr(studio.webbrowser, "open", addresses.append)
    return addresses


@pytest.fixture
def busy() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture(scope="module")
def untrained(colour_run: Run, tmp_path_factory: pytest.TempPathFactory) -> GeneratorRun:
    """What `trigpoint generate train` leaves, but untrained, for the model of colour_run. Leave it."""
    run = GeneratorRun(tmp_path_factory.mktemp("generator") / "run")
    settings = GeneratorConfig(latent=8, width=8, critic_width=8, critic_hidden=8)
    run.begin(settings, ["photos"], colour_run)
    adversaries = Adversaries(settings, colour_run.config().model)
    save_tensors(run.model_file, adversaries.generator.state_dict())
    return run


def address_in(text: str) -> str:
    found = re.fullmatch(r"The studio is at (\S+)\nCtrl-C ends it\.\n", text)
    assert found, text
    return found[1]


def test_the_address_is_printed_and_opened(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, opened: list[str]
) -> None:
    said = trigpoint("studio", colour_run.folder, "--port", 0)
    assert said.code == 0
    assert said.err == ""
    assert address_in(said.out) == f"http://127.0.0.1:{started.port}/"
    assert opened == [address_in(said.out)]


def test_the_browser_may_be_left_alone(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, opened: list[str]
) -> None:
    said = trigpoint("studio", colour_run.folder, "--port", 0, "--no-browser")
    assert address_in(said.out)
    assert opened == []


def test_images_are_opened_under_their_names(
    trigpoint: Callable[..., Any], colour_run: Run, photos: Path, started: Started
) -> None:
    images = (photos / "01.png", photos / "00.jpg")
    assert trigpoint("studio", colour_run.folder, *images, "--port", 0, "--no-browser").code == 0
    (made,) = started.studios
    assert [image.name for image in made.opened.values()] == ["01.png", "00.jpg"]
    assert [image.size for image in made.opened.values()] == [(48, 36)] * 2
    assert (made.token, made.hosts) == ("", LOOPBACK)


def test_a_generator_s_run_makes_new_appearances(
    trigpoint: Callable[..., Any], untrained: GeneratorRun, colour_run: Run, photos: Path, started: Started
) -> None:
    words = ("studio", untrained.folder, photos / "01.png", "--port", 0, "--no-browser")
    assert trigpoint(*words).code == 0
    (made,) = started.studios
    (code,) = [image.code for image in made.opened.values()]
    landmarks = Editor.load(colour_run.folder).encode(photos / "01.png").landmarks
    np.testing.assert_array_equal(code.landmarks, landmarks)  # those of the model that it was trained with
    sampler = Sampler.load(untrained.folder)
    expected = sampler.generate(landmarks[None], sampler.latents(1, 5))
    np.testing.assert_array_equal(made.maker({"seed": 5})([code]), expected)


def test_other_models_make_none(trigpoint: Callable[..., Any], colour_run: Run, started: Started) -> None:
    assert trigpoint("studio", colour_run.folder, "--port", 0, "--no-browser").code == 0
    (made,) = started.studios
    assert made.sampler is None


def test_a_generator_that_is_not_finished(
    trigpoint: Callable[..., Any], untrained: GeneratorRun, tmp_path: Path, started: Started
) -> None:
    folder = shutil.copytree(untrained.folder, tmp_path / "run")
    (folder / "generator.safetensors").unlink()
    said = trigpoint("studio", folder, "--port", 0, "--no-browser")
    assert said.refused(f"The run {folder} is not finished: it has no generator.safetensors")
    assert started.studios == []


def test_others_need_a_token(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box")
    for _ in range(2):
        said = trigpoint("studio", colour_run.folder, "--host", "0.0.0.0", "--port", 0, "--no-browser")
        address = urlsplit(address_in(said.out))
        assert (address.hostname, address.port) == ("0.0.0.0", started.port)
        assert parse_qs(address.query)["token"] == [started.studios[-1].token]
    first, second = started.studios
    assert first.token != second.token
    assert len(first.token) >= 20
    assert first.hosts == LOOPBACK | {"0.0.0.0", "box"}


def test_the_next_port_is_taken_if_one_is_in_use(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, busy: int
) -> None:
    said = trigpoint("studio", colour_run.folder, "--port", busy, "--no-browser")
    assert said.code == 0
    assert busy < started.port <= busy + 20
    assert urlsplit(address_in(said.out)).port == started.port


def test_all_ports_in_use(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    class Taken(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:
            tried.append(address[1])
            raise OSError(98, "Address already in use")

    monkeypatch.setattr(studio.socket, "socket", Taken)
    said = trigpoint("studio", colour_run.folder, "--port", 50_000, "--no-browser")
    assert said.refused("Ports 50000 to 50020 are all in use; choose another with --port.")
    assert tried == list(range(50_000, 50_021))
    tried.clear()
    assert trigpoint("studio", colour_run.folder, "--port", 65_530).refused("Ports 65530 to 65535")
    assert tried == list(range(65_530, 65_536))


def test_a_port_for_which_one_has_no_right(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forbidden(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(studio.socket, "socket", Forbidden)
    assert trigpoint("studio", colour_run.folder, "--port", 80).refused(
        "Port 80 needs more rights; choose one above 1023."
    )


@pytest.mark.parametrize("port", [-1, 65_536, 10**9])
def test_a_port_that_is_none(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started, port: int
) -> None:
    assert trigpoint("studio", colour_run.folder, f"--port={port}").refused(
        f"--port must be between 0 and 65535; got {port}."
    )


def test_an_address_that_is_not_this_computer_s(
    trigpoint: Callable[..., Any], colour_run: Run, started: Started
) -> None:
    said = trigpoint("studio", colour_run.folder, "--host", "192.0.2.1", "--port", 0)
    assert said.refused("Cannot listen on 192.0.2.1: ")


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_what_is_missing_is_named(
    trigpoint: Callable[..., Any], colour_run: Run, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "trigpoint.app.studio.server", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    said = trigpoint("studio", colour_run.folder)
    assert said.refused(f"The studio needs {missing}: pip install 'trigpoint[studio]'.")


def test_a_model_that_is_none(trigpoint: Callable[..., Any], tmp_path: Path, started: Started) -> None:
    assert trigpoint("studio", tmp_path / "nothing").refused("There is no run folder")


def test_images_that_cannot_be_opened_are_named(
    trigpoint: Callable[..., Any], colour_run: Run, tmp_path: Path, started: Started
) -> None:
    small, text, missing = tmp_path / "small.png", tmp_path / "text.png", tmp_path / "missing.png"
    Image.new("RGB", (4, 4)).save(small)
    text.write_text("Dear diary")
    for path, words in (
        (small, f"{small}: 4x4 pixels, smaller than 8x8."),
        (text, f"{text}: not a readable image (expected JPEG, "),
        (missing, f"There is no file {missing}."),
        (tmp_path, f"There is no file {tmp_path}."),
    ):
        assert trigpoint("studio", colour_run.folder, path, "--port", 0, "--no-browser").refused(words)


def test_no_image_is_left_out_in_silence(
    trigpoint: Callable[..., Any], colour_run: Run, photos: Path, started: Started
) -> None:
    said = trigpoint("studio", colour_run.folder, *[photos / "01.png"] * (HELD + 1))
    assert said.refused(f"The studio holds {HELD} images at a time; got {HELD + 1}.")


@contextlib.contextmanager
def running(*words: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A studio in a process of its own, and its port."""
    verb = ["studio", *map(str, words), "--port", "0", "--no-browser"]
    program = f"import sys; from trigpoint.app.cli import main; sys.exit(main({verb!r}))"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        yield child, int(urlsplit(address_in(child.stdout.readline() + child.stdout.readline())).port or 0)
    finally:
        child.kill()
        child.communicate()


def test_it_serves_until_ctrl_c(untrained: GeneratorRun, photos: Path) -> None:
    """As a person would: start it, look at the page, ask for a new appearance, and end it while the browser
    is still connected."""
    with running(untrained.folder, photos / "01.png") as (child, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/model")
        told = json.loads(connection.getresponse().read())
        (image,) = told["images"]
        assert (told["generator"], image["name"]) == (True, "01.png")
        connection.request("POST", "/api/render", json.dumps({"id": image["id"], "seed": 5}))
        with Image.open(io.BytesIO(connection.getresponse().read())) as picture:
            assert (picture.format, picture.size) == ("PNG", (32, 32))
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        connection.close()
        assert (child.returncode, out, err) == (0, "", "")


def test_who_has_not_finished_asking_does_not_keep_it(colour_run: Run) -> None:
    """SIGTERM while one client has sent half its headers, and others half their uploads."""
    upload = b"POST /api/images HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" + bytes(99)
    with running(colour_run.folder) as (child, port), contextlib.ExitStack() as stack:
        for sent in (b"GET / HTTP/1.1\r\nHost: local", *[upload] * 6):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            connection.sendall(sent)
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        asked.request("GET", "/api/model")
        assert asked.getresponse().status == 200  # so the others have been heard
        child.terminate()
        out, err = child.communicate(timeout=60)
        asked.close()
        assert (child.returncode, out, err) == (-signal.SIGTERM, "", "")


def test_answers_do_not_wait_for_the_client_s_acknowledgement() -> None:
    """Without TCP_NODELAY each costs 40 ms; asyncio sets it for listeners that name their protocol."""
    listener = studio.bind("127.0.0.1", 0)

    async def told() -> int:
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            heard.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(answer, sock=listener):
            with socket.create_connection(listener.getsockname()):
                return await heard

    assert asyncio.run(told())
