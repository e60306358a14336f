"""Entry point of the command line: what a run of `gpuyard` exits with, whatever happens in it.

Everything is imported late: asking for the version must not load a command line parser, nor a command those
of the others.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuyard.cli.session import Connect


def main(argv: Sequence[str] | None = None, *, connect: "Connect | None" = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: Arguments without the program's name; by default those of the process.
        connect: How to reach a yard; by default the one named by `--dir`, found as usual.

    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        return _print_version()
    from gpuyard.cli import failures, session  # noqa: PLC0415
    from gpuyard.cli.app import app  # noqa: PLC0415

    with session.connecting(connect), failures.reported(arguments) as outcome:
        outcome.code = app(arguments) or 0
        sys.stdout.flush()
    return outcome.code


def _print_version() -> int:
    from gpuyard import __version__  # noqa: PLC0415

    sys.stdout.write(f"gpuyard {__version__}\n")
    return 0
