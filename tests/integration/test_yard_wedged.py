"""A nats-server that lives but does not work, in a yard with the real services."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard import JobSpec, TaskSpec
from gpuyard.contracts.errors import GpuyardError, Unavailable
from gpuyard.contracts.job import JobState
from gpuyard.yard.endpoints import NATS
from tests.realyard import GENEROUS_S, RealYard, real_yard
from tests.yards import until

CAPTURE = "v100-8gpu-cubemesh-1hca"
JOB = JobSpec(tasks=(TaskSpec(command=("true",), gpus=1),))


async def runs_a_job(yard: RealYard) -> bool:
    """Hand a job in until the yard takes it, and see it through."""
    async with asyncio.timeout(GENEROUS_S), yard.client() as client:
        while True:
            try:
                job = await client.submit(JOB, request_id="again")
                return (await client.wait(job)).state is JobState.SUCCEEDED
            except GpuyardError:
                await asyncio.sleep(0.1)


async def test_a_frozen_nats_server_is_replaced(tmp_path: Path) -> None:
    with real_yard(tmp_path / "yard", CAPTURE) as yard:
        frozen = await yard.pid_of(NATS)
        os.kill(frozen, signal.SIGSTOP)
        await until(lambda: NATS in yard.file.services and yard.file.services[NATS].pid != frozen)
        assert await runs_a_job(yard)
        assert "nats-server is silent, killing it" in (yard.root / "logs" / "up.log").read_text()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own under the store of the yard to come."""
    store = tmp_path / "yard" / "nats"
    store.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(store)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root mounts a disk")
    try:
        yield store
    finally:
        subprocess.run(["umount", "--lazy", str(store)], check=True)


async def test_a_full_disk_is_survived_without_a_hand(tmp_path: Path, small_disk: Path) -> None:
    with real_yard(tmp_path / "yard", CAPTURE) as yard:
        assert await runs_a_job(yard)
        before = yard.file.services
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            fill(file.fileno())
        with pytest.raises(Unavailable):
            await submit_many(yard)
        assert yard.file.services == before
        filler.unlink()
        await until(lambda: NATS in yard.file.services and yard.file.services[NATS] != before[NATS])
        assert await runs_a_job(yard)
        after = yard.file.services
        assert {name: after[name] for name in before if name != NATS} == {
            name: before[name] for name in before if name != NATS
        }


async def submit_many(yard: RealYard) -> None:
    """More than the last free block takes."""
    big = JobSpec(tasks=(TaskSpec(command=("true", "x" * 60_000), gpus=1),))
    async with yard.client(timeout_s=5.0) as client:
        for _ in range(100):
            await client.submit(big)


def fill(descriptor: int) -> None:
    """Write until nothing more fits."""
    for size_bytes in (1 << 20, 1 << 12):
        try:
            while True:
                os.write(descriptor, bytes(size_bytes))
        except OSError:
            continue
