"""Durable writes: acknowledged, repeated under the same message id, conditional, mortal."""

import json
from collections.abc import Mapping

from gpuyard.bus.jetstream import (
    ASK_TIMEOUT_S,
    STREAM_FULL,
    WRONG_LAST_SEQUENCE,
    ApiError,
    JetStream,
    answer_of,
    plain_error,
)
from gpuyard.bus.port import Appended, Expect
from gpuyard.bus.refusals import conflict, full, no_stream_for
from gpuyard.bus.wire import check_subject, parse_headers, render_headers, whole_ttl_s
from gpuyard.contracts.errors import GpuyardError

_MSG_ID = "Nats-Msg-Id"
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"


class Appender:
    """Appends to whichever stream takes the subject."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    async def append(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str],
        *,
        msg_id: str = "",
        expect: Expect | None = None,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> Appended:
        """Write; without a message id it is not repeated, because that could write it twice."""
        check_subject(subject)
        block = render_headers({**headers, **_conditions(subject, msg_id, expect)})
        answer, status = await self._jetstream.ask(
            subject, payload, block, timeout_s=timeout_s, repeat=bool(msg_id)
        )
        if status and parse_headers(status)[0] == "503":
            raise no_stream_for(subject)
        try:
            acknowledged = answer_of(answer)
        except ApiError as error:
            if error.code == WRONG_LAST_SEQUENCE and msg_id and expect:
                return await self._own_or_conflict(subject, msg_id, expect, answer, timeout_s)
            raise _refusal(error, answer, expect) from None
        return Appended(acknowledged["seq"], acknowledged.get("duplicate", False))

    async def _own_or_conflict(
        self, subject: str, msg_id: str, expect: Expect, answer: bytes, timeout_s: float
    ) -> Appended:
        """Tell a real conflict from our own write whose acknowledgement was lost.

        The server looks at the expectation before it looks for a message id that it knows.
        """
        stream, seq = json.loads(answer)["stream"], expect.seq
        while True:
            request = json.dumps({"seq": seq + 1, "next_by_subj": subject}).encode()
            _, block = await self._jetstream.ask(
                f"$JS.API.DIRECT.GET.{stream}", request, timeout_s=timeout_s, repeat=True
            )
            status, headers = parse_headers(block)
            if status:
                raise conflict(expect)
            seq = int(headers["Nats-Sequence"])
            if headers.get(_MSG_ID) == msg_id:
                return Appended(seq, duplicate=True)


def mortal(ttl_s: float | None) -> dict[str, str]:
    """Headers that end a message's life."""
    return {} if ttl_s is None else {"Nats-TTL": f"{whole_ttl_s(ttl_s)}s"}


def _conditions(subject: str, msg_id: str, expect: Expect | None) -> dict[str, str]:
    headers = {}
    if msg_id:
        headers[_MSG_ID] = msg_id
    if expect is not None:
        headers[_EXPECTED] = str(expect.seq)
        if expect.subject != subject:
            headers[f"{_EXPECTED}-Subject"] = expect.subject
    return headers


def _refusal(error: ApiError, answer: bytes, expect: Expect | None) -> GpuyardError:
    stream = json.loads(answer).get("stream", "?")
    if error.code == WRONG_LAST_SEQUENCE and expect is not None:
        return conflict(expect)
    if error.code == STREAM_FULL:
        return full(stream)
    return plain_error(error, stream)
