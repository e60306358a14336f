"""From a forked process to the rank's command, or to the reason why not."""

import ctypes
import errno
import os
import signal
from typing import NoReturn

from gpuyard_executor.supervisor.files import read_all, write_all

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_libc = ctypes.CDLL(None)

_DEFAULTED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""A program goes on ignoring what a parent ignored: Python SIGPIPE, `nohup` SIGHUP, a script's `&` SIGINT."""


class LaunchFailed(Exception):
    """The command does not run: at which stage it failed, and the error number."""

    def __init__(self, stage: str, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


def set_name(name: bytes) -> None:
    """What `ps` shows for this process."""
    _libc.prctl(_PR_SET_NAME, name)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies, in place of init."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def launch(command: list[str], cwd: str, env: dict[str, str], *, record: int) -> tuple[int, tuple[int, int]]:
    """Start the command in a session of its own; returns its process id and its two output pipes.

    It shares this process's empty input, and dies with it. Its id goes to the record before it begins.

    Raises:
        LaunchFailed: it does not run.

    """
    (out, out_end), (err, err_end), (trouble, trouble_end) = os.pipe(), os.pipe(), os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise LaunchFailed("fork", error.errno or 0) from error
    if pid == 0:
        _become(command, cwd, env, ends=(out_end, err_end, trouble_end, record), parent=parent)
    for fd in (out_end, err_end, trouble_end):
        os.close(fd)
    words = read_all(trouble).split()  # the other end closes when the command runs
    os.close(trouble)
    if not words:
        return pid, (out, err)
    os.waitpid(pid, 0)
    os.close(out)
    os.close(err)
    raise LaunchFailed(words[0].decode(), int(words[1]))


def _become(
    command: list[str], cwd: str, env: dict[str, str], *, ends: tuple[int, int, int, int], parent: int
) -> NoReturn:
    stage, (out, err, trouble, record) = "session", ends
    try:
        _leave_parent(parent)
        os.dup2(out, 1)
        os.dup2(err, 2)
        stage = "record"
        write_all(record, b"%d\n" % os.getpid())
        stage = "chdir"
        os.chdir(cwd)
        stage = "exec"
        os.execvpe(command[0], command, env)  # noqa: S606
    except OSError as error:
        os.write(trouble, f"{stage} {error.errno or 0}".encode())
    except ValueError:
        os.write(trouble, f"{stage} {errno.EINVAL}".encode())
    finally:
        os._exit(127)


def _leave_parent(parent: int) -> None:
    """A session and default signals of its own; still, die with the parent."""
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for number in _DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
