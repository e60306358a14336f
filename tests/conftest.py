"""Settings of every test, and the engine that tests of containers share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.docker.daemon import Daemon, Unusable, running
from tests.docker.images import make_busybox

# A slow machine must not look like a wrong program.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A script's background jobs ignore Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Daemon]:
    """A Docker engine with live-restore and an image of busybox; one for all tests."""
    try:
        with running() as daemon:
            client = daemon.client()
            make_busybox(client)
            client.close()
            yield daemon
    except Unusable as error:
        pytest.skip(f"no Docker engine: {error}")
