"""From `gpuyard up` to the lean process that does the work: become it, or leave it behind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import msgspec
from gpuyard.yard import logfile
from gpuyard.yard.layout import prepare
from gpuyard.yard.options import Options
from gpuyard.yard.outcome import Ready, hear


def become(options: Options) -> NoReturn:
    """Replace this process: same pid, same terminal, a third of the memory."""
    sys.stdout.flush()
    os.execv(sys.executable, command(options))


def leave_behind(options: Options) -> Ready:
    """Start it in a session of its own and wait until the yard is ready.

    Raises:
        GpuyardError: what it says went wrong.

    """
    log = prepare(Path(options.dir)).log("up")
    hearing, telling = os.pipe()
    process = _spawn(msgspec.structs.replace(options, ready_fd=telling), log)
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


def command(options: Options) -> list[str]:
    # -P: whatever lies in the current directory must not be imported instead of what we mean.
    return [sys.executable, "-P", "-m", "gpuyard.yard", msgspec.json.encode(options).decode()]


def _spawn(options: Options, log: Path) -> "subprocess.Popen[bytes]":
    assert options.ready_fd is not None
    output = logfile.open_log(log)
    try:
        return subprocess.Popen(
            command(options),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(options.ready_fd,),
        )
    finally:
        os.close(output)
