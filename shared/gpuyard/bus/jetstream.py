"""JetStream's request and reply API: configurations, errors, and asking with a deadline."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpuyard.bus.nats_client import Answer, Connection, LinkLost
from gpuyard.bus.port import Message
from gpuyard.bus.refusals import no_stream
from gpuyard.bus.wire import DUPLICATE_WINDOW_S, check_size, parse_headers, publish_command
from gpuyard.contracts.errors import Conflict, GpuyardError, Unavailable
from gpuyard.contracts.subjects import Stream

ASK_TIMEOUT_S = 5.0
_REPEAT_AFTER_S = 2.0
_MAX_CONSUMERS = 20_000

STREAM_NOT_FOUND = 10059
WRONG_LAST_SEQUENCE = 10071
STREAM_FULL = 10077
CONSUMER_OVERLAPS = (10099, 10100)


class ApiError(Exception):
    """The server refused. `code` is JetStream's error code."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code
        self.description = description


class JetStream:
    """Asks the server, across reconnects, until the deadline."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(
        self, subject: str, payload: bytes = b"", headers: bytes = b"", *, timeout_s: float, repeat: bool
    ) -> Answer:
        """Send and wait for the answer; `repeat`: asking again does no harm, so do it when none comes.

        Raises:
            Unavailable: no answer in time; or the connection broke and `repeat` is off.
            InvalidSpec: larger than the server takes.

        """
        now_s = asyncio.get_running_loop().time
        by_s = now_s() + timeout_s
        while True:
            link = await self._connection.link(by_s)
            check_size(headers, payload, link.max_payload)
            left_s = by_s - now_s()
            wait_s = min(left_s, _REPEAT_AFTER_S) if repeat else left_s
            try:
                return await self._connection.ask(link, subject, payload, headers, timeout_s=wait_s)
            except (LinkLost, TimeoutError):
                if not repeat or now_s() >= by_s:
                    raise self._connection.unavailable() from None

    async def api(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call `$JS.API.<what>`. All calls made here may be repeated.

        Raises:
            ApiError: refused.
            Unavailable: no answer in time.

        """
        request = json.dumps(body).encode() if body is not None else b""
        payload, headers = await self.ask(f"$JS.API.{what}", request, timeout_s=ASK_TIMEOUT_S, repeat=True)
        if headers and parse_headers(headers)[0] == "503":
            raise self._connection.unavailable()
        return answer_of(payload)

    async def create_or_update(self, config: Mapping[str, Any]) -> None:
        """Create a stream, or change an existing one to this configuration.

        A server whose storage is all reserved refuses to create even what is there already, so whatever it
        says, an update is tried before its refusal counts.
        """
        try:
            await self.api(f"STREAM.CREATE.{config['name']}", config)
        except ApiError as refusal:
            try:
                await self.api(f"STREAM.UPDATE.{config['name']}", config)
            except ApiError as error:
                raise (refusal if error.code == STREAM_NOT_FOUND else error) from None

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject.

        Raises:
            Unavailable: there is no such stream, or no answer in time.

        """
        payload, block = await self.ask(
            f"$JS.API.DIRECT.GET.{stream}.{subject}", timeout_s=ASK_TIMEOUT_S, repeat=True
        )
        status, headers = parse_headers(block)
        if status == "503":
            raise no_stream(stream)
        if status:
            return None
        at_s = datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp()
        return Message(subject, payload, headers, seq=int(headers["Nats-Sequence"]), at_s=at_s)

    async def hint(self, what: str) -> None:
        """Call without waiting for the answer."""
        link = await self._connection.link(asyncio.get_running_loop().time())
        link.send(publish_command(f"$JS.API.{what}", b"", reply=self._connection.new_inbox()))


def answer_of(payload: bytes) -> dict[str, Any]:
    """The server's answer as plain data.

    Raises:
        ApiError: it is a refusal.

    """
    answer: dict[str, Any] = json.loads(payload)
    error = answer.get("error")
    if error:
        raise ApiError(error.get("err_code", 0), error.get("description", "no reason given"))
    return answer


def plain_error(error: ApiError, stream: str) -> GpuyardError:
    """A refusal in our words."""
    if error.code == STREAM_NOT_FOUND:
        return no_stream(stream)
    if error.code in CONSUMER_OVERLAPS:
        return Conflict(
            f"another worker already takes messages of {stream}: {error.description}",
            "Give workers of one queue the same name, or other subjects.",
        )
    return Unavailable(f"the bus refuses a request about {stream}: {error}", "See the nats-server's log.")


def stream_config(stream: Stream, replicas: int) -> dict[str, Any]:
    """A stream's settings, every limit explicit.

    There is no `subject_delete_marker_ttl`: the server raises every shorter time to live up to it.
    """
    window_s = min(DUPLICATE_WINDOW_S, stream.max_age_s or DUPLICATE_WINDOW_S)
    return {
        "name": stream.name,
        "description": stream.purpose,
        "subjects": list(stream.subjects),
        "retention": "workqueue" if stream.kind == "work" else "limits",
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": _MAX_CONSUMERS,
        "max_msgs": -1,
        "max_msg_size": -1,
        "max_bytes": stream.max_bytes,
        "max_age": nanoseconds(stream.max_age_s or 0),
        "max_msgs_per_subject": stream.per_subject or -1,
        "discard": "new" if stream.when_full == "refuse" else "old",
        "duplicate_window": nanoseconds(window_s),
        "allow_direct": True,
        "allow_msg_ttl": stream.kind == "log",
    }


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000_000)
