"""The studio's server: a few careful endpoints around an Editor.

It holds the images that were opened, as codes, in memory; the page sends landmarks and gets pictures. No path
from a client is ever opened, bodies and pixels are bounded before anything is decoded, and only a few decodes
run at once: the others wait.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import cv2
import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from trigpoint.app.studio.serving import LIMITS, LOOPBACK, Limits, Refused, announced, body, ours, payload
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import extract
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.sources.images import read_image, to_channels
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.photo import put_back
from trigpoint.learning.editing.render import enlarge, gif, mp4, strip
from trigpoint.learning.generation.sampler import Sampler

PAGE = Path(__file__).parent / "page"
MAX_BYTES = 24_000_000  # of an upload
MAX_PIXELS = 40_000_000  # of an uploaded image
HELD = 48  # images in memory; the one used longest ago goes
SHOWN = 1600  # pixels: the longer edge of a photo that is sent back
SQUARE = 384  # pixels: the edge of the crop on which the page draws the landmarks
DECODES = 2  # at once
FRAMES = 40  # of a saved morph


@dataclass(frozen=True)
class Opened:
    """An image that somebody opened."""

    name: str
    size: tuple[int, int]  # width and height before it was shrunk
    photo: NDArray[np.uint8]  # shrunk to SHOWN
    square: NDArray[np.uint8]  # as the model sees it
    code: Code
    turn: int  # which image it was to be opened


class Studio:
    """The state behind the page: the model, and the images that are open."""

    def __init__(
        self,
        editor: Editor,
        token: str = "",
        hosts: frozenset[str] = LOOPBACK,
        sampler: Sampler | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.editor, self.token, self.hosts = editor, token, hosts
        self.sampler = sampler  # of a model that comes with a generator
        self.opened: OrderedDict[str, Opened] = OrderedDict()
        self.turns = count()
        self.lock = threading.Lock()  # images are opened in other threads than they are asked for
        self.limits = limits
        self.bodies = asyncio.Semaphore(limits.bodies)
        self.limiter: anyio.CapacityLimiter | None = None  # needs a running loop
        self.decoding = asyncio.Semaphore(
            1
        )  # uploads, one by one: each may take all the memory it is allowed

    def open(self, name: str, pixels: NDArray[np.uint8]) -> str:
        """Encode an image and keep it; returns its id."""
        photo = to_channels(shrunk(pixels), 3)
        square, place = self.editor.prepare(photo)
        code = self.editor.encode_squares(square[None], [place])[0]
        number = secrets.token_urlsafe(9)
        with self.lock:
            size = (pixels.shape[1], pixels.shape[0])
            self.opened[number] = Opened(name, size, photo, square, code, next(self.turns))
            while len(self.opened) > HELD:
                self.opened.popitem(last=False)
        return number

    def get(self, number: object) -> Opened:
        with self.lock:
            if not isinstance(number, str) or number not in self.opened:
                raise Refused(404, "That image is not open any more; open it again.")
            self.opened.move_to_end(number)
            return self.opened[number]

    def describe(self, number: str, image: Opened) -> dict[str, Any]:
        """What the page must know of an image; the box is in pixels of the image as it was opened."""
        place, (width, height) = image.code.place, image.size
        across, down = width / image.photo.shape[1], height / image.photo.shape[0]
        return {
            "id": number,
            "name": image.name,
            "width": width,
            "height": height,
            "box": [place.x * across, place.y * down, place.width * across, place.height * down],
            "landmarks": image.code.landmarks.round(5).tolist(),
        }

    async def work(self, job: Callable[[], Any]) -> Any:
        """Run a job in one of a few threads; the event loop goes on."""
        if self.limiter is None:
            self.limiter = anyio.CapacityLimiter(DECODES)
        return await anyio.to_thread.run_sync(job, limiter=self.limiter)

    # What the page asks for

    async def model(self, request: Request) -> Response:
        config = self.editor.predictor.config.model
        names = self.editor.predictor.names
        with self.lock:
            images = sorted(self.opened.items(), key=lambda entry: entry[1].turn)
        return JSONResponse(
            {
                "landmarks": config.landmarks,
                "names": list(names),
                "colours": [hexadecimal(colour) for colour in colours(config.landmarks)],
                "size": config.image_size,
                "descriptors": bool(config.descriptor_size),
                "generator": self.sampler is not None,
                "images": [self.describe(number, image) for number, image in images],
            }
        )

    async def upload(self, request: Request) -> Response:
        name = unquote(request.headers.get("x-name", "image"))[:80]
        announced(request, MAX_BYTES)  # too large a body need not wait
        try:
            await asyncio.wait_for(self.bodies.acquire(), self.limits.body)
        except TimeoutError:
            raise Refused(503, "Too many uploads are on their way; try again.") from None
        try:
            data = await body(request, MAX_BYTES, self.limits.body)
            if not data:
                raise Refused(400, "The upload is empty.")
            async with self.decoding:
                number = await self.work(lambda: self.open(name, decode_upload(data)))
        finally:
            self.bodies.release()
        return JSONResponse(self.describe(number, self.get(number)), 201)

    async def picture(self, request: Request) -> Response:
        """The square part of the photo that the model sees, as sharp as the page shows it, or the photo."""
        image, kind = self.get(request.path_params["number"]), request.path_params["kind"]
        if kind == "photo":
            return await self.encoded(image.photo, photo=True)
        if kind == "square":
            return await self.encoded(await self.work(lambda: extract(image.photo, image.code.place, SQUARE)))
        raise Refused(404, "There are two pictures of an image: square and photo.")

    async def render(self, request: Request) -> Response:
        """Landmarks (and an appearance) to a picture."""
        started = time.perf_counter()
        asked = await payload(request, self.limits.body)
        image = self.get(asked.get("id"))
        code, make = self.code_of(image, asked), self.maker(asked)
        kind = asked.get("kind", "decoded")
        if kind == "decoded":
            pixels = (await self.work(lambda: make([code])))[0]
        elif kind in ("warped", "blended"):
            pixels = await self.work(
                lambda: put_back(self.editor, image.photo, image.code, code, blend=kind == "blended")
            )
        elif kind == "maps":
            pixels = await self.work(lambda: self.maps(image))
        else:
            raise Refused(422, "kind must be decoded, warped, blended or maps.")
        response = await self.encoded(pixels, photo=kind in ("warped", "blended"))
        response.headers["x-milliseconds"] = f"{1000 * (time.perf_counter() - started):.1f}"
        return response

    async def morph(self, request: Request) -> Response:
        """A saved animation from the image as it is to the landmarks given."""
        asked = await payload(request, self.limits.body)
        image, ending = self.get(asked.get("id")), asked.get("format")
        writers = {"gif": (gif, "image/gif"), "mp4": (mp4, "video/mp4"), "png": (strip, "image/png")}
        if not isinstance(ending, str) or ending not in writers:
            raise Refused(422, "format must be gif, mp4 or png.")
        goal = self.code_of(image, asked)
        decode = self.maker(asked)
        write, kind = writers[ending]
        count = 9 if ending == "png" else FRAMES

        def make() -> bytes:
            shares = np.linspace(0, 1, count)
            codes = [image.code.towards(goal, float(share), None, "blend") for share in shares]
            frames = [enlarge(frame, 256) for frame in decode(codes)]
            return bytes(write(frames, 20.0))

        return Response(await self.work(make), media_type=kind)

    def maker(self, asked: dict[str, Any]) -> Callable[[Sequence[Code]], NDArray[np.uint8]]:
        """What turns codes into pictures: the decoder, or with a `seed` the generator."""
        seed, sampler = asked.get("seed"), self.sampler
        if seed is None:
            return self.editor.decode_many
        if sampler is None:
            raise Refused(422, "This model comes without a generator: it makes no new appearance.")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
            raise Refused(422, "seed must be a whole number between 0 and 2147483647.")

        def make(codes: Sequence[Code]) -> NDArray[np.uint8]:
            latents = np.repeat(sampler.latents(1, seed), len(codes), axis=0)
            return sampler.generate(np.stack([code.landmarks for code in codes]), latents)

        return make

    def code_of(self, image: Opened, asked: dict[str, Any]) -> Code:
        """The code that a request describes: its landmarks, and how far the appearance is another image's."""
        code = image.code
        if asked.get("landmarks") is not None:
            code = code.with_landmarks(landmarks_of(asked["landmarks"], len(code.landmarks)))
        if asked.get("appearance") is not None:
            share = asked.get("share", 1.0)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise Refused(422, "share must be a number between 0 and 1.")
            other = self.get(asked["appearance"]).code
            code = code.towards(other, float(share), (), "blend")
        return code

    def maps(self, image: Opened) -> NDArray[np.uint8]:
        """The detection maps, each landmark's in its colour, over the square."""
        from trigpoint.app.report.pictures import map_picture

        found = self.editor.predictor.backend.maps(image.square[None])[0]
        glow = map_picture(np.rint(found * 255).astype(np.uint8))
        config = self.editor.predictor.config.model
        margin = round((config.padded_size - config.image_size) / 2 / config.padded_size * len(glow))
        glow = enlarge(
            np.ascontiguousarray(glow[margin : len(glow) - margin, margin : len(glow) - margin]), 256
        )
        return np.maximum(glow, (enlarge(image.square, 256) * 0.35).astype(np.uint8))

    async def encoded(self, pixels: NDArray[np.uint8], photo: bool = False) -> Response:
        data = await self.work(lambda: picture_bytes(pixels, photo))
        return Response(data, media_type="image/jpeg" if photo else "image/png")


