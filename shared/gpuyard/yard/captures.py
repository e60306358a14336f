"""Checking the captures of simulated nodes before anything starts."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from gpuyard.contracts.errors import GpuyardError, error_from
from gpuyard.topology.captures import load


def resolve(text: str) -> str:
    """A file becomes a full path, since services run elsewhere; a name stays."""
    path = Path(text).expanduser()
    return str(path.absolute()) if "/" in text or path.is_file() else text


def check(captures: Iterable[str]) -> None:
    """Read them all.

    Raises:
        NotFound: no such name or file; the hint names the nearest.
        InvalidSpec: the text is no topology.

    """
    for name in sorted(set(captures)):
        try:
            load(name)
        except GpuyardError as error:
            failure = error.to_failure()
            raise error_from(replace(failure, message=f"--simulate {name}: {failure.message}")) from error
