"""What a user may not do is said in the log, and nothing hangs on it."""

import logging
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.contracts.errors import Unavailable
from tests.natsd import NatsServer

_USERS = """
authorization {
  users: [{ user: "small", password: "secret",
            permissions: { publish: ["allowed.>"], subscribe: ["_INBOX_small.>", "allowed.>"] } }]
}
"""


class _WithUsers(NatsServer):
    def conf(self) -> str:
        token = next(line for line in super().conf().splitlines() if line.startswith("authorization"))
        return super().conf().replace(token, _USERS)


async def test_a_forbidden_subject_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _WithUsers(tmp_path) as server:
        async with connect(f"nats://small:secret@127.0.0.1:{server.port}", "small") as bus:
            with pytest.raises(Unavailable):
                await bus.request("forbidden.subject", b"", timeout_s=0.5)
            async with bus.subscribe("allowed.a") as heard:
                await bus.publish("allowed.a", b"")
                await anext(heard)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "forbidden.subject" in errors[0]
    assert "grant" in errors[0]
