"""How the studio is served: to whom, with which headers, and for how long it waits for a client.

Whoever reaches the port may open connections and leave them half-way. Each phase that is the client's (the
headers, the body, fetching the answer) has a time limit; connections and uploads in memory are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import json
import re
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_JSON = 100_000
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# With every answer, also one to what is no HTTP. The page's pictures are blobs, and are saved from there.
HEADERS = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),  # the address may hold a token
    ("cross-origin-resource-policy", "same-origin"),
]


@dataclass(frozen=True)
class Limits:
    """How long, in seconds, and how many."""

    head: float = 10  # for a request's headers
    body: float = 60  # for its body, for an upload's turn, and to fetch the answer
    end: int = 5  # for pictures that are being made when the studio ends
    connections: int = 100  # more get 503, and twice as many are not even heard
    bodies: int = 4  # uploads in memory; the others wait


LIMITS = Limits()


class Refused(Exception):
    """A request that gets a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence

    def response(self) -> Response:
        return JSONResponse({"error": self.sentence}, self.status)


def configure(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """What uvicorn needs to know."""
    return uvicorn.Config(
        app,
        http=type("LimitedConnection", (Connection,), {"limits": limits}),
        ws="none",
        lifespan="off",
        log_level="error",  # not a line for each odd request
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=HEADERS,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=limits.end,
    )


class Connection(H11Protocol):
    """A connection that waits only so long: uvicorn has a limit between requests, but none within them."""

    limits = LIMITS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.asking = self.loop.call_later(self.limits.head, transport.close)
        self.fetching = self.loop.call_later(self.limits.body, transport.abort)
        self.fetching.cancel()
        if len(self.connections) > 2 * self.limits.connections:
            transport.abort()
        transport.set_write_buffer_limits(0)  # paused means that something was not fetched yet

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.watch()

    def watch(self) -> None:
        """The clock runs while the client owes headers, or a body that is not read because it was refused."""
        state = self.conn.their_state
        refused = self.cycle is not None and self.cycle.response_complete
        if not (state is h11.IDLE or (state is h11.SEND_BODY and refused)):
            self.asking.cancel()
        elif self.asking.cancelled():
            self.asking = self.loop.call_later(self.limits.head, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.fetching = self.loop.call_later(self.limits.body, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.fetching.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.asking.cancel()
        self.fetching.cancel()

    def shutdown(self) -> None:
        """The studio ends: pictures are still made, but nothing more is read."""
        super().shutdown()
        if self.cycle is not None and self.cycle.more_body:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """To what is no HTTP. uvicorn's own has no headers, and fails where an answer was already given."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = Refused(400, msg).response()
            headers = [*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def ours(app: ASGIApp, hosts: frozenset[str], any_address: bool) -> ASGIApp:
    """The app, for callers who use a name that is ours; whatever they ask for, the page's script included.

    Others may call by any of our addresses: a page that rebinds its name to one still sends the name.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Request(scope).headers
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        name = re.sub(r":\d*$", "", host).strip("[]")
        if name not in hosts and not (any_address and is_address(name)):
            refused = Refused(403, "This studio does not answer to that host name.")
        elif origin is not None and origin.partition("://")[2] != host:
            refused = Refused(403, "Requests from other pages are not answered.")
        else:
            with contextlib.suppress(
                asyncio.CancelledError
            ):  # the studio ends; uvicorn would print a traceback
                await app(scope, receive, send)
            return
        await refused.response()(scope, receive, send)

    return answer


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def announced(request: Request, most: int) -> None:
    """Refuse a body that says it is too large."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise too_large(most)


def too_large(most: int) -> Refused:
    return Refused(413, f"More than {most / 1e6:g} MB are not accepted.")


async def body(request: Request, most: int, seconds: float) -> bytes:
    """The request's body, refused as soon as it is too large or too late."""
    announced(request, most)
    found = io.BytesIO()  # which gives its bytes without a copy
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                if found.tell() + len(part) > most:
                    raise too_large(most)
                found.write(part)
    except TimeoutError:
        raise Refused(408, f"The request did not arrive within {seconds:g} seconds.") from None
    return found.getvalue()


async def payload(request: Request, seconds: float) -> dict[str, Any]:
    try:
        found = json.loads(await body(request, MAX_JSON, seconds))
    except (ValueError, RecursionError):
        raise Refused(400, "The request is not JSON.") from None
    if not isinstance(found, dict):
        raise Refused(400, "The request must be a JSON object.")
    return found
