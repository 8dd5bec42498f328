"""The studio's server among clients that ask badly, slowly or never: it goes on, and waits only so long."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trigpoint.app.studio.server import Studio
from trigpoint.app.studio.serving import Limits
from trigpoint.learning.editing.editor import Editor

HOST = b"Host: localhost\r\n"
UPLOAD = b"POST /api/images HTTP/1.1\r\n" + HOST


@pytest.fixture
def limited(serve: Callable[..., Any], editor: Editor) -> Any:
    """Serves a studio with these limits."""
    return lambda **limits: serve(Studio(editor, limits=Limits(**limits)))


def connected(served: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=60)


def rest(connection: socket.socket) -> bytes:
    """What still comes, up to the end of the connection."""
    answer = b""
    with suppress(ConnectionError):
        while got := connection.recv(65536):
            answer += got
    return answer


def photo(edge: int = 40) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (edge, edge, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def test_every_answer_has_the_headers(
    limited: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Studio, "morph", broken)
    statuses = []
    with limited(connections=2) as served:

        def ask(request: bytes) -> None:
            with connected(served) as connection:
                connection.sendall(request + b"Connection: close\r\n\r\n")
                status, _, answer = rest(connection).decode().partition("\r\n")
            statuses.append(int(status.split()[1]))
            headers = [line.lower() for line in answer.partition("\r\n\r\n")[0].splitlines()]
            for line in ("x-content-type-options: nosniff", "cache-control: no-store"):
                assert headers.count(line) == 1, (statuses, headers)
            assert headers.count("referrer-policy: no-referrer") == 1  # the address may hold a token
            (policy,) = [line for line in headers if line.startswith("content-security-policy: ")]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy

        for path in (b"/", b"/static/studio.js", b"/static/studio.css", b"/static/nothing", b"/nothing"):
            ask(b"GET " + path + b" HTTP/1.1\r\n" + HOST)
        ask(b"DELETE / HTTP/1.1\r\n" + HOST)
        ask(b"GET /static/studio.js HTTP/1.1\r\nHost: evil.example\r\n")
        ask(UPLOAD + b"Content-Length: 99999999\r\n")
        ask(b"POST /api/morph HTTP/1.1\r\n" + HOST)
        ask(b"this is no HTTP\r\n")
        with connected(served):
            ask(b"GET / HTTP/1.1\r\n" + HOST)
    assert statuses == [200, 200, 200, 404, 404, 405, 403, 413, 500, 400, 503]


def test_nothing_but_http_after_an_answer_ends_the_connection(
    limited: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The body of a refused request turns out to be nonsense."""
    with limited() as served, connected(served) as connection:
        connection.sendall(b"POST /nothing HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"no chunk\r\n")
        rest(connection)
        assert served.ask("/api/model").status == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: loc",
        b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\nGET / HTTP/1.1\r\nHost: loc",
        b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 50\r\n\r\nhalf",
    ],
    ids=["nothing", "half a header", "half a second header", "half a body that was refused"],
)
@pytest.mark.parametrize("drip", [False, True], ids=["stalled", "dripping"])
def test_who_does_not_finish_a_request_is_let_go(limited: Any, sent: bytes, drip: bool) -> None:
    with limited(head=0.3) as served, connected(served) as connection:
        connection.sendall(sent)
        if not drip:
            rest(connection)
            return
        end = time.monotonic() + 30
        with suppress(ConnectionError):
            while time.monotonic() < end:
                time.sleep(0.05)
                connection.sendall(b"x")
            pytest.fail("still listening")


@pytest.mark.parametrize("path", [b"/api/images", b"/api/render", b"/api/morph"])
def test_a_body_that_stalls_is_given_up(limited: Any, path: bytes) -> None:
    with limited(head=0.3, body=0.3) as served, connected(served) as connection:
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 50\r\n\r\nhalf")
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"The request did not arrive within 0.3 seconds." in answer
        assert served.ask("/api/model").status == 200


def test_an_answer_that_nobody_fetches_is_given_up(limited: Any) -> None:
    """Its connection counts, until then, among those that are open."""
    with limited(head=60, body=0.3, connections=3) as served:
        number = served.ask("/api/images", photo(1200)).json["id"]
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", served.port))
            request = f"GET /api/images/{number}/photo HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            connection.sendall(request * 30)
            assert connection.recv(12) == b"HTTP/1.1 200"
            with connected(served):
                assert comes_to_answer(served)


def comes_to_answer(served: Any) -> bool:
    end = time.monotonic() + 30
    while served.ask("/api/model").status != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    return True


def test_too_many_connections_are_refused(limited: Any) -> None:
    with limited(connections=3) as served:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(connected(served))
            assert served.ask("/api/model").status == 503
        assert comes_to_answer(served)


def test_still_more_connections_are_not_heard(limited: Any) -> None:
    with limited(connections=3) as served:
        with ExitStack() as stack:
            connections = [stack.enter_context(connected(served)) for _ in range(10)]
            for late in connections[6:]:
                assert rest(late) == b""
            connections[5].sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert connections[5].recv(65536).startswith(b"HTTP/1.1 503 ")
        assert comes_to_answer(served)


def test_uploads_wait_for_their_turn(limited: Any) -> None:
    data = photo()
    whole = UPLOAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(data) + data
    with limited(bodies=1) as served, connected(served) as first, connected(served) as second:
        first.sendall(whole[:-1])
        assert served.ask("/api/model").status == 200  # so the first has been heard
        second.sendall(whole)
        second.settimeout(0.5)
        with pytest.raises(TimeoutError):
            second.recv(1)
        second.settimeout(60)
        first.sendall(whole[-1:])
        for connection in (first, second):
            assert rest(connection).startswith(b"HTTP/1.1 201 ")


def test_an_upload_whose_turn_does_not_come_is_refused(limited: Any) -> None:
    with limited(bodies=0, body=0.1) as served:
        assert served.ask("/api/images", photo()).refused(
            503, "Too many uploads are on their way; try again."
        )
