"""A local S3 server over HTTP, as a process that can be killed, started again, and made slow or faulty."""

import http.client
import subprocess
import sys
import time
from pathlib import Path

from tests.natsd import free_port

BUCKET = "outputs"
_WITHIN_S = 60.0


class S3Server:
    """moto's server on a port of its own. It keeps its objects in memory: they are lost with it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "s3.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/yard"

    @property
    def options(self) -> dict[str, str]:
        return self.options_by(self.port)

    def options_by(self, port: int) -> dict[str, str]:
        """Options of who reaches it through another port."""
        return {
            "endpoint": f"http://127.0.0.1:{port}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
        }

    def start(self) -> None:
        """Start, and return once the bucket is there."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until_s = time.monotonic() + _WITHIN_S
        while not self._has_bucket():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until_s, "the S3 server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(_WITHIN_S)
            self._process = None

    def _has_bucket(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("PUT", f"/{BUCKET}")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
