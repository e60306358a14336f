"""Large uploads, in the layout of NATS object stores, so that other clients can read and write them.

Written here rather than with nats-py's object store, whose subscriptions don't survive a lost connection.
Chunks are appended like everything else, acknowledged from disk and repeated safely. The description comes
last, so that a half-written object is never seen.
"""

import asyncio
import base64
import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from uuid import uuid4

from gpuyard.bus.jetstream import ApiError, JetStream, plain_error, stream_config
from gpuyard.bus.nats_append import Appender
from gpuyard.bus.port import Expect, From, Message, Streams
from gpuyard.bus.refusals import Full, NoStream
from gpuyard.contracts.errors import Conflict, GpuyardError, InvalidSpec, Unavailable
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.subjects import MAX_BUCKET_BYTES, Stream

_CHUNK_BYTES = 128 * 1024
_CHUNK_TIMEOUT_S = 10.0
_MOST_EXTRA_BYTES = 1024


class NatsObjects:
    """See `gpuyard.bus.port.Objects`."""

    def __init__(self, streams: Streams, jetstream: JetStream, appender: Appender, replicas: int) -> None:
        self._streams = streams
        self._jetstream = jetstream
        self._appender = appender
        self._replicas = replicas
        self._created: set[str] = set()

    async def put(self, bucket: str, name: str, data: bytes) -> None:
        stream = _stream(bucket)
        await self._create(stream)
        before = await self._description(bucket, name)
        try:
            await self._upload(bucket, name, data)
        except Full:
            if not await self._make_room(bucket, data):
                raise
            await self._upload(bucket, name, data)
        if before:
            await self._streams.trim(stream, subject=_chunks(bucket, before["nuid"]))

    async def has(self, bucket: str, name: str) -> bool:
        newest = await self._newest(bucket, name)
        if newest is None:
            return False
        # Stored again, the description is the newest: who asks is going to rely on the object.
        with suppress(Conflict, Full):
            expect = Expect(newest.subject, newest.seq)
            await self._describe(newest.subject, newest.payload, uuid4().hex, expect)
        return True

    async def get(self, bucket: str, name: str) -> bytes | None:
        for _ in range(2):
            description = await self._description(bucket, name)
            if description is None:
                return None
            data = await self._fetch(bucket, description)
            if data is not None:
                return data
        raise Unavailable(f"the object `{name}` in {bucket} is incomplete", "Upload it again.")

    async def _upload(self, bucket: str, name: str, data: bytes) -> None:
        upload = uuid4().hex
        try:
            await self._send(bucket, name, upload, data)
        except GpuyardError:
            # Half an upload would only take up room.
            with suppress(GpuyardError):
                await self._streams.trim(_stream(bucket), subject=_chunks(bucket, upload))
            raise

    async def _make_room(self, bucket: str, data: bytes) -> bool:
        """Drop whole objects, the oldest first, until the data fits; False if it never can."""
        stream = _stream(bucket)
        needed = _stored_bytes(len(data))
        if needed > stream.max_bytes:
            return False
        try:
            info = await self._jetstream.api(f"STREAM.INFO.{stream.name}")
        except ApiError as error:
            raise plain_error(error, stream.name) from None
        missing = info["state"]["bytes"] + needed - stream.max_bytes
        for place, description in await self._oldest_first(bucket):
            if missing <= 0:
                break
            await self._streams.trim(stream, subject=place)
            await self._streams.trim(stream, subject=_chunks(bucket, description["nuid"]))
            missing -= description.get("size", 0)
        return True

    async def _oldest_first(self, bucket: str) -> list[tuple[str, dict[str, Any]]]:
        """The place and the description of each object."""
        found = []
        start = From.LAST_PER_SUBJECT
        async with self._streams.read(_stream(bucket), f"$O.{bucket}.M.>", start=start) as reader:
            while reader.backlog:
                try:
                    async with asyncio.timeout(_CHUNK_TIMEOUT_S):
                        message = await anext(reader)
                except TimeoutError:
                    raise Unavailable(f"no list of the objects in {bucket} comes", "Try again.") from None
                found.append((message.seq, message.subject, json.loads(message.payload)))
        return [(place, description) for _, place, description in sorted(found, key=itemgetter(0))]

    async def _send(self, bucket: str, name: str, upload: str, data: bytes) -> None:
        digest = hashlib.sha256()
        starts = range(0, len(data), _CHUNK_BYTES)
        for number, start in enumerate(starts):
            chunk = data[start : start + _CHUNK_BYTES]
            digest.update(chunk)
            await self._appender.append(_chunks(bucket, upload), chunk, {}, msg_id=f"{upload}-{number}")
        description = {
            "name": name,
            "bucket": bucket,
            "nuid": upload,
            "size": len(data),
            "chunks": len(starts),
            "digest": _digest(digest.digest()),
            "mtime": datetime.now(UTC).isoformat(),
            "options": {"max_chunk_size": _CHUNK_BYTES},
        }
        await self._describe(_place(bucket, name), json.dumps(description).encode(), upload)

    async def _describe(
        self, place: str, description: bytes, unique: str, expect: Expect | None = None
    ) -> None:
        """Write the description; it replaces the one before."""
        await self._appender.append(
            place, description, {"Nats-Rollup": "sub"}, msg_id=f"{unique}-end", expect=expect
        )

    async def _fetch(self, bucket: str, description: dict[str, Any]) -> bytes | None:
        """The object's bytes; None if they are not all there, as when it is being replaced."""
        parts: list[bytes] = []
        if description["chunks"]:
            subject = _chunks(bucket, description["nuid"])
            async with self._streams.read(_stream(bucket), subject) as reader:
                if reader.backlog < description["chunks"]:
                    return None
                for _ in range(description["chunks"]):
                    try:
                        async with asyncio.timeout(_CHUNK_TIMEOUT_S):
                            parts.append((await anext(reader)).payload)
                    except TimeoutError:
                        return None
        data = b"".join(parts)
        return data if description["digest"] == _digest(hashlib.sha256(data).digest()) else None

    async def _description(self, bucket: str, name: str) -> dict[str, Any] | None:
        newest = await self._newest(bucket, name)
        return json.loads(newest.payload) if newest else None

    async def _newest(self, bucket: str, name: str) -> Message | None:
        """The message that describes the object, unless it was deleted."""
        try:
            newest = await self._jetstream.last(_stream(bucket).name, _place(bucket, name))
        except NoStream:
            return None
        return None if newest is None or json.loads(newest.payload).get("deleted") else newest

    async def _create(self, stream: Stream) -> None:
        if stream.name not in self._created:
            config = stream_config(stream, self._replicas)
            try:
                await self._jetstream.create_or_update({**config, "allow_rollup_hdrs": True})
            except ApiError as error:
                raise plain_error(error, stream.name) from None
            self._created.add(stream.name)


def _stream(bucket: str) -> Stream:
    if not is_id(bucket):
        raise InvalidSpec(f"`{bucket[:80]}` can't name a bucket", "Lower-case letters, digits and dashes.")
    subjects = (f"$O.{bucket}.C.>", f"$O.{bucket}.M.>")
    return Stream(f"OBJ_{bucket}", subjects, "Uploaded objects.", max_bytes=MAX_BUCKET_BYTES)


def _stored_bytes(size: int) -> int:
    """What an object takes up, with its description, subjects and headers; rather too much."""
    return size + (size // _CHUNK_BYTES + 4) * _MOST_EXTRA_BYTES


def _chunks(bucket: str, upload: str) -> str:
    return f"$O.{bucket}.C.{upload}"


def _place(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _digest(digest: bytes) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(digest).decode()
