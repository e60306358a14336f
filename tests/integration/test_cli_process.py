"""Real processes: what a shell sees of `gpuyard`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.contracts.job import Job
from tests.natsd import NatsServer
from tests.unit.client.fake_yard import FakeYard, fake_yard

PATIENCE_S = 60


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpuyard", *arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user without a yard and without colours."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUYARD_")}
    return {**kept, "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def server(tmp_path: Path, environment: dict[str, str]) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "server", durable=False) as server:
        environment["GPUYARD_URL"] = server.url
        yield server


@pytest.fixture
async def yard(server: NatsServer) -> AsyncIterator[FakeYard]:
    async with connect(server.url, "double") as bus, fake_yard(bus) as yard:
        yield yard


async def start(
    arguments: list[str], environment: dict[str, str], folder: Path
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command(*arguments), env=environment, cwd=folder, stdout=pipe, stderr=pipe
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--version"], 0, ""),
        (["--help"], 0, ""),
        (["sumbit"], 2, "Did you mean `gpuyard submit`?"),
        (["run", "--gpsu", "2", "--", "true"], 2, "--gpus"),
        (["ps"], 3, "gpuyard up"),
        (["ps", "--dir", "/nowhere"], 3, "there is no yard in /nowhere"),
        (["submit", "-f", "nothing.toml"], 3, "nothing.toml"),
    ],
)
def test_codes_and_streams(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], code: int, message: str
) -> None:
    ended = subprocess.run(
        command(*arguments), env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    assert message in ended.stderr
    assert bool(ended.stdout) == (code == 0)
    assert len(ended.stderr.splitlines()) <= 3


def test_the_installed_command_is_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("gpuyard")
    ended = subprocess.run(
        [script, "--version"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("gpuyard ")


def test_asking_for_the_version_loads_nothing(environment: dict[str, str]) -> None:
    """Start-up time is kept by what is not imported."""
    code = "import sys; from gpuyard.cli.main import main; main(['--version']); print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    heavy = {"asyncio", "cyclopts", "msgspec", "nats", "rich", "opentelemetry", "structlog"}
    assert not heavy & set(ended.stdout.split())


def test_looking_at_jobs_loads_no_more_than_it_needs(environment: dict[str, str], tmp_path: Path) -> None:
    code = "import sys; from gpuyard.cli.main import main; main(['ps']); print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"rich.console", "structlog", "docker", "prometheus_client"} & set(ended.stdout.split())


async def test_ctrl_c_detaches(yard: FakeYard, environment: dict[str, str], tmp_path: Path) -> None:
    async def begin(yard: FakeYard, job: Job) -> None:
        job = await yard.start(job)
        await yard.print_lines(job, 0, "hello")

    yard.script = begin
    run = await start(["run", "--no-workdir", "--", "python", "train.py"], environment, tmp_path)
    assert run.stdout
    assert await asyncio.wait_for(run.stdout.readline(), PATIENCE_S) == b"hello\n"
    run.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(run.communicate(), PATIENCE_S)
    (job,) = yard.jobs
    assert run.returncode == 130, err
    assert f"Come back with `gpuyard logs -f {job}`" in err.decode()
    assert b"Traceback" not in err


async def test_a_reader_that_leaves_is_no_error(
    yard: FakeYard, environment: dict[str, str], tmp_path: Path
) -> None:
    async def print_much(yard: FakeYard, job: Job) -> None:
        job = await yard.start(job)
        for first in range(0, 50_000, 5_000):
            await yard.print_lines(job, 0, *("x" * 50 for _ in range(5_000)), first=first)
        await yard.print_lines(job, 0, first=50_000, end=True)
        await yard.end(job)

    yard.script = print_much
    line = " ".join(command("run", "--no-workdir", "--", "a")) + " | head -n 2"
    shell = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"{line}; exit ${{PIPESTATUS[0]}}",
        env=environment,
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(shell.communicate(), PATIENCE_S)
    assert out.splitlines() == [b"x" * 50] * 2
    assert b"Traceback" not in err
    assert b"error" not in err
    assert shell.returncode == 0, err


async def test_submit_and_look_again(yard: FakeYard, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)")
    submit = await start(["submit", "--json", "--", "python", "train.py"], environment, tmp_path / "code")
    out, _ = await asyncio.wait_for(submit.communicate(), PATIENCE_S)
    submitted = json.loads(out)
    show = await start(["show", submitted["id"][:-3], "--json"], environment, tmp_path)
    out, _ = await asyncio.wait_for(show.communicate(), PATIENCE_S)
    assert json.loads(out) == submitted
    assert submitted["workdir"].startswith("sha256-")
