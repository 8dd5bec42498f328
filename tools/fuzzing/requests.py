"""Requests to the studio: uploads, and JSON that asks for pictures. The app is called as by a server."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.made import made, model
from fuzzing.mutate import CELLS, VALUES, bent_json, one_of, scrambled
from fuzzing.pictures import PICTURES, large, write_few
from fuzzing.target import Target, files, only, some

PLACES = [[0.25, 0.3], [0.7, 0.35], [0.5, 0.55], [0.4, 0.8]]
HOST = {"host": "127.0.0.1"}


@cache
def studio(name: str) -> Any:
    from trigpoint.app.studio.server import Studio
    from trigpoint.learning.editing.editor import Editor
    from trigpoint.learning.generation.sampler import Sampler

    sampler = Sampler.load(made("generator")) if name == "generator" else None
    return Studio(Editor(sampler.predictor) if sampler else Editor.load(model()), sampler=sampler)


def ask(name: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of the answer."""
    from trigpoint.app.studio.server import create_app

    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw,
        "raw_path": raw.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"),
        "root_path": "",
        "headers": [
            (key.lower().encode("latin1", "replace"), value.encode("utf-8", "replace"))
            for key, value in (HOST | headers).items()
        ],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }
    parts = [body[start : start + 65_536] for start in range(0, len(body), 65_536)] or [b""]
    said: list[Any] = []

    async def receive() -> Any:
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(create_app(studio(name))(scope, receive, send))
    status = next(message["status"] for message in said if message["type"] == "http.response.start")
    return status, b"".join(message.get("body", b"") for message in said)


def checked(status: int, body: bytes) -> None:
    """Refusals are one sentence of JSON."""
    from trigpoint.core.errors import TrigpointError

    if status in (404, 405) and not body.startswith(b"{"):
        raise TrigpointError(f"{status}: {body.decode()[:100]}")
    if status >= 500:
        raise AssertionError(f"status {status}: {body[:300]!r}")
    if status >= 400:
        raise TrigpointError(f"{status}: {json.loads(body)['error'] if body else 'gone'}")


def opened(name: str) -> str:
    """The id of an image that is open."""
    from fuzzing.made import photo

    state = studio(name)
    state.limiter = None  # of an event loop that is gone
    return str(next(iter(state.opened), None) or state.open("a.png", photo(0)))


def write_requests(folder: Path) -> None:
    common = {"id": "ID", "landmarks": PLACES, "appearance": "ID", "share": 0.5}
    for index, more in enumerate(
        ({"kind": "decoded"}, {"kind": "warped"}, {"kind": "blended"}, {"kind": "maps"})
    ):
        words = {"path": "/api/render", "method": "POST", "headers": {}, "body": common | more}
        (folder / f"render-{index}.json").write_text(json.dumps(words))
    for ending in ("gif", "mp4", "png"):
        words = {
            "path": "/api/morph",
            "method": "POST",
            "headers": {},
            "body": common | {"format": ending, "seed": 3},
        }
        (folder / f"morph-{ending}.json").write_text(json.dumps(words))
    words = {"path": "/api/images/ID/square", "method": "GET", "headers": {"x-token": "a"}, "body": {}}
    (folder / "picture.json").write_text(json.dumps(words))


PATHS = (
    "/",
    "/api/model",
    "/static/../server.py",
    "/static/%2e%2e/server.py",
    "/api/images/ID/photo",
    "/api/images/x/y",
    "//",
    "/api/render/",
    "/static/" + "x" * 3000,
    "/api/images/\u202e/square",
    "/static/\0",
    "/?token=\xff",
)


def bent_request(random: Random, data: bytes) -> bytes:
    """Its JSON as text, where the body may be no JSON any more."""
    words = json.loads(data)
    how = random.randrange(10)
    if how == 0:
        words["path"] = random.choice(PATHS)
    elif how == 1:
        words["method"] = random.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "", "X" * 300))
    elif how == 2:
        names = (
            "host",
            "origin",
            "x-token",
            "content-length",
            "x-name",
            "content-type",
            "range",
            "if-none-match",
        )
        words["headers"][random.choice(names)] = random.choice(
            (*CELLS[:30], "127.0.0.1:80", "[::1", "evil.example")
        )
    body = json.dumps(words["body"]).encode()
    if how > 2:
        body = one_of(*[bent_json] * 6, scrambled)(random, body)
    if how == 9:
        number = random.choice((*VALUES[:20], "4", "-4", "4.000001", "1e-300"))
        body = json.dumps(words["body"]).encode().replace(b"0.25", number.encode())
    words["body"] = body.decode("latin1")
    return json.dumps(words).encode()


def one(random: Random, folder: Path) -> None:
    only({"*.json": bent_request})(random, folder)


def requested(folder: Path, out: Path) -> None:
    (path,) = folder.iterdir()
    words = json.loads(path.read_text())
    name = "generator" if "morph" in path.name else "model"
    number = opened(name)
    body = words["body"].encode("latin1").replace(b'"ID"', json.dumps(number).encode())
    checked(*ask(name, words["method"], words["path"].replace("ID", number), body, words["headers"]))


def uploaded(folder: Path, out: Path) -> None:
    from trigpoint.core.errors import TrigpointError

    for path in sorted(folder.iterdir()):
        opened("model")
        try:
            checked(*ask("model", "POST", "/api/images", path.read_bytes(), {"x-name": path.name}))
        except TrigpointError as error:
            if str(error).startswith("413"):
                raise
            raise TrigpointError(str(error)) from None


TARGETS = {
    "requests": Target(write_requests, one, requested, r"is not JSON|must be a JSON object", 12),
    "uploads": Target(
        write_few, some(files(PICTURES), files(PICTURES), only({"*.*": large})), uploaded, r"expected JPEG", 4
    ),
}
