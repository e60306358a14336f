"""The executor's handle on its spawner."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import gpuyard_executor

_ROOT = Path(gpuyard_executor.__file__).parents[1]
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from gpuyard_executor.supervisor.spawner import main; main()"
)
_PATIENCE_S = 2.0


class SpawnerHandle:
    """Starts the spawner when it is first needed, and again if it is gone. It ends with this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def start(self) -> None:
        """Start the spawner ahead of the first need."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.settimeout(_PATIENCE_S)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, str(_ROOT), str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Supervisors live long: they shall not carry the executor's environment with its secrets.
                env={key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ},
                start_new_session=True,
            )
        self._requests = mine

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def spawn(self, directory: int, record: int, listener: int) -> None:
        """Fork a supervisor into a directory. It holds copies of the descriptors; the caller closes its own.

        Raises:
            OSError: the spawner can't be started.

        """
        fds = [directory, record, listener]
        try:
            socket.send_fds(self._connection(), [b"spawn"], fds)
        except OSError:
            self.close()
            socket.send_fds(self._connection(), [b"spawn"], fds)

    def close(self) -> None:
        """End the spawner; supervisors stay."""
        if self._requests:
            self._requests.close()
            self._requests = None
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _connection(self) -> socket.socket:
        if self._requests is None:
            self.start()
        assert self._requests
        return self._requests
