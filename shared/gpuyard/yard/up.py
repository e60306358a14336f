"""`gpuyard up`: composes a yard, keeps it running, takes it down.

A process of its own (`python -m gpuyard.yard`) that imports little, because it is there for months.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from gpuyard.client import locate
from gpuyard.client.locate import RunningService, YardFile
from gpuyard.contracts.errors import Unavailable
from gpuyard.yard import logfile
from gpuyard.yard.departed import forget_departed
from gpuyard.yard.endpoints import HOST, NATS, NATS_HEALTH, Endpoints, settle
from gpuyard.yard.guard import guard
from gpuyard.yard.layout import Layout, possession, prepare
from gpuyard.yard.limits import raise_open_files
from gpuyard.yard.nats_server import find_binary, nats_program, version_of
from gpuyard.yard.options import Options
from gpuyard.yard.outcome import Ready, RunningYard, tell
from gpuyard.yard.processes import Program, Watched
from gpuyard.yard.services import service_environment, service_programs
from gpuyard.yard.settings import SERVICES
from gpuyard.yard.summary import render_summary

READY_TIMEOUT_S = 60.0
GRACE_S = 10.0
_ROTATE_EVERY_S = 60.0


async def serve(options: Options) -> None:
    """Run a yard until SIGTERM or SIGINT.

    Raises:
        Conflict: one runs in that directory already.
        NotFound: there is no nats-server.
        Unavailable: the directory, the port or a service can't be used; the message says which and why.

    """
    layout = prepare(Path(options.dir))
    with possession(layout):
        raise_open_files()
        binary = find_binary(options.nats_server)
        version_of(binary)
        endpoints = settle(layout.endpoints, (*SERVICES, NATS_HEALTH), options.port)
        environment = service_environment(dict(os.environ))
        server = nats_program(binary, layout, endpoints, environment)
        services = service_programs(options, layout, endpoints, environment)
        await Yard(options, layout, endpoints, (server, *services)).run()


class Yard:
    """A running yard: its processes, and what the world is told about them."""

    def __init__(
        self,
        options: Options,
        layout: Layout,
        endpoints: Endpoints,
        programs: tuple[Program, ...],
    ) -> None:
        self._options, self._layout, self._endpoints = options, layout, endpoints
        self._watched = [Watched(program, self._on_change) for program in programs]
        self._started_at_s = time.time()
        self._is_ready = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Start everything, watch it until a signal comes, stop everything."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        rotating = loop.create_task(self._rotate_logs(), name="rotate logs")
        guarding = loop.create_task(self._guard_server(), name="guard nats-server")
        try:
            await _unless(self._stop, self._start())
            await self._stop.wait()
        finally:
            guarding.cancel()
            rotating.cancel()
            await self._end()
        if not self._is_ready:
            raise Unavailable("the yard was stopped before it was ready", "Start it again with `gpuyard up`.")

    async def _start(self) -> None:
        server, *services = self._watched
        server.start()
        await server.wait_ready(READY_TIMEOUT_S)
        await self._forget_departed()
        for service in services:
            service.start()
        await asyncio.gather(*(service.wait_ready(READY_TIMEOUT_S) for service in services))
        self._is_ready = True
        self._write_down()
        self._announce()

    async def _forget_departed(self) -> None:
        environment = self._watched[0].program.environment
        with _said_if_failing("nodes that left can't be forgotten"):
            if not await forget_departed(self._layout, self._options.nodes, environment):
                narrate("Nodes that left could not be forgotten; the next start tries again.")

    async def _end(self) -> None:
        for watched in self._watched:
            await watched.let_go()
        await _unless(self._hurry, self._stop_in_order())
        for watched in self._watched:
            watched.kill()
            await watched.stop(GRACE_S)
        if self._is_ready:
            narrate("Stopped. Jobs that were running keep running; the next `gpuyard up` here adopts them.")

    async def _stop_in_order(self) -> None:
        for watched in reversed(self._watched):
            await watched.stop(GRACE_S)

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
            return
        narrate("\nStopping; once more to kill.")
        self._stop.set()

    def _on_change(self, what: str) -> None:
        if self._is_ready:
            narrate(what)
            with _said_if_failing("yard.json can't be written"):
                self._write_down()

    def _write_down(self) -> None:
        yard = YardFile(self._endpoints.url, os.getpid(), self._started_at_s, self._running())
        locate.save(self._layout.root, yard)

    def _running(self) -> dict[str, RunningService]:
        return {
            watched.name: RunningService(watched.pid, watched.program.health_port)
            for watched in self._watched
            if watched.pid is not None
        }

    def _announce(self) -> None:
        address = f"{HOST}:{self._endpoints.ports[NATS]}"
        yard = RunningYard(str(self._layout.root), os.getpid(), address, self._running())
        summary = render_summary(yard, self._options.nodes, time.time() - self._started_at_s)
        if self._options.as_json and self._options.ready_fd is None:
            print(msgspec.json.encode(yard).decode(), flush=True)
        else:
            narrate(summary)
        tell(self._options.ready_fd, Ready(yard, summary))

    async def _guard_server(self) -> None:
        port, store = self._endpoints.ports[NATS_HEALTH], self._layout.nats_store
        await guard(self._watched[0], port, store)

    async def _rotate_logs(self) -> None:
        logs = [self._layout.log("up"), *(watched.program.log for watched in self._watched)]
        while True:
            with _said_if_failing("a log can't be shortened"):
                for log in logs:
                    logfile.rotate(log)
            await asyncio.sleep(_ROTATE_EVERY_S)


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Do the work, but give it up as soon as `stop` is set."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait((working,))
    if not working.cancelled():
        working.result()


@contextmanager
def _said_if_failing(what: str) -> Iterator[None]:
    """A full disk must not end the watch over the processes."""
    try:
        yield
    except OSError as error:
        narrate(f"{what}: {error}")


def narrate(text: str) -> None:
    """Tell the person at the terminal, or the log; both may be gone by now."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
