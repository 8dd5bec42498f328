"""Runs `trigpoint` in child processes that share one import of torch, and stops them where a test says.

    python driver.py PLAN.json

The plan is a list of {"argv": [...], "output": FILE} with, optionally, "stop": {"signal": NAME, "at":
"module:name", "call": n, "when": "before" or "after"}: the child sends itself the signal at the n-th
call of that function; or with "stop": {"signal": NAME, "log": FILE, "lines": n}: it is sent from
outside once the log has so many lines. Prints the list of exit codes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch._dynamo  # the optimiser imports it: once here, not in every child

from trigpoint.app.cli import main
from trigpoint.learning.training import session

session.CHECKPOINT_SECONDS = 0.0  # a checkpoint after every step
session.LOG_TIMES = 10


def send_at_call(stop: dict[str, Any]) -> None:
    """Wrap the function so that its n-th call sends this process the signal."""
    module_name, _, path = stop["at"].partition(":")
    *parents, name = path.split(".")
    holder: Any = importlib.import_module(module_name)
    for parent in parents:
        holder = getattr(holder, parent)
    original, calls = getattr(holder, name), 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        now = calls == stop["call"]
        if now and stop["when"] == "before":
            os.kill(os.getpid(), getattr(signal, stop["signal"]))
        result = original(*args, **kwargs)
        if now and stop["when"] == "after":
            os.kill(os.getpid(), getattr(signal, stop["signal"]))
        return result

    setattr(holder, name, wrapped)


def run(job: dict[str, Any]) -> int:
    stop = job.get("stop")
    child = os.fork()
    if child == 0:
        code = 99
        # A shell starts its background jobs with Ctrl-C ignored, and with it all tests below it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with (
                open(job["output"], "w") as output,
                contextlib.redirect_stdout(output),
                contextlib.redirect_stderr(output),
            ):
                if stop is not None and "at" in stop:
                    send_at_call(stop)
                code = main(job["argv"])
        finally:
            os._exit(code)
    if stop is not None and "log" in stop:
        log = Path(stop["log"])
        while not log.is_file() or log.read_bytes().count(b"\n") < stop["lines"]:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(child, getattr(signal, stop["signal"]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps([run(job) for job in json.loads(Path(sys.argv[1]).read_text())]))
