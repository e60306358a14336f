"""Verbs on the whole yard: up, down, doctor, demo."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from gpuyard.client import locate
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.yard import captures
from gpuyard.yard.nodes import Node, parse_simulate, simulated, with_local
from gpuyard.yard.options import Options

Dir = Annotated[str | None, Parameter(name="--dir")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Port = Annotated[int, Parameter()]


def up(
    *,
    dir: Dir = None,  # noqa: A002 - it is the flag's name
    detach: Annotated[bool, Parameter(name=("--detach", "-d"), negative="")] = False,
    simulate: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    local: bool = True,
    port: int = 0,
    nats_server: str = "",
    otlp: str = "",
    json: Json = False,
) -> None:
    """Start the platform on this machine and keep it running.

    Parameters
    ----------
    dir
        Directory that holds everything; default GPUYARD_DIR, else ./.gpuyard.
    detach
        Return as soon as everything is ready and leave it running.
    simulate
        NAME-OR-FILE[:COUNT]: add nodes with captured hardware. Can be repeated.
    local
        Whether this machine is a node too.
    port
        Port of the nats-server; 0: the one it had before, or any free one.
    nats_server
        The nats-server program; default: beside this Python, else on the PATH.
    otlp
        OTLP/HTTP endpoint that traces are sent to.
    json
        With --detach: print the address and the processes as JSON.

    """
    from gpuyard.yard import start  # noqa: PLC0415 - `--help` needs none of it

    options = Options(
        dir=str(yard_dir(dir)),
        nodes=chosen_nodes(simulate, is_local=local),
        port=checked_port(port),
        nats_server=nats_server,
        otlp_url=otlp,
    )
    if not detach:
        start.become(options)
    ready = start.leave_behind(options)
    if json:
        sys.stdout.buffer.write((Path(options.dir) / locate.YARD_FILE).read_bytes())
        return
    print(ready.summary.replace("Ctrl-C here, or ", "").replace(" anywhere", ""), file=sys.stderr)


def yard_dir(named: str | None) -> Path:
    """The directory of the yard to start or stop: DIR, GPUYARD_DIR or ./.gpuyard."""
    return Path(named or os.environ.get("GPUYARD_DIR") or locate.DEFAULT_DIR).absolute()


def chosen_nodes(simulate: tuple[str, ...], *, is_local: bool) -> tuple[Node, ...]:
    wanted = [parse_simulate(text) for text in simulate]
    resolved = [(captures.resolve(capture), count) for capture, count in wanted]
    captures.check(capture for capture, _ in resolved)
    nodes = simulated(resolved)
    if is_local:
        return with_local(nodes, socket.gethostname())
    if not nodes:
        raise InvalidSpec("a yard needs a node", "Add one with `--simulate NAME`, or drop `--no-local`.")
    return nodes


def checked_port(port: int) -> int:
    if not 0 <= port <= 65535:
        raise InvalidSpec(f"{port} is no port", "Choose one between 1 and 65535, or 0 for any.")
    return port
