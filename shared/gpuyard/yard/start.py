"""From `gpuyard up` to the lean process that does the work: become it, or leave it behind."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.yard import captures, logfile
from gpuyard.yard.layout import prepare
from gpuyard.yard.nodes import Node, parse_simulate, simulated, with_local
from gpuyard.yard.options import Options
from gpuyard.yard.outcome import Ready, hear


def become(options: Options) -> NoReturn:
    """Replace this process: same pid, same terminal, a third of the memory."""
    sys.stdout.flush()
    os.execv(sys.executable, command(options))  # noqa: S606 - no shell is what is wanted


def leave_behind(options: Options, environment: Mapping[str, str] | None = None) -> Ready:
    """Start it in a session of its own and wait until the yard is ready.

    Args:
        options: What is wanted.
        environment: Added to that of this process.

    Raises:
        GpuyardError: what it says went wrong.

    """
    log = prepare(Path(options.dir)).log("up")
    hearing, telling = os.pipe()
    process = _spawn(msgspec.structs.replace(options, ready_fd=telling), log, environment or {})
    os.close(telling)
    try:
        with os.fdopen(hearing, "rb") as pipe:
            return hear(pipe.read(), log)
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        # Not ours to wait for: it is there to stay.
        process.returncode = 0


def choose_nodes(simulate: Iterable[str], *, is_local: bool) -> tuple[Node, ...]:
    """The nodes asked for, with their captures checked.

    Raises:
        InvalidSpec: `--simulate` is malformed, or there would be no node.
        NotFound: there is no such capture.

    """
    wanted = [parse_simulate(text) for text in simulate]
    resolved = [(captures.resolve(capture), count) for capture, count in wanted]
    captures.check(capture for capture, _ in resolved)
    nodes = simulated(resolved)
    if is_local:
        return with_local(nodes, socket.gethostname())
    if not nodes:
        raise InvalidSpec("a yard needs a node", "Add one with `--simulate NAME`, or drop `--no-local`.")
    return nodes


def command(options: Options) -> list[str]:
    # -P: whatever lies in the current directory must not be imported instead of what we mean.
    return [sys.executable, "-P", "-m", "gpuyard.yard", msgspec.json.encode(options).decode()]


def _spawn(options: Options, log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    assert options.ready_fd is not None
    output = logfile.open_log(log)
    try:
        return subprocess.Popen(
            command(options),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
            start_new_session=True,
            pass_fds=(options.ready_fd,),
        )
    finally:
        os.close(output)
