"""What every command shares: how it reaches the yard, and the options that all of them have."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Annotated

from cyclopts import Parameter

from gpuyard.client.aio import AsyncClient

Connect = Callable[[str | None], AbstractAsyncContextManager[AsyncClient]]
"""Makes a client from the value of `--dir`."""

YardDir = Annotated[
    str | None,
    Parameter(
        name="--dir",
        help="The yard's directory; by default GPUYARD_DIR, .gpuyard here or above, or as configured.",
    ),
]
AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
JobArgument = Annotated[str, Parameter(name="JOB", help="A job's id, a unique beginning of it, or its name.")]


def _find(yard_dir: str | None) -> AbstractAsyncContextManager[AsyncClient]:
    return AsyncClient(dir=yard_dir)


_connect: ContextVar[Connect] = ContextVar("connect", default=_find)


def client(yard_dir: str | None) -> AbstractAsyncContextManager[AsyncClient]:
    """Connect to the yard."""
    return _connect.get()(yard_dir)


@contextmanager
def connecting(connect: Connect | None) -> Iterator[None]:
    """Let commands in the body reach the yard this way."""
    token = _connect.set(connect or _find)
    try:
        yield
    finally:
        _connect.reset(token)
