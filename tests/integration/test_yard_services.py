"""A yard with the real services: what a user starts, stops and finds again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard import AsyncClient, JobSpec, TaskSpec
from gpuyard.cli.main import main
from gpuyard.client import locate
from gpuyard.contracts.job import JobState
from gpuyard.yard import stop
from tests.yards import is_alive, until

SIMULATED = "v100-8gpu-cubemesh-1hca"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GPUYARD_DIR", str(tmp_path / "yard"))
    yield tmp_path / "yard"
    if locate.lock_holder(tmp_path / "yard"):
        main(["down", "--stop-jobs"])


def up() -> None:
    assert main(["up", "--detach", "--no-local", "--simulate", f"{SIMULATED}:2"]) == 0


def test_all_is_well_after_up(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    up()
    assert f"2 simulated ({SIMULATED}-1 to {SIMULATED}-2)" in capsys.readouterr().err
    assert main(["doctor", "--json"]) == 0
    checks = {check["name"]: check["status"] for check in json.loads(capsys.readouterr().out)}
    services = ("yard", "bus", "clock", "logger", "monitor", "scheduler", "executor")
    assert {checks[name] for name in services} == {"ok"}
    assert main(["down"]) == 0
    assert main(["down"]) == 0


def test_commands_work_below_the_directory_of_the_yard(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUYARD_DIR")
    monkeypatch.chdir(tmp_path)
    digits = tmp_path / "examples" / "digits"
    digits.mkdir(parents=True)
    try:
        up()
        monkeypatch.chdir(digits)
        assert main(["run", "--gpus", "2", "--no-workdir", "--", "true"]) == 0
        assert main(["ps", "--all"]) == 0
        assert main(["down"]) == 0
        assert locate.lock_holder(tmp_path / locate.DEFAULT_DIR) is None
    finally:
        main(["down", "--dir", str(tmp_path / locate.DEFAULT_DIR)])


async def test_jobs_outlive_the_yard_and_are_adopted(root: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = ("sh", "-c", f"echo $$ > {pid_file}.new && mv {pid_file}.new {pid_file} && exec sleep 600")
    await asyncio.to_thread(up)
    async with AsyncClient(dir=root) as client:
        job = await client.submit(JobSpec(tasks=(TaskSpec(command=command, gpus=1),)))
        await until(pid_file.exists)
    pid = int(pid_file.read_text())
    await stop.stop(root)
    assert is_alive(pid)

    await asyncio.to_thread(up)
    async with AsyncClient(dir=root) as client:
        assert (await client.get(job)).state is JobState.RUNNING
        assert await stop.cancel_jobs(client) == [job.id]
        again = await client.get(job)
    assert again.state is JobState.CANCELLED
    assert again.attempt == 1
    assert not is_alive(pid)


async def test_down_can_stop_jobs_first(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(up)
    async with AsyncClient(dir=root) as client:
        job = await client.submit(JobSpec(tasks=(TaskSpec(command=("sleep", "600")),)))
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["down", "--stop-jobs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cancelled"] == [job.id]
    assert locate.lock_holder(root) is None
