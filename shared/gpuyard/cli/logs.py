"""`gpuyard logs`: what jobs wrote, side by side, folded, searched, or in a file."""

import asyncio
import math
import shlex
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol

from gpuyard.cli import log_files, terminal
from gpuyard.cli.log_folded import BEAT_S, FoldPrinter
from gpuyard.cli.log_jobs import find_jobs
from gpuyard.cli.log_merge import merged
from gpuyard.cli.log_options import NO_OPTIONS, LogOptions, Wanted, mode_of, wanted
from gpuyard.cli.log_search import search_all
from gpuyard.cli.loglines import JsonPrinter, LinePrinter, Lines
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import LogLine

Notice = Callable[[str], None]


async def logs(
    *refs: JobArgument, options: LogOptions = NO_OPTIONS, as_json: AsJson = False, yard_dir: YardDir = None
) -> None:
    """Print what jobs wrote."""
    mode = mode_of(options, refs, as_json=as_json)
    chosen = wanted(options, time.time())
    kind = log_files.format_of(options.export, options.format) if options.export else None
    async with client(yard_dir) as yard:
        if mode == "everything":
            await search_all(yard, options, chosen, yard_dir, as_json=as_json)
            return
        jobs = await find_jobs(yard, refs, options.label)
        if options.export and kind:
            await log_files.export(yard, jobs[0], options.export, kind, as_json=as_json)
        elif mode == "read":
            await _Reading(yard, jobs, options, chosen, as_json=as_json).run(yard_dir)
        else:
            await log_files.pin(yard, jobs, pinned=options.pin, as_json=as_json)


class _Printer(Protocol):
    def print(self, lines: Lines) -> None: ...

    def end(self) -> None: ...


class _Reading:
    """Jobs that are read side by side."""

    def __init__(
        self, yard: AsyncClient, jobs: list[Job], options: LogOptions, chosen: Wanted, *, as_json: bool
    ) -> None:
        self._yard = yard
        self._jobs = jobs
        self._options = options
        self._chosen = chosen
        self._printer = self._new_printer(as_json=as_json)
        self._newest_s = -math.inf
        self._was_told = False

    async def run(self, yard_dir: str | None) -> None:
        """Print their lines to the end."""
        try:
            await self._print_all()
        except asyncio.CancelledError:  # Ctrl-C
            if self._options.follow:
                self._printer.end()
                self._say_detached(yard_dir)
            raise
        if self._newest_s == -math.inf and not self._was_told:
            terminal.narrate("There is no such line." if self._is_filtered else "Nothing was printed yet.")

    async def _print_all(self) -> None:
        sources = [self._lines(job) for job in self._jobs]
        beat_s = BEAT_S if self._options.fold and self._options.follow else None
        async with aclosing(merged(sources, beat_s=beat_s)) as groups:
            async for group in groups:
                self._printer.print(group)
                self._newest_s = max((line.at_s for line in group), default=self._newest_s)
        self._printer.end()

    async def _lines(self, job: Job) -> AsyncGenerator[LogLine, None]:
        """Lines of one job. What goes wrong with one of several is said at once, and the others go on."""
        lines = self._yard.logs(
            job,
            follow=self._options.follow,
            attempt=self._options.attempt,
            tail=self._options.tail,
            context=self._options.context or 0,
            notice=self._notice(job),
            **self._chosen._asdict(),
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    yield line
        except GpuyardError as error:
            if len(self._jobs) > 1:
                self._notice(job)(error.message)
            raise

    def _notice(self, job: Job) -> Notice:
        def notice(text: str) -> None:
            self._was_told = True
            terminal.narrate(f"{job.id}: {text}" if len(self._jobs) > 1 else text)

        return notice

    def _new_printer(self, *, as_json: bool) -> _Printer:
        if as_json:
            return JsonPrinter()
        ranks = self._chosen.ranks
        rank_counts = {job.id: len(ranks) if ranks else job.spec.rank_count for job in self._jobs}
        if self._options.fold:
            return FoldPrinter(rank_counts, follow=self._options.follow)
        if self._options.raw or self._options.prefix is False:
            return LinePrinter(prefix=False, raw=self._options.raw)
        several = any(count > 1 for count in rank_counts.values())
        return LinePrinter(prefix=self._options.prefix or several, jobs=len(self._jobs) > 1)

    @property
    def _is_filtered(self) -> bool:
        return any(value not in (None, "", False) for value in self._chosen)

    def _say_detached(self, yard_dir: str | None) -> None:
        """How to come back to where the reader was; a line of that very moment may show twice."""
        words = ["gpuyard", "logs", "-f", *(job.id for job in self._jobs)]
        words += ["--since", f"{math.floor(self._newest_s * 1e3) / 1e3:.3f}"] if self._newest_s > 1e9 else []
        words += ["--dir", yard_dir] if yard_dir else []
        terminal.narrate(f"\nCome back with `{shlex.join(words)}`.")
