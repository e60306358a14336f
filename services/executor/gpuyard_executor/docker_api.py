"""The Docker engine's API: the one file that imports the `docker` SDK.

Every call runs in a thread of its own and has a time limit. What the engine answers becomes a value or one of
our errors: `Unavailable` when it is away, `NotFound`, `Conflict`, else `Refused` with its own explanation.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException

from gpuyard.contracts.errors import Conflict, GpuyardError, NotFound, Refused, Unavailable

_TIMEOUT_S = 60.0
_KNOCK_S = 5.0
_THREADS = 16
_ANY_VERSION = "1.41"
_HINT = "Is the Docker engine running, and may this user talk to it? See `gpuyard doctor`."
_EVENTS = {"type": ["container"], "event": ["die", "destroy"]}
Raw = Mapping[str, Any]
T = TypeVar("T")


class DockerApi:
    """Calls of one engine, for many tasks. Connects when it is first used."""

    def __init__(self, url: str, timeout_s: float = _TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(_THREADS, "docker")
        self._connecting = threading.Lock()
        self._client: APIClient | None = None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._client:
            self._client.close()

    # -- containers ----------------------------------------------------------------------------------------

    async def create(self, name: str, body: Raw) -> None:
        await self._call(lambda client: client.create_container_from_config(dict(body), name))

    async def start(self, name: str) -> None:
        """Start it, unless it was started before."""
        await self._call(lambda client: client.start(name))

    async def kill(self, name: str, signal: int) -> None:
        await self._call(lambda client: client.kill(name, signal))

    async def inspect(self, name: str) -> Raw | None:
        """What the engine knows of a container; None if there is none of this name."""
        return await self._or_none(lambda client: client.inspect_container(name))

    async def containers(self, label: str) -> Sequence[Raw]:
        """All with a label `name=value`, also those that are over."""
        return await self._call(lambda client: client.containers(all=True, filters={"label": [label]}))

    async def words(self, name: str) -> bytes:
        """What a container wrote to the engine's own log."""
        return await self._call(lambda client: client.logs(name, stdout=True, stderr=True, tail=100)) or b""

    async def remove(self, name: str) -> None:
        """Remove it with its nameless volumes, whatever it does; nothing if it is gone."""
        with contextlib.suppress(NotFound, Conflict):  # conflict: it is being removed already
            await self._call(lambda client: client.remove_container(name, v=True, force=True))

    # -- networks, images, the engine ----------------------------------------------------------------------

    async def create_network(self, body: Raw) -> None:
        await self._call(lambda client: client.create_network(**body))

    async def network(self, name: str) -> Raw | None:
        return await self._or_none(lambda client: client.inspect_network(name))

    async def networks(self, label: str) -> Sequence[Raw]:
        return await self._call(lambda client: client.networks(filters={"label": [label]}))

    async def remove_network(self, name: str) -> None:
        """Remove it, if it is there and nobody is connected."""
        with contextlib.suppress(NotFound, Refused, Conflict):
            await self._call(lambda client: client.remove_network(name))

    async def image(self, name: str) -> Raw | None:
        return await self._or_none(lambda client: client.inspect_image(name))

    async def pull(self, name: str) -> None:
        """Fetch an image; returns when it is here.

        Raises:
            Refused: no registry gives it out.

        """
        await self._call(lambda client: _pull(client, name))

    async def info(self) -> Raw:
        return await self._call(lambda client: client.info())

    # -- events --------------------------------------------------------------------------------------------

    async def events(self, label: str) -> AsyncGenerator[str, None]:
        """Names of containers with a label that ended; first an empty one: from here on none is missed.

        Raises:
            Unavailable: the engine is away, or went away.

        """
        stream = await self._call(
            lambda client: client.events(decode=True, filters=_EVENTS | {"label": [label]})
        )
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        reader = threading.Thread(
            target=_pump, args=(stream, partial(_put, asyncio.get_running_loop(), queue)), daemon=True
        )
        reader.start()
        try:
            yield ""
            while (name := await queue.get()) is not None:
                yield name
            raise Unavailable(f"the Docker engine at {self._url} went away", _HINT)
        finally:
            with contextlib.suppress(Exception):  # the SDK raises whatever the dead socket does
                stream.close()

    # -- calls ---------------------------------------------------------------------------------------------

    async def _or_none(self, call: Callable[[APIClient], Raw]) -> Raw | None:
        with contextlib.suppress(NotFound):
            return await self._call(call)
        return None

    async def _call(self, call: Callable[[APIClient], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, call)

    def _ask(self, call: Callable[[APIClient], T]) -> T:
        with _translated(self._url):
            _knock(self._url)
            return call(self._connected())

    def _connected(self) -> APIClient:
        with self._connecting:
            if self._client is None:
                self._client = APIClient(
                    self._url, _newest_version(self._url, self._timeout_s), self._timeout_s
                )
            return self._client


def _knock(url: str) -> None:
    """Find out whether anybody listens: the SDK leaves a socket open for each time that nobody does."""
    scheme, _, path = url.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(_KNOCK_S)
            visitor.connect(path)


def _newest_version(url: str, timeout_s: float) -> str:
    """What the engine speaks. The SDK can find out itself, but leaves a socket open if it can't."""
    with closing(APIClient(url, _ANY_VERSION, timeout_s)) as client:
        return str(client.version(api_version=False)["ApiVersion"])


def _pull(client: APIClient, name: str) -> None:
    for step in client.pull(name, stream=True, decode=True):
        if error := step.get("error"):
            raise Refused(error)


def _pump(events: Iterable[Raw], put: Callable[[str | None], None]) -> None:
    """Be the thread that reads events; the last it puts is None."""
    with contextlib.suppress(Exception):  # a stream closed under it raises whatever its socket does
        for event in events:
            put(event["Actor"]["Attributes"]["name"])
    put(None)


def _put(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[str | None], name: str | None) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(queue.put_nowait, name)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        raise _error_of(error) from error
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise Unavailable(f"the Docker engine at {url} does not answer: {error}", _HINT) from error


def _error_of(error: APIError) -> GpuyardError:
    kinds = {404: NotFound, 409: Conflict, 503: Unavailable}
    return kinds.get(error.status_code or 0, Refused)(str(error.explanation or error))
