"""How a command fails: what, why and what to do next on stderr, and a telling exit code.

With `--json` the failure is also the last object on stdout: a program that reads one need not read the other.
"""

import difflib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from cyclopts import CycloptsError, UnknownCommandError

from gpuyard.cli import terminal
from gpuyard.cli.app import COMMANDS
from gpuyard.contracts.errors import Failure, GpuyardError

USAGE, BUG, TIMED_OUT, INTERRUPTED = 2, 7, 124, 130


@dataclass
class Outcome:
    """What the process will exit with."""

    code: int = 0


@contextmanager
def reported(arguments: Sequence[str]) -> Iterator[Outcome]:
    """Turn whatever the body raises into a message and an exit code."""
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        outcome.code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last defence: every failure ends in words and a code
        outcome.code = _report(_innermost(error), as_json=_wants_json(arguments))


def _report(error: BaseException, *, as_json: bool) -> int:
    if isinstance(error, BrokenPipeError):  # the reader has seen enough, as in `gpuyard ps | head`
        _close_stdout()
        return 0
    code, failure = explain(error)
    _print(failure, as_json=as_json)
    if os.environ.get("GPUYARD_DEBUG"):
        traceback.print_exception(error)
    return code


def explain(error: BaseException) -> tuple[int, Failure]:
    """The exit code and the words for an error."""
    if isinstance(error, GpuyardError):
        return error.exit_code, error.to_failure()
    if isinstance(error, UnknownCommandError):
        return USAGE, _unknown_command(error)
    if isinstance(error, CycloptsError):
        return USAGE, Failure("usage", str(error).strip(), _usage_hint(error))
    if isinstance(error, TimeoutError):
        return TIMED_OUT, Failure("timeout", str(error) or "it took too long", retryable=True)
    what = f"{type(error).__name__}: {error}".strip(": ")
    return BUG, Failure(
        "fault",
        f"this is a bug of gpuyard: {what}",
        "Run it again with GPUYARD_DEBUG=1 and report what is printed.",
    )


def _unknown_command(error: UnknownCommandError) -> Failure:
    """In our own words: those of the parser would import every command first."""
    name = (error.unused_tokens or [""])[0]
    near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
    hint = f"Did you mean `gpuyard {near[0]}`?" if near else "`gpuyard --help` lists the commands."
    return Failure("usage", f"there is no command `{name}`", hint)


def _usage_hint(error: CycloptsError) -> str:
    command = " ".join(("gpuyard", *(error.command_chain or ())))
    if command in ("gpuyard run", "gpuyard submit"):
        return f"Put the job's command behind `--`; `{command} --help` lists the options."
    return f"`{command} --help` shows how it is used."


def _wants_json(arguments: Sequence[str]) -> bool:
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _print(failure: Failure, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(_printable(failure))
    terminal.narrate(terminal.paint("error", "red", sys.stderr) + f": {failure.message}")
    if failure.hint:
        terminal.narrate(failure.hint)


def _printable(failure: Failure) -> dict[str, Any]:
    """The failure as JSON; where a file is wrong in a line, its number stands at the top for editors."""
    line = failure.details.get("line", "")
    printed: dict[str, Any] = msgspec.to_builtins(failure)
    return printed | {"line": int(line)} if line.isdecimal() else printed


def _innermost(error: BaseException) -> BaseException:
    """What a group of one holds; tasks that run side by side raise groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _close_stdout() -> None:
    """Keep the interpreter from flushing into the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
