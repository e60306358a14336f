"""Slurm on the same machine in the same run, where its Debian packages are installed and we are root.

One node that claims eight GPUs, no-op jobs of one GPU as a job array, which is Slurm's fastest way to submit.
State and job completions go to disk, as in Gpuyard.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.figures import Figure

JOBS = 100
RUNS = 3
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
_PATIENCE_S = 60.0

_CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 Gres=gpu:8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def is_available() -> bool:
    return os.geteuid() == 0 and all(shutil.which(program) for program in _PROGRAMS)


def measure() -> list[Figure]:
    with _cluster() as (folder, environment):
        rates = tuple(_run(folder, environment) for _ in range(RUNS))
    return [Figure("no-op jobs, Slurm on this machine", "jobs/s", rates)]


def _run(folder: Path, environment: dict[str, str]) -> float:
    completed = folder / "completed"
    target = _lines(completed) + JOBS
    started_s = time.monotonic()
    array = ("sbatch", "--gres=gpu:1", "-n1", "-o", "/dev/null", f"--array=1-{JOBS}", "--wrap", "true")
    subprocess.run(array, env=environment, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    _wait(lambda: _lines(completed) >= target, "jobs to end", 300)
    return JOBS / (time.monotonic() - started_s)


@contextmanager
def _cluster() -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="gy-slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for sub in ("state", "spool"):
            (folder / sub).mkdir()
        host = socket.gethostname().split(".")[0]
        (folder / "slurm.conf").write_text(_CONF.format(host=host, folder=folder))
        for number in range(8):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-7]\n")
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        daemons = [_start(daemon, environment) for daemon in _commands(folder)]
        try:
            _wait(lambda: "idle" in _output("sinfo", environment), "a node", _PATIENCE_S)
            yield folder, environment
        finally:
            for daemon in reversed(daemons):
                daemon.send_signal(signal.SIGTERM)
            for daemon in daemons:
                daemon.wait(30)


def _commands(folder: Path) -> Iterator[tuple[str, ...]]:
    yield (
        "munged",
        "--foreground",
        "--force",
        f"--key-file={folder}/munge.key",
        f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munged.pid",
        f"--log-file={folder}/munged.log",
        f"--seed-file={folder}/munged.seed",
    )
    yield ("slurmctld", "-D")
    yield ("slurmd", "-D")


def _start(command: tuple[str, ...], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    null = subprocess.DEVNULL
    started = subprocess.Popen(command, env=environment, stdout=null, stderr=null)
    time.sleep(1)
    return started


def _output(command: str, environment: dict[str, str]) -> str:
    return subprocess.run((command,), env=environment, capture_output=True, text=True, check=False).stdout


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait(is_true: Callable[[], bool], what: str, patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    while not is_true():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no {what} within {patience_s:g} s")
        time.sleep(0.05)
