"""The yard as a whole, with the real nats-server and stand-ins for the services."""

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuyard.client import locate
from gpuyard.contracts.errors import Conflict, NotFound, Unavailable
from gpuyard.yard.endpoints import NATS, Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.probe import ask_nats, ask_service
from gpuyard.yard.settings import SERVICES
from tests.yards import StandInYard, is_alive, until

EVERYTHING = (NATS, *SERVICES)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[StandInYard]:
    yard = StandInYard(tmp_path)
    yield yard
    yard.kill()


def token_and_port(url: str) -> tuple[str, int]:
    token, _, address = url.removeprefix("nats://").partition("@")
    return token, int(address.rpartition(":")[2])


async def bus_answers(url: str) -> bool:
    token, port = token_and_port(url)
    return (await ask_nats(port, token)).is_ready


async def test_up_comes_back_when_all_is_ready_and_down_ends_all(yard: StandInYard) -> None:
    file = yard.up()
    assert locate.find(str(yard.root)).url == file.url
    assert await bus_answers(file.url)
    for name in SERVICES:
        port = file.services[name].health_port
        assert port
        assert (await ask_service(port)).is_ready
        assert f"{name} is here" in yard.log(name)
    assert await yard.down() == file.pid
    assert not any(is_alive(running.pid) for running in file.services.values())
    assert locate.lock_holder(yard.root) is None
    assert await yard.down() is None


async def test_secrets_are_for_the_owner_alone(yard: StandInYard) -> None:
    token, _ = token_and_port(yard.up().url)
    holders = [path for path in yard.root.glob("*") if path.is_file() and token in path.read_text()]
    assert {path.name for path in holders} == {"yard.json", "endpoints.json", "nats.conf", "services.toml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    arguments = [Path(f"/proc/{each.pid}/cmdline").read_text() for each in yard.file.services.values()]
    assert not any(token in each for each in arguments)


async def test_a_second_up_is_refused(yard: StandInYard) -> None:
    file = yard.up()
    with pytest.raises(Conflict, match=f"pid {file.pid}") as error:
        yard.up()
    assert "gpuyard down --dir" in error.value.hint
    assert await bus_answers(file.url)


async def test_a_taken_port_is_named(yard: StandInYard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(Unavailable, match=f"port {port}") as error:
            yard.up(port=port)
    assert error.value.exit_code == 6
    assert "--port" in error.value.hint


async def test_in_the_foreground_too(yard: StandInYard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        up = await yard.spawn(port=port)
        _, said = await up.communicate()
    assert up.returncode == 6
    assert said.decode().startswith(f"error: port {port} for nats-server can't be opened")


async def test_a_directory_that_cannot_be_used(yard: StandInYard) -> None:
    yard.root.touch()
    with pytest.raises(Unavailable, match="can't be used"):
        yard.up()


async def test_a_missing_server_is_told(yard: StandInYard) -> None:
    with pytest.raises(NotFound) as error:
        yard.up(nats_server="/no/such/program")
    assert "pip install" in error.value.hint


async def test_a_service_that_fails_takes_the_start_back(yard: StandInYard) -> None:
    yard.behave("scheduler", "fail")
    with pytest.raises(Unavailable, match="scheduler can't open its store") as error:
        yard.up()
    assert "scheduler.log" in error.value.hint
    await until(lambda: locate.lock_holder(yard.root) is None)
    endpoints = msgspec.json.decode(Layout(yard.root).endpoints.read_bytes(), type=Endpoints)
    assert not await bus_answers(endpoints.url)


@pytest.mark.parametrize("name", EVERYTHING)
async def test_what_is_killed_comes_back(yard: StandInYard, name: str) -> None:
    before = yard.up()
    os.kill(before.services[name].pid, signal.SIGKILL)
    await until(
        lambda: name in yard.file.services and yard.file.services[name].pid != before.services[name].pid
    )
    while not await bus_answers(before.url):
        await asyncio.sleep(0.02)
    port = before.services[name].health_port
    while port and not (await ask_service(port)).is_ready:
        await asyncio.sleep(0.02)
    others = set(EVERYTHING) - {name}
    assert all(yard.file.services[each] == before.services[each] for each in others)
    assert f"{name} ended with code -9; starting it again in 0.2 s" in yard.log("up")


async def test_a_killed_up_leaves_no_services_but_what_they_left_behind(
    yard: StandInYard, tmp_path: Path
) -> None:
    yard.behave("executor", "parent", STAND_IN_PID_FILE=str(tmp_path / "pid"))
    before = yard.up()
    survivor = int((tmp_path / "pid").read_text())
    try:
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: not any(is_alive(running.pid) for running in before.services.values()))
        assert is_alive(survivor)
    finally:
        os.kill(survivor, signal.SIGKILL)


async def test_a_new_up_follows_a_killed_one(yard: StandInYard) -> None:
    before = yard.up()
    os.kill(before.pid, signal.SIGKILL)
    await until(lambda: locate.lock_holder(yard.root) is None)
    with pytest.raises(Unavailable, match="not running"):
        locate.find(str(yard.root))
    after = yard.up()
    assert after.pid != before.pid
    assert after.url == before.url
    assert await bus_answers(after.url)


async def test_an_interrupt_stops_in_order_and_says_what_runs_on(yard: StandInYard) -> None:
    up = await yard.spawn()
    await until((yard.root / locate.YARD_FILE).exists)
    services = yard.file.services
    up.send_signal(signal.SIGINT)
    _, said = await up.communicate()
    assert up.returncode == 0
    assert b"keep running" in said
    assert not any(is_alive(running.pid) for running in services.values())


async def test_a_second_interrupt_kills(yard: StandInYard) -> None:
    yard.behave("executor", "stubborn")
    up = await yard.spawn()
    await until((yard.root / locate.YARD_FILE).exists)
    services = yard.file.services
    up.send_signal(signal.SIGINT)
    assert up.stderr is not None
    while b"once more to kill" not in await up.stderr.readline():
        pass
    up.send_signal(signal.SIGINT)
    _, said = await up.communicate()
    assert b"does not end" not in said
    assert not any(is_alive(running.pid) for running in services.values())


async def test_an_interrupted_start_leaves_nothing(yard: StandInYard) -> None:
    yard.behave("monitor", "never")
    up = await yard.spawn()
    await until(lambda: Layout(yard.root).log("monitor").exists() and "is here" in yard.log("monitor"))
    up.send_signal(signal.SIGTERM)
    _, said = await up.communicate()
    assert b"stopped before it was ready" in said
    assert not (yard.root / locate.YARD_FILE).exists()
    assert locate.lock_holder(yard.root) is None


async def test_up_itself_is_lean(yard: StandInYard) -> None:
    pid = yard.up().pid
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss_kib = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    assert pss_kib < 30 * 1024
