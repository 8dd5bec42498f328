"""A studio of a small model behind a real server, and a plain HTTP client for it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import uvicorn

from trigpoint.app.cli.studio import bind
from trigpoint.app.studio.server import Studio, create_app
from trigpoint.app.studio.serving import configure
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.runs import Run
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.generation.networks import Adversaries
from trigpoint.learning.generation.sampler import Sampler
from trigpoint.learning.generation.train import recalibrate


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    def refused(self, status: int, words: str) -> bool:
        """This status, and one sentence with these words in it."""
        assert self.status == status, self
        sentence = self.json["error"]
        assert words in sentence, sentence
        assert sentence.endswith("."), sentence
        assert "\n" not in sentence
        assert "Traceback" not in sentence
        return True


@dataclass(frozen=True)
class Served:
    """A studio that answers on a port of this computer."""

    studio: Studio
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> Answer:
        """The path goes out as it is written. With a body it is a POST; a dict is sent as JSON."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()


@contextmanager
def serving(studio: Studio) -> Iterator[Served]:
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(configure(create_app(studio), studio.limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Served(studio, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def serve() -> Callable[[Studio], AbstractContextManager[Served]]:
    return serving


@pytest.fixture(scope="session")
def editor(colour_run: Run) -> Editor:
    """Images of 32 pixels, 4 landmarks, descriptors of 4 numbers."""
    return Editor.load(colour_run.folder)


@pytest.fixture(scope="session")
def sampler(editor: Editor) -> Sampler:
    """A small generator for the same landmarks. It is not trained, but its batch norm is calibrated: so its
    pictures have contrast, and differ with landmarks and latents."""
    settings = GeneratorConfig(latent=8, width=8, critic_width=8, critic_hidden=8)
    generator = Adversaries(settings, editor.predictor.config.model).generator
    recalibrate(generator, torch.rand(64, 4, 2, generator=torch.Generator().manual_seed(0)), settings)
    return Sampler(generator, editor.predictor, settings)
