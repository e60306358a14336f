import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuyard_monitor.core.foreign import Origin
from gpuyard_monitor.processes import MARK, Processes

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def process(env: dict[str, str], *command: str) -> Iterator[int]:
    """A process that says when it runs, until the block ends."""
    with subprocess.Popen(
        command or (sys.executable, "-c", WAIT), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stdout.readline() == b"up\n"
        try:
            yield running.pid
        finally:
            running.stdin.close()


def me() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_the_mark_is_what_the_executor_sets() -> None:
    with process({"GPUYARD_JOB_ID": "digits-1"}) as pid:
        assert MARK == b"GPUYARD_JOB_ID="
        assert Processes().origins([pid]) == {pid: Origin(me(), program(pid), "digits-1")}


def test_a_process_without_a_mark_is_nobodys() -> None:
    with process({}) as pid:
        assert Processes().origins([pid])[pid].job is None


def test_a_child_that_cleared_its_environment_is_known_by_its_parent() -> None:
    child = f"import os; print(os.getpid(), flush=True); {WAIT}"
    spawn = (
        "import subprocess, sys; "
        f"command = [sys.executable, '-c', {child!r}]; "
        "p = subprocess.Popen(command, env={}, stdin=0, stdout=subprocess.PIPE); "
        "pid = p.stdout.readline(); print('up', flush=True); print(pid.decode().strip(), flush=True); "
        "sys.exit(p.wait())"
    )
    with subprocess.Popen(
        (sys.executable, "-c", spawn),
        env={"GPUYARD_JOB_ID": "digits-1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdin
        assert running.stdout
        running.stdout.readline()
        pid = int(running.stdout.readline())
        assert Processes().origins([pid])[pid].job == "digits-1"
        running.stdin.close()


def test_a_mark_that_is_no_id_is_none() -> None:
    with process({"GPUYARD_JOB_ID": "No Job!"}) as pid:
        assert Processes().origins([pid])[pid].job is None


def test_processes_that_are_gone_are_left_out() -> None:
    processes = Processes()
    with process({}) as pid:
        assert pid in processes.origins([pid])
    assert processes.origins([pid]) == {}


def test_an_id_that_is_used_again_is_looked_up_again(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    _fake(tmp_path, 7, started=1, job="first")
    assert processes.origins([7])[7].job == "first"
    _fake(tmp_path, 7, started=1, job="unread")
    assert processes.origins([7])[7].job == "first"
    _fake(tmp_path, 7, started=2, job="second")
    assert processes.origins([7])[7].job == "second"


def test_a_user_without_a_name_has_a_number(tmp_path: Path) -> None:
    _fake(tmp_path, 7, started=1, job="first")
    os.chown(tmp_path / "proc" / "7", 54_321, -1)
    assert Processes(tmp_path).origins([7])[7].user == "54321"


def test_a_name_can_not_move_the_cursor(tmp_path: Path) -> None:
    _fake(tmp_path, 7, started=1, job="first")
    (tmp_path / "proc/7/comm").write_bytes(b"\x1b[2J\xe2\x80\xaeab\xff\n")
    assert Processes(tmp_path).origins([7])[7].name == "?[2J?ab\ufffd"


def test_nor_can_the_name_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake(tmp_path, 7, started=1, job="first")
    entry = pwd.struct_passwd(("\x1b[31mroot", "", 0, 0, "", "", ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    assert Processes(tmp_path).origins([7])[7].user == "?[31mroot"


def _fake(root: Path, pid: int, *, started: int, job: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (a (odd) name) S 1 " + "0 " * 17 + f"{started} 0 0")
    (folder / "comm").write_text("python\n")
    (folder / "environ").write_bytes(b"A=B\0GPUYARD_JOB_ID=" + job.encode() + b"\0")
