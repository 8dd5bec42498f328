"""The studio under use: the time from a drag to the new image in a browser, and twenty clients at once.

python benchmarks/studio.py IMAGE... [--model faces-10] [--drags 50] [--clients 20] [--seconds 30]

Needs Chromium and playwright for the drags.
"""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from tyro.conf import Positional

from tables import show


@dataclass(frozen=True)
class Options:
    images: Positional[tuple[Path, ...]]
    """Photos to open."""
    model: str = "faces-10"
    """A run folder, or the name of a shipped model."""
    drags: int = 50
    """How many drags in the browser."""
    clients: int = 20
    """How many clients drag at once."""
    seconds: float = 30.0
    """For how long."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    words = ["studio", options.model, *map(str, options.images), "--no-browser", "--port", "0"]
    server = subprocess.Popen([sys.executable, "-m", "trigpoint", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        port = int(address.rstrip("/").rpartition(":")[2])
        rows = [drags(address, options.drags), *crowd(port, server.pid, options.clients, options.seconds)]
    finally:
        server.terminate()
        server.wait()
    show(rows, options.json)


def drags(address: str, count: int) -> dict[str, Any]:
    """Median milliseconds from the pointer's move to the new image being shown."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(address)
        page.locator("html[data-ready]").wait_for(state="attached")
        page.locator("html[data-drawn]").wait_for(state="attached")
        dot = page.locator("#handles circle").nth(3).bounding_box()
        assert dot is not None
        x, y = dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for i in range(count):
            drawn = int(page.locator("html").get_attribute("data-drawn") or 0)
            page.mouse.move(x + (i % 10) * 3 - 15, y + (i % 7) * 3 - 9)
            page.locator(f'html[data-drawn="{drawn + 1}"]').wait_for(state="attached")
            times.append(float(page.locator("html").get_attribute("data-milliseconds") or "nan"))
        page.mouse.up()
        browser.close()
    return {"what": f"{count} drags, median ms", "value": statistics.median(times)}


def crowd(port: int, pid: int, clients: int, seconds: float) -> list[dict[str, Any]]:
    """Many clients at once: answers, failures, and the server's memory before, during and after."""
    model = json.loads(asked(port, "GET", "/api/model")[1])
    image = model["images"][0]
    for _ in range(20):  # what is loaded once is loaded before memory is looked at
        asked(port, "POST", "/api/render", {"id": image["id"], "landmarks": image["landmarks"]})
    before = memory(pid)
    answers: list[int] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            shift = 0.02 * ((turn + number) % 5 - 2)
            points = [[x + shift, y] for x, y in image["landmarks"]]
            try:
                status, body = asked(port, "POST", "/api/render", {"id": image["id"], "landmarks": points})
            except OSError:
                status, body = 0, b""
            answers.append(status if body.startswith(b"\x89PNG") else -status)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds * 0.9)
    during = memory(pid)
    for thread in threads:
        thread.join()
    time.sleep(5)
    good = sum(status == 200 for status in answers)
    return [
        {"what": f"{clients} clients for {seconds:g} s, pictures", "value": good},
        {"what": "failed requests", "value": len(answers) - good},
        {"what": "memory before, MB", "value": before},
        {"what": "memory during, MB", "value": during},
        {"what": "memory after, MB", "value": memory(pid)},
    ]


def asked(port: int, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def memory(pid: int) -> int:
    """Resident memory of a process, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    main()
