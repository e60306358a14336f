"""The supervisor's loop: waits for the order to start, keeps output and exit code, leaves nothing behind."""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gpuyard_executor.supervisor.client import Client
from gpuyard_executor.supervisor.files import write_all
from gpuyard_executor.supervisor.launch import LaunchFailed, launch
from gpuyard_executor.supervisor.processes import children_of
from gpuyard_executor.supervisor.spool import Spool

_READ_BYTES = 65536
_KILL_ROUND_MS = 20
_LONGEST_ROUND_MS = 1000
_NO_ROOM_MS = 200
_FORSAKEN_MS = 600_000


class Supervisor:
    """One rank, from ready to gone."""

    def __init__(self, listener: socket.socket, record: int, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._record_fd = record
        self._listener = listener
        self._spool = Spool(plan["segment_bytes"], plan["limit_bytes"])
        self._poll = select.poll()
        self._on: dict[int, Callable[[], object]] = {}
        self._clients: dict[int, Client] = {}
        self._pipes: dict[int, int] = {}
        """Descriptor of each open pipe, and its stream."""
        self._hears_pipes = True
        self._state = "ready"
        self._pid = 0
        """The rank's first process until it is collected."""
        self._ended = False
        self._alone = True
        """No process of the rank is left."""
        self._stop_at_s: float | None = None
        self._round_ms = _KILL_ROUND_MS
        self._end: dict[str, Any] = {"code": None, "started_at_s": None, "stopped": False}

    def run(self) -> None:
        """Serve until nothing of the rank is left and everything is on disk."""
        self._hear_signals()
        self._hear(self._listener.fileno(), self._accept)
        while not (self._ended and self._alone and self._is_drained()):
            heard = self._poll.poll(self._patience_ms())
            for fd, _ in heard:
                self._on.get(fd, _nothing)()
            if not heard and self._is_forsaken():
                self._give_up()
            self._kill_what_must_end()
            self._hear_pipes_if_room()
        self._end.setdefault("ended_at_s", time.time())
        write_end(self._record_fd, self._end)
        self._enter("exited")

    # -- what is heard -------------------------------------------------------------------------------------

    def _hear(self, fd: int, callback: Callable[[], object]) -> None:
        self._on[fd] = callback
        self._poll.register(fd, select.POLLIN)

    def _ignore(self, fd: int) -> None:
        del self._on[fd]
        self._poll.unregister(fd)

    def _hear_signals(self) -> None:
        receiver, sender = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _nothing)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._hear(receiver, partial(self._on_signal, receiver))

    def _on_signal(self, receiver: int) -> None:
        if signal.SIGTERM in os.read(receiver, _READ_BYTES):
            self._stop(self._plan["grace_s"])
        self._collect_dead()

    def _accept(self) -> None:
        client = Client(self._listener.accept()[0])
        self._clients[client.fileno()] = client
        self._hear(client.fileno(), partial(self._obey, client))
        self._tell(client, self._status())

    def _obey(self, client: Client) -> None:
        try:
            messages = list(client.receive())
        except OSError:
            self._drop(client)
            return
        for message in messages:
            if message["do"] == "start":
                self._start(message["env"])
            elif message["do"] == "stop":
                self._stop(message["grace_s"])
            elif message["do"] == "wait":
                client.wants_after = message["offset"]
                self._tell_of_output(client)

    # -- start and stop ------------------------------------------------------------------------------------

    def _start(self, env: dict[str, str]) -> None:
        if self._state != "ready" or self._ended:
            return
        try:
            self._pid, pipes = launch(self._plan["command"], self._plan["cwd"], env, record=self._record_fd)
        except LaunchFailed as failure:
            self._end["failed"] = [failure.stage, failure.number]
            self._ended = True
            return
        self._alone = False
        self._end["started_at_s"] = time.time()
        for stream, fd in enumerate(pipes):
            os.set_blocking(fd, False)
            self._pipes[fd] = stream
            self._hear(fd, partial(self._read, fd))
        self._enter("running")

    def _is_forsaken(self) -> bool:
        """Not started, and no executor is there that could: its yard may have been deleted."""
        return self._state == "ready" and not self._clients

    def _give_up(self) -> None:
        self._end["failed"] = ["wait", errno.ETIMEDOUT]
        self._ended = True

    def _stop(self, grace_s: float) -> None:
        """Signal once; of several deadlines the earliest holds."""
        deadline_s = time.monotonic() + grace_s
        if self._stop_at_s is None:
            self._stop_at_s = deadline_s
            self._end["stopped"] = not self._ended
            self._ended = self._ended or self._state == "ready"
            self._signal_group(signal.SIGTERM)
        self._stop_at_s = min(self._stop_at_s, deadline_s)

    def _collect_dead(self) -> None:
        while not self._alone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if not pid:
                return
            if pid == self._pid:
                self._pid = 0
                self._ended = True
                self._end |= {"code": os.waitstatus_to_exitcode(status), "ended_at_s": time.time()}

    def _must_kill(self) -> bool:
        """After a stop's deadline; without a stop, as soon as the first process has ended."""
        if self._alone:
            return False
        if self._ended and not self._end["stopped"]:
            return True
        return self._stop_at_s is not None and time.monotonic() >= self._stop_at_s

    def _kill_what_must_end(self) -> None:
        """Orphans of the rank become children of its supervisor: round after round reaches them all."""
        if not self._must_kill():
            return
        self._signal_group(signal.SIGKILL)
        for pid in children_of(os.getpid()):
            with contextlib.suppress(PermissionError):  # it took another user's identity: wait for its end
                os.kill(pid, signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        """Safe only until the first process is collected: then its id may name somebody else."""
        if self._pid:
            with contextlib.suppress(PermissionError):
                os.killpg(self._pid, number)

    def _patience_ms(self) -> int | None:
        waits_ms = []
        if self._must_kill():
            self._round_ms = min(2 * self._round_ms, _LONGEST_ROUND_MS)
            waits_ms.append(self._round_ms)
        elif self._stop_at_s is not None:
            waits_ms.append(1 + max(0, int(1000 * (self._stop_at_s - time.monotonic()))))
        if not self._hears_pipes or (self._ended and self._alone):
            waits_ms.append(_NO_ROOM_MS)
        if self._is_forsaken():
            waits_ms.append(_FORSAKEN_MS)
        return min(waits_ms, default=None)

    # -- output --------------------------------------------------------------------------------------------

    def _read(self, fd: int) -> bool:
        """Move what a pipe holds to the spool; tell whether there was something."""
        if not self._spool.flush():
            return False
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_pipe(fd)
            return False
        self._spool.append(self._pipes[fd], data)
        for client in list(self._clients.values()):
            self._tell_of_output(client)
        return True

    def _close_pipe(self, fd: int) -> None:
        if self._hears_pipes:
            self._ignore(fd)
        del self._pipes[fd]
        os.close(fd)

    def _is_drained(self) -> bool:
        """Take in what the pipes still hold. One that a stranger keeps open is left when it is empty."""
        for fd in list(self._pipes):
            while self._read(fd):
                pass
        return self._spool.flush()

    def _hear_pipes_if_room(self) -> None:
        """A full pipe makes the program wait: just what shall happen while there is no room."""
        has_room = self._spool.flush() and self._spool.has_room()
        if has_room == self._hears_pipes:
            return
        self._hears_pipes = has_room
        for fd in self._pipes:
            if has_room:
                self._hear(fd, partial(self._read, fd))
            else:
                self._ignore(fd)

    # -- what is told --------------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        return {"state": self._state, "started_at_s": self._end["started_at_s"]}

    def _enter(self, state: str) -> None:
        self._state = state
        for client in list(self._clients.values()):
            self._tell(client, self._status())

    def _tell_of_output(self, client: Client) -> None:
        if client.wants_after is not None and self._spool.offset > client.wants_after:
            client.wants_after = None
            self._tell(client, {"output": self._spool.offset})

    def _tell(self, client: Client, message: dict[str, Any]) -> None:
        try:
            client.send(message)
        except OSError:
            self._drop(client)

    def _drop(self, client: Client) -> None:
        if self._clients.pop(client.fileno(), None):
            self._ignore(client.fileno())
            client.connection.close()


def _nothing(*_: object) -> None:
    """Stands for a descriptor that was dropped in the same round, or wakes the loop by having been called."""


def write_end(record: int, end: dict[str, Any]) -> None:
    """Put the end on disk, however long that has no room. The line begins anew: a try may be torn."""
    line = b"\n" + json.dumps(end).encode() + b"\n"
    while True:
        try:
            write_all(record, line)
            os.fsync(record)
        except OSError:
            time.sleep(_NO_ROOM_MS / 1000)
        else:
            return
