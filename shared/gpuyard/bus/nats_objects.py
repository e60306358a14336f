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
from typing import Any
from uuid import uuid4

from gpuyard.bus.jetstream import ApiError, JetStream, plain_error, stream_config
from gpuyard.bus.nats_append import Appender
from gpuyard.bus.port import Streams
from gpuyard.bus.refusals import NoStream
from gpuyard.contracts.errors import GpuyardError, InvalidSpec, Unavailable
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.subjects import MAX_BUCKET_BYTES, Stream

_CHUNK_BYTES = 128 * 1024
_CHUNK_TIMEOUT_S = 10.0


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
        upload = uuid4().hex
        try:
            await self._send(bucket, name, upload, data)
        except GpuyardError:
            # Half an upload would only take up room.
            with suppress(GpuyardError):
                await self._streams.trim(stream, subject=_chunks(bucket, upload))
            raise
        if before:
            await self._streams.trim(stream, subject=_chunks(bucket, before["nuid"]))

    async def has(self, bucket: str, name: str) -> bool:
        return await self._description(bucket, name) is not None

    async def get(self, bucket: str, name: str) -> bytes | None:
        for _ in range(2):
            description = await self._description(bucket, name)
            if description is None:
                return None
            data = await self._fetch(bucket, description)
            if data is not None:
                return data
        raise Unavailable(f"the object `{name}` in {bucket} is incomplete", "Upload it again.")

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
        await self._appender.append(
            _place(bucket, name),
            json.dumps(description).encode(),
            {"Nats-Rollup": "sub"},
            msg_id=f"{upload}-end",
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
        try:
            newest = await self._jetstream.last(_stream(bucket).name, _place(bucket, name))
        except NoStream:
            return None
        description: dict[str, Any] | None = json.loads(newest.payload) if newest else None
        return None if description is None or description.get("deleted") else description

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


def _chunks(bucket: str, upload: str) -> str:
    return f"$O.{bucket}.C.{upload}"


def _place(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _digest(digest: bytes) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(digest).decode()
