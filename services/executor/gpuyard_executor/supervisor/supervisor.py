"""The supervisor's loop: waits for the order to start, keeps output and exit code, leaves nothing behind."""

import contextlib
import errno
import os
import signal
import socket
import time
from functools import partial
from typing import Any

from gpuyard_executor.supervisor.audience import Audience
from gpuyard_executor.supervisor.end import NO_ROOM_MS, write_end
from gpuyard_executor.supervisor.intake import Intake
from gpuyard_executor.supervisor.launch import LaunchFailed, launch
from gpuyard_executor.supervisor.poller import Poller
from gpuyard_executor.supervisor.processes import children_of
from gpuyard_executor.supervisor.spool import Spool

_READ_BYTES = 65536
_KILL_ROUND_MS = 20
_LONGEST_ROUND_MS = 1000
_FORSAKEN_MS = 600_000


class Supervisor:
    """One rank, from ready to gone."""

    def __init__(self, listener: socket.socket, record: int, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._record_fd = record
        self._poller = Poller()
        spool = Spool(plan["segment_bytes"], plan["limit_bytes"])
        self._audience = Audience(self._poller, spool, self._obey, self._status)
        self._audience.open(listener)
        self._intake = Intake(self._poller, spool, self._audience.tell_of_output)
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
        while not (self._ended and self._alone and self._intake.drain()):
            if not self._poller.wait(self._patience_ms()) and self._is_forsaken():
                self._give_up()
            self._kill_what_must_end()
            self._intake.adjust()
        self._end.setdefault("ended_at_s", time.time())
        write_end(self._record_fd, self._end)
        self._enter("exited")

    # -- what is heard -------------------------------------------------------------------------------------

    def _hear_signals(self) -> None:
        receiver, sender = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _nothing)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._poller.hear(receiver, partial(self._on_signal, receiver))

    def _on_signal(self, receiver: int) -> None:
        if signal.SIGTERM in os.read(receiver, _READ_BYTES):
            self._stop(self._plan["grace_s"])
        self._collect_dead()

    def _obey(self, message: dict[str, Any]) -> None:
        if message["do"] == "start":
            self._start(message["env"])
        elif message["do"] == "stop":
            self._stop(message["grace_s"])

    def _status(self) -> dict[str, Any]:
        return {"state": self._state, "started_at_s": self._end["started_at_s"]}

    def _enter(self, state: str) -> None:
        self._state = state
        self._audience.tell(self._status())

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
            self._intake.add(fd, stream)
        self._enter("running")

    def _is_forsaken(self) -> bool:
        """Not started, and no executor is there that could: its yard may have been deleted."""
        return self._state == "ready" and not self._audience

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
        if not self._intake.is_open or (self._ended and self._alone):
            waits_ms.append(NO_ROOM_MS)
        if self._is_forsaken():
            waits_ms.append(_FORSAKEN_MS)
        return min(waits_ms, default=None)


def _nothing(*_: object) -> None:
    """A signal handler: it wakes the loop by having been called."""
