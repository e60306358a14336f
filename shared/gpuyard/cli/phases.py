"""The phases of a job as they pass: one live line on a terminal, one plain line each where there is none."""

import sys
from typing import TextIO

from gpuyard.cli import terminal, words
from gpuyard.contracts.job import Job


class Phases:
    """Shows on stderr what a job is doing.

    The live line must be wiped before anything else is printed, and is drawn again by the next phase.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_live = self._stream.isatty()
        self._shown = ""
        self._is_drawn = False

    def show(self, job: Job, indexes: words.Indexes) -> None:
        """Show the job's phase, if it is a new one."""
        text = words.phase(job, indexes)
        if text == self._shown:
            return
        self._shown = text
        self.wipe()
        colour = words.STATE_COLOURS[job.state]
        text = terminal.paint(job.state, colour, self._stream) + text.removeprefix(job.state)
        # Placement and end are worth keeping; the others are replaced by what follows.
        self._is_drawn = self._is_live and not (job.state.is_final or job.placement)
        self._write(text if self._is_drawn else f"{text}\n")

    def wipe(self) -> None:
        """Make room for other output."""
        if self._is_drawn:
            self._write("\r\x1b[2K")
            self._is_drawn = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
