"""`gpuyard logs --export`, `--pin` and `--unpin`: a job's output as a file, and how long it is kept."""

import sys
from pathlib import Path

from msgspec import Struct

from gpuyard.cli import terminal, words
from gpuyard.cli.live_line import LiveLine
from gpuyard.client.aio import AsyncClient
from gpuyard.client.export import Exported, Format
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.job import Job

_FORMATS: dict[str, Format] = {".txt": "plain", ".log": "plain", ".jsonl": "jsonl", ".parquet": "parquet"}


class ExportView(Struct, frozen=True):
    """What was written, as `--json` prints it."""

    job: str
    path: str
    format: Format
    lines: int
    text_bytes: int


class PinView(Struct, frozen=True):
    """Whether a job's output is kept, as `--json` prints it."""

    job: str
    pinned: bool


def format_of(path: Path, given: Format | None) -> Format:
    """What the file shall be.

    Raises:
        InvalidSpec: its name does not say.
        NotFound: there is no such folder.

    """
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent} for {path.name}", "Make it, or choose another.")
    if given is None and path.suffix not in _FORMATS:
        raise InvalidSpec(
            f"the name `{path.name}` does not say what the file shall be",
            f"End it with {', '.join(_FORMATS)}, or give --format.",
        )
    return given or _FORMATS[path.suffix]


async def export(yard: AsyncClient, job: Job, path: Path, kind: Format, *, as_json: bool) -> None:
    """Write a job's output to a file, and show how far it is."""
    line = LiveLine()

    def notice(text: str) -> None:
        line.note(text)

    def progress(so_far: Exported) -> None:
        if sys.stderr.isatty():
            line.show(f"{path}: {_amount(so_far)}")

    try:
        written = await yard.export_logs(job, path, kind, progress=progress, notice=notice)
    finally:
        line.wipe()
    if as_json:
        terminal.print_json(ExportView(job.id, str(path), kind, written.lines, written.text_bytes))
    else:
        terminal.narrate(f"Wrote {_amount(written)} of {job.id} to {path}")


def _amount(exported: Exported) -> str:
    size, unit = (
        (exported.text_bytes / 1e6, "MB") if exported.text_bytes >= 1e6 else (exported.text_bytes / 1e3, "kB")
    )
    return f"{words.count(exported.lines, 'line')}, {size:.1f} {unit} of text"


async def pin(yard: AsyncClient, jobs: list[Job], *, pinned: bool, as_json: bool) -> None:
    """Keep the output of jobs, or let the rules decide again."""
    for job in jobs:
        await (yard.pin_logs(job) if pinned else yard.unpin_logs(job))
        if as_json:
            terminal.print_json(PinView(job.id, pinned))
        else:
            terminal.print_data(f"{job.id}  {'pinned' if pinned else 'not pinned'}")
