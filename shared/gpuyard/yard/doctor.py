"""`gpuyard doctor`: looks at the machine and at the yard, and says what to do about what is wrong."""

import asyncio
import datetime
import json
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from gpuyard.bus.port import Bus
from gpuyard.client import locate
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.subjects import STATE_STREAM
from gpuyard.yard.check import Check, fail, ok, warn
from gpuyard.yard.endpoints import NATS
from gpuyard.yard.layout import Layout
from gpuyard.yard.machine import examine_machine
from gpuyard.yard.probe import ask_service
from gpuyard.yard.settings import SERVICES

_TIMEOUT_S = 5.0
_TOLERATED_S = 1.0


async def examine(named: str | None) -> list[Check]:
    """Look at everything that can be looked at, whether a yard runs or not.

    Args:
        named: The yard's directory, if the user gave one.

    """
    place = locate.meant_or_here(named)
    store = Path(locate.DEFAULT_DIR) if isinstance(place, str) else place
    checks = await asyncio.to_thread(lambda: list(examine_machine(store.absolute())))
    if isinstance(place, str):
        checks = [check for check in checks if check.name != NATS]  # it runs elsewhere
    return [*checks, *[check async for check in _examine_yard(place)]]


async def _examine_yard(place: Path | str) -> AsyncIterator[Check]:
    try:
        address = locate.Address(place) if isinstance(place, str) else locate.address_of(place)
    except GpuyardError as error:
        yield warn("yard", error.message, error.hint)
        return
    yield ok("yard", f"runs in {address.dir}" if address.dir else "is elsewhere, named by its URL")
    for check in await _bus(address):
        yield check
    if address.dir is not None:
        yard = locate.load(address.dir)
        for check in await asyncio.gather(*(_service(name, yard, address.dir) for name in SERVICES)):
            yield check


async def _bus(address: locate.Address) -> Iterable[Check]:
    from gpuyard.bus import nats_bus  # noqa: PLC0415 - a tenth of a second

    try:
        async with nats_bus.connect(address.url, name="doctor", connect_timeout_s=_TIMEOUT_S) as bus:
            return [ok("bus", "answers"), await _clock(bus)]
    except GpuyardError as error:
        log = f" See {Layout(address.dir).log('nats-server')}." if address.dir else ""
        return [fail("bus", f"does not answer: {error.message}", f"Is the nats-server alive?{log}")]


async def _clock(bus: Bus) -> Check:
    """Compare clocks over the server's answer to a question about a stream, which holds its time."""
    asked_at_s = time.time()
    answer = await bus.request(f"$JS.API.STREAM.INFO.{STATE_STREAM.name}", b"", timeout_s=_TIMEOUT_S)
    middle_s = (asked_at_s + time.time()) / 2
    text = json.loads(answer.payload).get("ts")
    if text is None:
        return warn("clock", "can't be compared yet: nothing is stored", "Wait until a scheduler is ready.")
    return judge_clock(middle_s - datetime.datetime.fromisoformat(text).timestamp())


def judge_clock(ahead_s: float) -> Check:
    """Judge how far this machine's clock is ahead of the server's."""
    if abs(ahead_s) > _TOLERATED_S:
        return warn(
            "clock",
            f"is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} the server's",
            "Synchronise both machines' clocks, for example with chrony.",
        )
    return ok("clock", "agrees with the server's")


async def _service(name: str, yard: locate.YardFile | None, folder: Path) -> Check:
    log = Layout(folder).log(name)
    running = yard.services.get(name) if yard else None
    if running is None or running.health_port is None:
        return fail(name, "does not run", f"It is started again by itself; if that fails, see {log}.")
    report = await ask_service(running.health_port)
    if not report.is_ready:
        return fail(name, f"is not ready: {report.why}", f"Wait a moment; if that does not help, see {log}.")
    return ok(name, f"ready, pid {running.pid}")
