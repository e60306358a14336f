"""The spawner: a small process that forks supervisors for an executor and ends with it. They live on."""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from typing import NoReturn

from gpuyard_executor.supervisor.files import write_all
from gpuyard_executor.supervisor.keeper import Keeper
from gpuyard_executor.supervisor.launch import adopt_orphans, set_name
from gpuyard_executor.supervisor.supervisor import Supervisor


def spawn(requests: socket.socket) -> None:
    """Fork a supervisor for each request (three descriptors) until the executor is gone."""
    set_name(b"gpuyard-spawner")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects supervisors that ended
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.get_exec_path({})  # imports here what every fork would have to import for itself
    gc.freeze()
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 16, 3)
        if not data:
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        with contextlib.suppress(OSError):  # no process to be had: the executor sees its connection end
            if os.fork() == 0:
                requests.close()
                supervise(*fds)
        for fd in fds:
            os.close(fd)


def supervise(directory: int, record: int, listener: int) -> NoReturn:
    """Be the supervisor or keeper of the rank in this directory. Its record, held open, is locked."""
    try:
        os.setsid()
        os.fchdir(directory)
        os.close(directory)
        set_name(b"gpuyard-rank")
        adopt_orphans()
        plan = json.loads(os.pread(record, os.fstat(record).st_size, 0).partition(b"\n")[0])
        serve = Keeper if plan["is_container"] else Supervisor
        serve(socket.socket(fileno=listener), record, plan).run()
    except BaseException as error:  # noqa: BLE001 - last words, else nobody would ever learn why
        with contextlib.suppress(OSError):
            write_all(os.open("trouble", os.O_WRONLY | os.O_CREAT, 0o600), repr(error).encode())
        os._exit(1)
    os._exit(0)


def main() -> None:
    spawn(socket.socket(fileno=int(sys.argv[-1])))
