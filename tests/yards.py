"""Yards for tests: the real `gpuyard up` and nats-server, with stand-ins for the four services.

A stand-in reads its settings, answers /readyz, ends at SIGTERM, and does as `behave` in its environment says.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpuyard.client import locate
from gpuyard.client.locate import YardFile
from gpuyard.yard import start
from gpuyard.yard.nodes import Node
from gpuyard.yard.options import Options
from gpuyard.yard.settings import SERVICES
from gpuyard.yard.stop import stop

GENEROUS_S = 60.0
_STAND_IN = """
import http.server, os, signal, subprocess, sys, tomllib

name = __package__.removeprefix("gpuyard_")
settings = tomllib.load(open(sys.argv[2], "rb"))
manner = os.environ.get(f"STAND_IN_{name.upper()}", "")
print(f"{name} is here", file=sys.stderr, flush=True)
if manner == "fail":
    sys.exit(f"{name} can't open its store")
signal.signal(signal.SIGTERM, signal.SIG_IGN if manner == "stubborn" else lambda *_: sys.exit(0))
if manner == "parent":
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open(os.environ["STAND_IN_PID_FILE"], "w").write(str(child.pid))

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if manner == "never" else 200)
        self.end_headers()
        self.wfile.write(b'{"ready": true, "why": ""}')

http.server.HTTPServer(("127.0.0.1", settings[name]["health_port"]), Health).serve_forever()
"""


class StandInYard:
    """A directory in which `gpuyard up` finds stand-ins; whatever runs there at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "yard"
        self._packages = folder / "packages"
        self.environment = {"PYTHONPATH": f"{self._packages}{os.pathsep}{os.pathsep.join(sys.path)}"}
        for name in SERVICES:
            package = self._packages / f"gpuyard_{name}"
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "__main__.py").write_text(_STAND_IN)

    def options(self, **changes: object) -> Options:
        return msgspec.structs.replace(Options(str(self.root), (Node("box"),)), **changes)

    def behave(self, service: str, manner: str, **more: str) -> None:
        """Let a stand-in `fail`, be `stubborn`, `never` get ready, or be a `parent`."""
        self.environment |= {f"STAND_IN_{service.upper()}": manner, **more}

    def up(self, **changes: object) -> YardFile:
        start.leave_behind(self.options(**changes), self.environment)
        return self.file

    async def spawn(self, **changes: object) -> asyncio.subprocess.Process:
        """Start `gpuyard up` in the foreground."""
        return await asyncio.create_subprocess_exec(
            *start.command(self.options(**changes)),
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | self.environment,
        )

    async def down(self) -> int | None:
        return await stop(self.root)

    def freeze(self, *names: str) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        for name in names:
            os.kill(self.file.services[name].pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End everything that may be left."""
        holder = locate.lock_holder(self.root)
        if holder:
            os.kill(holder, signal.SIGKILL)

    @property
    def file(self) -> YardFile:
        yard = locate.load(self.root)
        assert yard is not None
        return yard

    def log(self, name: str) -> str:
        return (self.root / "logs" / f"{name}.log").read_text()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, generously."""
    deadline_s = time.monotonic() + GENEROUS_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about"
        await asyncio.sleep(0.02)
