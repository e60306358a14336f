"""Why a command does not run, in words and as the exit code a shell would give."""

import errno
import os

_NOT_FOUND, _NOT_RUNNABLE = 127, 126


def describe_launch_failure(stage: str, number: int, program: str, cwd: str) -> tuple[int | None, str]:
    """Exit code and sentence. No code: it was not the program's fault, another try may succeed."""
    reason = os.strerror(number)
    if stage == "chdir":
        return _NOT_RUNNABLE, f"the working directory `{cwd}` can't be entered: {reason}"
    if stage != "exec":
        return None, f"`{program}` could not be started: {reason} ({stage})"
    if number == errno.ENOENT:
        return _NOT_FOUND, f"`{program}` was not found, or the interpreter that its first line names"
    if number == errno.EACCES:
        return _NOT_RUNNABLE, f"`{program}` may not be executed: make it a program with `chmod +x`"
    if number == errno.ENOEXEC:
        return _NOT_RUNNABLE, f"`{program}` is not a program: a script needs a first line like `#!/bin/sh`"
    if number == errno.E2BIG:
        return _NOT_RUNNABLE, f"arguments and environment of `{program}` are too long for the system"
    return _NOT_RUNNABLE, f"`{program}` can't be executed: {reason}"
