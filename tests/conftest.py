"""Settings of every test, and the container engine that some share."""

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.docker.daemon import Daemon

# A slow machine must not look like a wrong program.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A script's background jobs ignore Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def dockerd() -> "Iterator[Daemon]":
    """A Docker engine with live-restore and an image of busybox; one for all tests."""
    from tests.docker.daemon import Unusable, running  # noqa: PLC0415 - a fifth of a second
    from tests.docker.images import make_busybox  # noqa: PLC0415

    try:
        with running() as daemon:
            client = daemon.client()
            make_busybox(client)
            client.close()
            yield daemon
    except Unusable as error:
        pytest.skip(f"no Docker engine: {error}")
