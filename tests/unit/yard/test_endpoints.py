import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.contracts.errors import InvalidSpec, Unavailable
from gpuyard.yard import endpoints
from gpuyard.yard.endpoints import HOST, NATS, settle, why_taken

NAMES = ("monitor", "logger")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_PATIENCE_S", 0.0)


def test_ports_and_token_are_chosen_once(tmp_path: Path) -> None:
    first = settle(tmp_path / "e", NAMES, 0)
    assert settle(tmp_path / "e", NAMES, 0) == first
    assert len(set(first.ports.values())) == 3
    assert first.url == f"nats://{first.token}@127.0.0.1:{first.ports[NATS]}"
    assert stat.S_IMODE((tmp_path / "e").stat().st_mode) == 0o600


def test_two_yards_have_their_own_secrets(tmp_path: Path) -> None:
    assert settle(tmp_path / "a", NAMES, 0).token != settle(tmp_path / "b", NAMES, 0).token


def test_the_user_may_choose_and_choose_again(tmp_path: Path) -> None:
    one, other = endpoints._free_port(()), endpoints._free_port(())
    assert settle(tmp_path / "e", NAMES, one).ports[NATS] == one
    assert settle(tmp_path / "e", NAMES, 0).ports[NATS] == one
    assert settle(tmp_path / "e", NAMES, other).ports[NATS] == other


def test_a_taken_port_is_named(tmp_path: Path, taken: int) -> None:
    with pytest.raises(Unavailable, match=f"port {taken} .* something else uses it") as error:
        settle(tmp_path / "e", NAMES, taken)
    assert error.value.exit_code == 6
    assert "--port" in error.value.hint


def test_a_health_port_that_is_taken_is_chosen_anew(tmp_path: Path, taken: int) -> None:
    before = settle(tmp_path / "e", NAMES, 0)
    (tmp_path / "e").write_text(
        f'{{"token": "t", "ports": {{"{NATS}": {before.ports[NATS]}, "logger": {taken}}}}}'
    )
    after = settle(tmp_path / "e", NAMES, 0)
    assert after.ports["logger"] != taken
    assert after.ports[NATS] == before.ports[NATS]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("{")
    with pytest.raises(InvalidSpec, match="damaged"):
        settle(tmp_path / "e", NAMES, 0)


def test_a_port_that_was_just_closed_is_not_taken(taken: int) -> None:
    assert why_taken(taken)
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()
        port = server.getsockname()[1]
    assert not why_taken(port)
