import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuyard.contracts.container_engine import EngineInfo
from gpuyard.yard.check import Check, Status
from gpuyard.yard.container_engine import examine_engine, judge_gpu_access, judge_live_restore

INFO = {"ServerVersion": "28.2.2", "LiveRestoreEnabled": True, "Runtimes": {"runc": {}, "nvidia": {}}}


def test_without_an_engine_is_no_failure(tmp_path: Path) -> None:
    (check,) = examine_engine(8, str(tmp_path / "none.sock"))
    assert check.status is Status.WARN


def answered(folder: Path, answer: bytes, gpu_count: int = 0) -> list[Check]:
    """The checks when an engine gives this answer."""
    with socket.socket(socket.AF_UNIX) as engine, ThreadPoolExecutor() as pool:
        engine.bind(str(folder / "docker.sock"))
        engine.listen()
        pool.submit(_answer_one, engine, answer)
        return list(examine_engine(gpu_count, str(folder / "docker.sock")))


def _answer_one(engine: socket.socket, answer: bytes) -> None:
    connection, _ = engine.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(answer)


def http(body: Any) -> bytes:
    return b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(body).encode()


def test_an_engine_that_is_fit(tmp_path: Path) -> None:
    checks = {check.name: check for check in answered(tmp_path, http(INFO), gpu_count=8)}
    assert {check.status for check in checks.values()} == {Status.OK}
    assert "28.2.2" in checks["docker"].message
    assert "`nvidia`" in checks["container GPUs"].message


def test_a_machine_without_gpus_is_not_told_about_them(tmp_path: Path) -> None:
    assert [check.name for check in answered(tmp_path, http(INFO))] == ["docker", "live-restore"]


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.0 500 Oh\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nno json", b"junk\r\n\r\n", http([])]
)
def test_what_is_no_engine_is_told(tmp_path: Path, answer: bytes) -> None:
    (check,) = answered(tmp_path, answer)
    assert (check.name, check.status) == ("docker", Status.WARN)


@pytest.mark.parametrize(("gpu_count", "status"), [(0, Status.WARN), (1, Status.FAIL)])
def test_without_live_restore(gpu_count: int, status: Status) -> None:
    check = judge_live_restore(EngineInfo("1", has_live_restore=False), gpu_count)
    assert check.status is status
    assert "daemon.json" in check.fix


def test_device_requests_can_not_be_seen_beforehand() -> None:
    check = judge_gpu_access(EngineInfo("1", has_live_restore=True))
    assert check.status is Status.WARN
    assert "nvidia-ctk" in check.fix
