"""A whole yard whose ranks run in containers: the training example, and what kills may do to it."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpuyard.contracts.job import JobSpec, JobState, TaskSpec
from tests.docker.daemon import Daemon
from tests.docker.python_image import PYTHON, make_python
from tests.docker.rig import bridges, names
from tests.realyard import RealYard, lines_by_rank, real_yard

pytest.importorskip("torch", reason="the `examples` extra is not installed")

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture
def yard(dockerd: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealYard]:
    with closing(dockerd.client()) as client:
        make_python(client)
    settings = {"RUNTIME": "docker", "DOCKER_URL": dockerd.url, "DOCKER_IMAGE": PYTHON}
    for name, value in settings.items():
        monkeypatch.setenv(f"GPUYARD_EXECUTOR__{name}", value)
    with real_yard(tmp_path / "yard", "hgx-a100-4gpu-delta") as yard:
        yield yard


async def test_a_gang_in_containers_learns_the_digits_whatever_is_killed(
    yard: RealYard, dockerd: Daemon
) -> None:
    async with yard.client() as client:
        digits = TaskSpec(("python", "train.py"), gpus=2)
        job = await client.submit(JobSpec((digits,)), workdir=DIGITS)
        seen: dict[int, list[str]] = {}
        kills = {3: lambda: yard.kill_9("executor"), 6: lambda: kill_engine(dockerd)}
        async for line in client.logs(job.id, follow=True):
            seen.setdefault(line.rank, []).append(line.text.decode())
            epoch = re.match(rb"rank 0 epoch (\d+)", line.text)
            if epoch and (kill := kills.pop(int(epoch[1]), None)):
                await kill()
        done = await client.wait(job.id, timeout_s=120)
        assert done.state is JobState.SUCCEEDED, (
            done.exit,
            {rank: lines[-12:] for rank, lines in seen.items()},
        )
        assert done.attempt == 1
        stored = await lines_by_rank(client, job.id)
    assert not kills
    assert {rank: [line.text.decode() for line in lines] for rank, lines in stored.items()} == seen
    assert "rank 1 of 2 on cpu" in seen[1][0]
    (accuracy,) = re.findall(r"^test accuracy: (\d\.\d+)$", "\n".join(seen[0]), re.MULTILINE)
    assert float(accuracy) >= 0.95
    placed = {gpu for slot in done.placement.slots for gpu in slot.gpus} if done.placement else set()
    asked = [line.split()[1] for line in dockerd.seen_gpus.read_text().splitlines()[-2:]]
    assert [set(gpus.split(",")) for gpus in asked] == [placed, placed]
    with closing(dockerd.client()) as client_of_engine:
        assert not [name for name in names(client_of_engine) if job.id in name]
        assert not [name for name in bridges(client_of_engine) if job.id in name]


async def kill_engine(dockerd: Daemon) -> None:
    """Kill it, and start it again a moment later."""
    dockerd.kill()
    await asyncio.to_thread(dockerd.start)
