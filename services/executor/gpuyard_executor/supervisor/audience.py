"""Executors connected to a supervisor: one, or none while it is away, or two for a moment at its restart."""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from gpuyard_executor.supervisor.client import Client
from gpuyard_executor.supervisor.poller import Poller
from gpuyard_executor.supervisor.spool import Spool


class Audience:
    """Hears what they want and tells them what is new. `greeting` is what a new one is told first."""

    def __init__(
        self,
        poller: Poller,
        spool: Spool,
        obey: Callable[[dict[str, Any]], None],
        greeting: Callable[[], dict[str, Any]],
    ) -> None:
        self._poller = poller
        self._spool = spool
        self._obey = obey
        self._greeting = greeting
        self._clients: dict[int, Client] = {}

    def __bool__(self) -> bool:
        return bool(self._clients)

    def open(self, listener: socket.socket) -> None:
        self._poller.hear(listener.fileno(), partial(self._accept, listener))

    def tell(self, message: dict[str, Any]) -> None:
        for client in list(self._clients.values()):
            self._send(client, message)

    def tell_of_output(self) -> None:
        for client in list(self._clients.values()):
            self._tell_of_output(client)

    def _accept(self, listener: socket.socket) -> None:
        client = Client(listener.accept()[0])
        self._clients[client.fileno()] = client
        self._poller.hear(client.fileno(), partial(self._receive, client))
        self._send(client, self._greeting())

    def _receive(self, client: Client) -> None:
        try:
            messages = list(client.receive())
        except OSError:
            self._drop(client)
            return
        for message in messages:
            if message["do"] == "wait":
                client.wants_after = message["offset"]
                self._tell_of_output(client)
            else:
                self._obey(message)

    def _tell_of_output(self, client: Client) -> None:
        if client.wants_after is not None and self._spool.offset > client.wants_after:
            client.wants_after = None
            self._send(client, {"output": self._spool.offset})

    def _send(self, client: Client, message: dict[str, Any]) -> None:
        try:
            client.send(message)
        except OSError:
            self._drop(client)

    def _drop(self, client: Client) -> None:
        if self._clients.pop(client.fileno(), None):
            self._poller.ignore(client.fileno())
            client.connection.close()
