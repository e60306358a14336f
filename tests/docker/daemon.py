"""A Docker engine of the tests' own: containerd and dockerd on a temporary folder, not the system's."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from docker import APIClient

from tests.docker import nvidia_runtime

_START_S = 60.0
_CONTAINERD = """
version = 2
root = "{folder}/c/root"
state = "{folder}/c/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/c/sock"
"""


class Unusable(Exception):
    """No engine can be started here, and why."""


class Daemon:
    """dockerd and a stand-in for NVIDIA's runtime. `kill`, then `start`: as after a crash."""

    def __init__(self, folder: Path, *, live_restore: bool = True) -> None:
        self.folder = folder
        self.live_restore = live_restore
        self._containerd: subprocess.Popen[bytes] | None = None
        self._dockerd: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/sock"

    @property
    def seen_gpus(self) -> Path:
        """What the stand-in runtime was asked for: a line for each container, `NAME=VALUE`s."""
        return self.folder / "nvidia.log"

    def client(self) -> APIClient:
        return APIClient(self.url, timeout=60)

    def boot(self) -> None:
        """Start everything.

        Raises:
            Unusable: and why.

        """
        (self.folder / "c").mkdir(exist_ok=True)
        config = self.folder / "c" / "config.toml"
        config.write_text(_CONTAINERD.format(folder=self.folder))
        nvidia_runtime.install(self.folder / "nvidia", self.seen_gpus)
        self._containerd = self._run("containerd", "--config", str(config))
        self._until((self.folder / "c" / "sock").exists, self._containerd, "containerd")
        self.start()

    def start(self) -> None:
        folder = self.folder
        (folder / "pid").unlink(missing_ok=True)
        (folder / "daemon.json").write_text("{}")
        self._dockerd = self._run(
            "dockerd",
            *("--containerd", f"{folder}/c/sock", "--config-file", f"{folder}/daemon.json"),
            *("--data-root", f"{folder}/root", "--exec-root", f"{folder}/exec"),
            *("--pidfile", f"{folder}/pid", "--host", self.url),
            *("--bridge=none", "--iptables=false", "--ip-masq=false", "--ip-forward=false"),
            *("--add-runtime", f"nvidia={folder}/nvidia"),
            f"--live-restore={str(self.live_restore).lower()}",
        )
        self._until(self._answers, self._dockerd, "dockerd")

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self._dockerd
        self._dockerd.send_signal(how)
        self._dockerd.wait(_START_S)

    def end(self) -> None:
        """Stop everything and leave nothing behind."""
        with suppress(Exception):
            self._remove_containers()
        for process in (self._dockerd, self._containerd):
            if process and process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_START_S)
                process.kill()
                process.wait()
        for pid in _shims_of(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in _mounts_below(self.folder):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_containers(self) -> None:
        client = self.client()
        for container in client.containers(all=True):
            client.remove_container(container["Id"], force=True, v=True)
        for network in client.networks():
            if network["Driver"] == "bridge":
                client.remove_network(network["Id"])
        client.close()

    def _answers(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as engine:
            engine.connect(f"{self.folder}/sock")
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in engine.recv(4096)
        return False

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _until(self, is_up: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
        deadline_s = time.monotonic() + _START_S
        while not is_up():
            if process.poll() is not None or time.monotonic() > deadline_s:
                log = (self.folder / f"{name}.log").read_text(errors="replace")
                raise Unusable(f"{name} does not start: {log[-500:]}")
            time.sleep(0.05)


@contextmanager
def running(*, live_restore: bool = True) -> Iterator[Daemon]:
    """A daemon for a while.

    Raises:
        Unusable: not root, no Docker installed, or it does not start.

    """
    if os.geteuid():
        raise Unusable("only root can start a Docker engine")
    for program in ("dockerd", "containerd", "runc", "busybox"):
        if shutil.which(program) is None:
            raise Unusable(f"`{program}` is not installed (Debian: docker.io, busybox-static)")
    # Short, and below /tmp: a socket's path may have 108 bytes.
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="gpuyard-docker-", dir="/tmp")), live_restore=live_restore)
    try:
        daemon.boot()
        yield daemon
    finally:
        daemon.end()


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{folder}/")][::-1]


def _shims_of(folder: Path) -> list[int]:
    """What containerd leaves behind of containers whose start was cut short."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0].endswith(b"containerd-shim-runc-v2") and f"{folder}/c/sock".encode() in words:
                found.append(int(path.parent.name))
    return found
