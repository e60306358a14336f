"""The phases of a job as they pass: one live line on a terminal, one plain line each where there is none."""

from typing import TextIO

from gpuyard.cli import terminal, words
from gpuyard.cli.live_line import LiveLine
from gpuyard.contracts.job import Job


class Phases:
    """Shows on stderr what a job is doing.

    The live line must be wiped before anything else is printed, and is drawn again by the next phase.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.line = LiveLine(stream)
        self._shown = ""

    def show(self, job: Job, indexes: words.Indexes) -> None:
        """Show the job's phase, if it is a new one."""
        text = words.phase(job, indexes)
        if text == self._shown:
            return
        self._shown = text
        colour = words.STATE_COLOURS[job.state]
        text = terminal.paint(job.state, colour, self.line.stream) + text.removeprefix(job.state)
        # Placement and end are worth keeping; the others are replaced by what follows.
        self.line.show(text, keep=bool(job.state.is_final or job.placement))

    def wipe(self) -> None:
        """Make room for other output."""
        self.line.wipe()
