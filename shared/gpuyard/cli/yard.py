"""Verbs on the whole yard: up, down, doctor, demo."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import session, terminal
from gpuyard.cli.session import AsJson, YardDir
from gpuyard.client import locate
from gpuyard.contracts.errors import InvalidSpec, Refused
from gpuyard.yard.check import Check, Status
from gpuyard.yard.doctor import examine
from gpuyard.yard.options import Options

NewYardDir = Annotated[
    str | None,
    Parameter(name="--dir", help="Where everything is kept; by default GPUYARD_DIR or ./.gpuyard."),
]


def up(
    *,
    yard_dir: NewYardDir = None,
    detach: Annotated[
        bool, Parameter(name=("--detach", "-d"), negative=(), help="Return once everything is ready.")
    ] = False,
    simulate: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            show_default=False,
            help="NAME-OR-FILE[:COUNT]: add nodes with captured hardware; repeatable.",
        ),
    ] = (),
    local: Annotated[bool, Parameter(help="Whether this machine is a node too.")] = True,
    port: Annotated[int, Parameter(help="Of the message bus; 0: the same as before, or any.")] = 0,
    nats_server: Annotated[
        str, Parameter(show_default=False, help="The nats-server program; by default it is found.")
    ] = "",
    otlp: Annotated[
        str, Parameter(show_default=False, help="OTLP/HTTP endpoint that traces are sent to.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    from gpuyard.yard import start  # noqa: PLC0415 - the other verbs need none of it

    options = Options(
        dir=str(_yard_to_start(yard_dir)),
        nodes=start.choose_nodes(simulate, is_local=local),
        port=_checked_port(port),
        nats_server=nats_server,
        otlp_url=otlp,
        as_json=as_json,
    )
    if not detach:
        start.become(options)
    ready = start.leave_behind(options)
    if as_json:
        terminal.print_json(ready.yard)
    else:
        terminal.narrate(ready.summary)


async def down(
    *,
    yard_dir: YardDir = None,
    stop_jobs: Annotated[bool, Parameter(negative=(), help="Cancel active jobs first.")] = False,
    as_json: AsJson = False,
) -> None:
    from gpuyard.yard import stop  # noqa: PLC0415 - as above

    place = locate.meant_or_here(yard_dir)
    if isinstance(place, str):
        raise Refused("only a yard on this machine can be stopped", "Name its directory with `--dir DIR`.")
    runs = locate.lock_holder(place) is not None
    cancelled = await _cancel_jobs(place) if stop_jobs and runs else []
    pid = await stop.stop(place)
    if as_json:
        terminal.print_json({"dir": str(place), "stopped": pid is not None, "cancelled": cancelled})
    else:
        _say_what_stopped(place, cancelled, is_stopped=pid is not None, stop_jobs=stop_jobs)


async def doctor(*, yard_dir: YardDir = None, as_json: AsJson = False) -> int:
    checks = await examine(yard_dir)
    if as_json:
        terminal.print_json(checks)
    else:
        for check in checks:
            terminal.print_data(_line(check))
    return 1 if any(check.status is Status.FAIL for check in checks) else 0


async def demo() -> None:
    from gpuyard.yard.demo import demonstrate  # noqa: PLC0415 - as above

    await demonstrate(terminal.narrate)


def _line(check: Check) -> str:
    colour = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}[check.status]
    mark = terminal.paint(f"{check.status:<4}", colour, sys.stdout)
    fix = f"\n     {check.fix}" if check.fix else ""
    return f"{mark} {check.name}: {check.message}{fix}"


async def _cancel_jobs(place: Path) -> list[str]:
    from gpuyard.yard import stop  # noqa: PLC0415 - as above

    async with session.client(str(place)) as client:
        return await stop.cancel_jobs(client)


def _say_what_stopped(place: Path, cancelled: list[str], *, is_stopped: bool, stop_jobs: bool) -> None:
    if not is_stopped:
        terminal.narrate(f"No yard runs in {place}.")
        return
    terminal.narrate(f"Stopped the yard in {place}.")
    if stop_jobs:
        terminal.narrate(f"Cancelled before: {', '.join(cancelled) or 'nothing, no job was active'}.")
    else:
        terminal.narrate("Jobs that were running keep running; the next `gpuyard up` there adopts them.")


def _yard_to_start(named: str | None) -> Path:
    path = named or os.environ.get("GPUYARD_DIR") or locate.DEFAULT_DIR
    if not path.isprintable():
        raise InvalidSpec("the yard's directory needs a printable name", "Choose another with `--dir DIR`.")
    return Path(path).absolute()


def _checked_port(port: int) -> int:
    if not 0 <= port <= 65535:
        raise InvalidSpec(f"{port} is no port", "Choose one between 1 and 65535, or 0 for any.")
    return port