def create_app(studio: Studio) -> ASGIApp:
    async def index(request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def static(request: Request) -> Response:
        """One of the page's few files; a name is looked up, not joined to a path."""
        file = {path.name: path for path in PAGE.iterdir()}.get(request.path_params["name"])
        return FileResponse(file) if file else PlainTextResponse("Not Found", 404)

    routes = [
        Route("/", guarded(studio, index)),
        Route("/api/model", guarded(studio, studio.model)),
        Route("/api/images", guarded(studio, studio.upload), methods=["POST"]),
        Route("/api/images/{number}/{kind}", guarded(studio, studio.picture)),
        Route("/api/render", guarded(studio, studio.render), methods=["POST"]),
        Route("/api/morph", guarded(studio, studio.morph), methods=["POST"]),
        Route("/static/{name}", static),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # a redirect would repeat whatever host was asked for
    return ours(app, studio.hosts, any_address=bool(studio.token))


Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(studio: Studio, endpoint: Endpoint) -> Endpoint:
    """Only for those who have the token, and every refusal as JSON."""

    async def answer(request: Request) -> Response:
        try:
            given = request.headers.get("x-token") or request.query_params.get("token", "")
            if studio.token and not secrets.compare_digest(given.encode(), studio.token.encode()):
                raise Refused(401, "The token is missing or wrong; use the address that the studio printed.")
            return await endpoint(request)
        except Refused as refused:
            return refused.response()
        except UnreadableImage as error:
            return Refused(415, f"This is {error}.").response()
        except TrigpointError as error:
            return Refused(422, str(error)).response()
        except ClientDisconnect:
            return Response(status_code=400)

    return answer


def landmarks_of(points: object, count: int) -> NDArray[np.float64]:
    """What a request says of landmarks as (count, 2)."""
    try:
        found = np.array(points)
    except (TypeError, ValueError, OverflowError):  # ragged, or deeper than an array can be
        found = np.empty(0)
    if found.dtype.kind in "iuf" and found.shape == (count, 2):
        landmarks = found.astype(np.float64)
        if (np.abs(landmarks) <= 4).all():  # which NaN is not, either
            return landmarks
    raise Refused(422, f"landmarks must be {count} pairs of numbers between -4 and 4.")


def decode_upload(data: bytes) -> NDArray[np.uint8]:
    """Pixels of an uploaded file; its size is looked at before anything is decoded."""
    return read_image(io.BytesIO(data), most=MAX_PIXELS)


def shrunk(photo: NDArray[np.uint8]) -> NDArray[np.uint8]:
    scale = SHOWN / max(photo.shape[:2])
    if scale >= 1:
        return photo
    size = (max(8, round(photo.shape[1] * scale)), max(8, round(photo.shape[0] * scale)))
    small = cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8).reshape(size[1], size[0], -1)


def picture_bytes(pixels: NDArray[np.uint8], photo: bool) -> bytes:
    bgr = cv2.cvtColor(np.ascontiguousarray(to_channels(pixels, 3)), cv2.COLOR_RGB2BGR)
    ending, options = (
        (".jpg", [cv2.IMWRITE_JPEG_QUALITY, 92]) if photo else (".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])
    )
    return bytes(cv2.imencode(ending, bgr, options)[1].tobytes())
