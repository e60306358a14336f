"""The verbs up, down and doctor as a user types them."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.cli.main import main
from gpuyard.contracts.subjects import STREAMS
from gpuyard.yard.check import Status
from gpuyard.yard.doctor import examine
from gpuyard.yard.layout import Layout
from gpuyard.yard.settings import SERVICES
from tests.yards import StandInYard


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUYARD_DIR", raising=False)
    monkeypatch.delenv("GPUYARD_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--simulate", "v100-8gpu-cubemesh"], 3, "v100-8gpu-cubemesh-1hca"),
        (["--simulate", "v100-8gpu-cubemesh-1hca:0"], 2, "Between 1 and 1000"),
        (["--simulate", "/no/such/file.txt"], 3, "/no/such/file.txt"),
        (["--no-local"], 2, "needs a node"),
        (["--port", "70000"], 2, "no port"),
        (["--port", "-1"], 2, "no port"),
        (["--port", "many"], 2, "port"),
        (["--dir", "a\nb"], 2, "printable"),
        (["--dri", "x"], 2, "--dir"),
    ],
)
def test_a_wrong_up_starts_nothing(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["up", "--detach", *arguments]) == code
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_topology_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("topo.log").write_text("GPU0 GPU1\n")
    assert main(["up", "--detach", "--simulate", "topo.log"]) == 2
    assert "topo.log" in capsys.readouterr().err


def test_errors_of_up_are_json_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--detach", "--json", "--nats-server", "/no/such/program"]) == 3
    failure = json.loads(capsys.readouterr().out)
    assert failure["code"] == "not_found"
    assert "pip install" in failure["hint"]


@pytest.mark.parametrize("arguments", [[], ["--stop-jobs"], ["--dir", "nowhere"]])
def test_down_where_nothing_runs_is_fine(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", *arguments]) == 0
    assert "No yard runs in" in capsys.readouterr().err


async def test_in_the_foreground_up_is_the_lean_process(tmp_path: Path) -> None:
    yard = StandInYard(tmp_path)
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gpuyard", "up", "--json", "--dir", str(yard.root)),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | yard.environment,
    )
    assert up.stdout is not None
    told = json.loads(await up.stdout.readline())
    assert (told["pid"], told["dir"]) == (up.pid, str(yard.root))
    assert set(told["services"]) == {"nats-server", *SERVICES}
    up.send_signal(signal.SIGINT)
    await up.communicate()
    assert up.returncode == 0


def test_down_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yard = StandInYard(tmp_path)
    yard.up()
    assert main(["down", "--json", "--dir", str(yard.root)]) == 0
    assert json.loads(capsys.readouterr().out) == {"dir": str(yard.root), "stopped": True, "cancelled": []}


def test_a_yard_elsewhere_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUYARD_URL", "nats://elsewhere:4222")
    assert main(["down"]) == 4
    assert "--dir" in capsys.readouterr().err


def test_doctor_without_a_yard(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["nats-server"]["status"] == "ok"
    assert checks["yard"]["status"] == "warn"
    assert "gpuyard up" in checks["yard"]["fix"]


def test_doctor_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "ok   nats-server: version" in capsys.readouterr().out


async def test_doctor_looks_at_a_running_yard(tmp_path: Path) -> None:
    yard = StandInYard(tmp_path)
    try:
        async with connect(yard.up().url, name="test") as bus:
            await bus.ensure(STREAMS)
        checks = {check.name: check for check in await examine(str(yard.root))}
    finally:
        yard.kill()
    assert {checks[name].status for name in ("yard", "bus", "clock", *SERVICES)} == {Status.OK}


async def test_doctor_finds_what_does_not_answer(tmp_path: Path) -> None:
    yard = StandInYard(tmp_path)
    yard.up()
    try:
        yard.freeze("logger", "nats-server")
        checks = {check.name: check for check in await examine(str(yard.root))}
    finally:
        yard.kill()
    for name, log in (("bus", "nats-server"), ("logger", "logger")):
        assert checks[name].status is Status.FAIL
        assert str(Layout(yard.root).log(log)) in checks[name].fix
    assert checks["monitor"].status is Status.OK
