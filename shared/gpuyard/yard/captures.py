"""Checking the captures of simulated nodes before anything starts.

The monitor reads captures, and services are not imported here: its own reader is asked, in its own process.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpuyard.contracts.errors import Failure, Fault, error_from

_TIMEOUT_S = 60.0
_ASK = """
import sys, msgspec
from gpuyard.contracts.errors import GpuyardError
from gpuyard_monitor.captures import load
try:
    for name in sys.argv[1:]:
        load(name)
except GpuyardError as error:
    sys.stdout.buffer.write(msgspec.json.encode((name, error.to_failure())))
"""


def resolve(text: str) -> str:
    """A file becomes a full path, since services run elsewhere; a name stays."""
    path = Path(text).expanduser()
    return str(path.absolute()) if "/" in text or path.is_file() else text


def check(captures: Iterable[str]) -> None:
    """Have the monitor's reader read them.

    Raises:
        NotFound: no such name or file; the hint names the nearest.
        InvalidSpec: the text is no topology.

    """
    names = sorted(set(captures))
    if not names:
        return
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _ASK, *names], capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    if asked.stdout:
        name, failure = msgspec.json.decode(asked.stdout, type=tuple[str, Failure])
        raise error_from(msgspec.structs.replace(failure, message=f"--simulate {name}: {failure.message}"))
    if asked.returncode:
        raise Fault("the monitor's reader of captures failed", asked.stderr.decode(errors="replace")[-1000:])
