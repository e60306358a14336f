"""A stretch of network between a program and a server: it can be cut, slow, silent, or answer with errors."""

import socket
import threading
import time
from contextlib import suppress
from typing import Literal

Mode = Literal["through", "cut", "silent", "errors"]
_PIECE_BYTES = 64 * 1024
_ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Wire:
    """Listens on a port and passes everything on to another one, both of this machine."""

    def __init__(self, to_port: int) -> None:
        self.passed_bytes = 0
        """What went to the server since the mode changed."""
        self.met = 0
        """Connections since the mode changed."""
        self._to_port = to_port
        self._mode: Mode = "through"
        self._bytes_per_s = 0.0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def become(self, mode: Mode, bytes_per_s: float = 0.0) -> None:
        """Treat everything like this from now on; connections that are open break."""
        self._mode, self._bytes_per_s = mode, bytes_per_s
        self.passed_bytes = self.met = 0
        for connection in list(self._open):
            _close(connection)
        self._open.clear()

    def close(self) -> None:
        _close(self._listener)
        self.become("cut")

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(near)
            self.met += 1
            if self._mode == "cut":
                _close(near)
            elif self._mode == "errors":
                threading.Thread(target=self._refuse, args=(near,), daemon=True).start()
            elif self._mode == "through":
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._to_port))
        except OSError:
            _close(near)
            return
        self._open.add(far)
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._pass_on, args=(source, target, target is far), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_sent: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                target.sendall(data)
                self.passed_bytes += len(data) * is_sent
                if self._bytes_per_s:
                    time.sleep(len(data) / self._bytes_per_s)
        _close(source)
        _close(target)

    def _refuse(self, near: socket.socket) -> None:
        with suppress(OSError):
            near.recv(_PIECE_BYTES)
            near.sendall(_ERROR)
            near.shutdown(socket.SHUT_WR)
            while near.recv(_PIECE_BYTES):
                pass
        _close(near)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
