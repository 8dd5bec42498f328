"""`trigpoint studio`: drag landmarks in the browser."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class StudioOptions:
    """Open a page in the browser: drag an image's landmarks, and the image follows.

    Example: trigpoint studio faces-10 me.jpg you.jpg

    Only this computer can open the page, unless --host says otherwise; then its address carries a token.
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model. A run of `trigpoint generate train` adds a button for new
    appearances."""
    images: Positional[tuple[Path, ...]] = field(default_factory=tuple)
    """Images to begin with; more can be dropped onto the page."""
    port: int = 8642
    """The port to listen on; the next free one is taken if it is in use."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    no_browser: bool = False
    """Only print the address."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(StudioOptions, prog="trigpoint studio", args=argv)
    from trigpoint.app.cli.edit import read_photo
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.generator_run import is_generator
    from trigpoint.learning.editing.editor import Editor
    from trigpoint.learning.generation.sampler import Sampler

    try:
        import uvicorn

        from trigpoint.app.studio.server import HELD, Studio, create_app
        from trigpoint.app.studio.serving import LOOPBACK, configure
    except ImportError as error:
        missing = str(error.name).partition(".")[0]
        raise TrigpointError(f"The studio needs {missing}: pip install 'trigpoint[studio]'.") from None

    if len(args.images) > HELD:
        raise TrigpointError(f"The studio holds {HELD} images at a time; got {len(args.images)}.")
    own = args.host in LOOPBACK
    token = "" if own else secrets.token_urlsafe(18)
    hosts = LOOPBACK if own else LOOPBACK | {args.host.lower(), socket.gethostname().lower()}
    folder = Path(args.model)
    sampler = Sampler.load(folder) if is_generator(folder) else None
    editor = Editor(sampler.predictor) if sampler else Editor.load(args.model)
    studio = Studio(editor, token, hosts, sampler)
    for path in args.images:
        studio.open(path.name, read_photo(path))
    listener = bind(args.host, args.port)
    port = listener.getsockname()[1]
    shown = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
    say(f"The studio is at {address}", "Ctrl-C ends it.")
    if not args.no_browser:
        threading.Timer(0.5, lambda: webbrowser.open(address)).start()
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(configure(create_app(studio), studio.limits)).run(sockets=[listener])
    return 0


def bind(host: str, port: int) -> socket.socket:
    """A socket on the port, or on one of the next twenty if it is taken."""
    from trigpoint.core.errors import TrigpointError

    if not 0 <= port <= 65535:
        raise TrigpointError(f"--port must be between 0 and 65535; got {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + 20, 65535) + 1) if port else (0,):
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves
        # out TCP_NODELAY, and answers wait 40 ms for the client's next acknowledgement
        if os.name == "posix":  # elsewhere it would share a port that is in use
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
        except PermissionError:
            listener.close()
            raise TrigpointError(f"Port {candidate} needs more rights; choose one above 1023.") from None
        except OSError as error:
            listener.close()
            if error.errno not in (98, 48, 10048):  # in use, by the three families of systems
                raise TrigpointError(f"Cannot listen on {host}: {error.strerror}.") from None
            continue
        listener.listen(64)
        return listener
    raise TrigpointError(
        f"Ports {port} to {min(port + 20, 65535)} are all in use; choose another with --port."
    )
