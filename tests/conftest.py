"""Settings of every test, and the engine that tests of containers share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.docker.daemon import Daemon, Unusable, running
from tests.docker.images import make_busybox

# A slow machine must not look like a wrong program.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


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
