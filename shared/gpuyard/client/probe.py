"""Probing a node: the job that measures, what it says, and the figures that come of it.

The program in `gpuyard.probe` prints its findings among a rank's output. A rate counts only where every
payload arrived as it was sent; a link that corrupts is stored as one that nobody should use.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

import gpuyard.probe as program
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.figures import MOST_GB_S, Figures, GroupFigure, PairFigure
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.ids import slug
from gpuyard.contracts.job import Job, JobSpec, TaskSpec
from gpuyard.contracts.log import OUT, LogLine
from gpuyard.contracts.subjects import FIGURES, INVENTORY, NODES_STREAM
from gpuyard.probe.report import MARK

_MARK = MARK.encode()
_FOLDER = "probe"
_Rate = Annotated[float, Meta(gt=0)]
"""GB/s; copies that do not arrive may seem to run at any rate."""


class Plan(Struct, frozen=True, tag="plan"):
    """What is going to be measured: all pairs of these GPUs, and all-reduces over groups of these sizes."""

    gpus: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def pair_count(self) -> int:
        return len(self.gpus) * (len(self.gpus) - 1) // 2


class Pair(Struct, frozen=True, tag="pair"):
    """Copies between two GPUs; figures are from `a` to `b`, then back."""

    a: str
    b: str
    gb_s: tuple[_Rate, _Rate]
    copies: tuple[int, int]
    wrong: tuple[int, int]
    p2p: bool | None = None

    @property
    def is_sound(self) -> bool:
        """Whether everything arrived as it was sent."""
        return not any(self.wrong)


class Group(Struct, frozen=True, tag="group"):
    """All-reduces over a group of GPUs, bus bandwidth."""

    gpus: tuple[str, ...]
    gb_s: _Rate
    sums: int
    wrong: int

    @property
    def is_sound(self) -> bool:
        """Whether every sum was right."""
        return not self.wrong


class Unfit(Struct, frozen=True, tag="unfit"):
    """Nothing could be measured there."""

    message: str
    hint: str = ""


class Failed(Struct, frozen=True, tag="failed"):
    """A part of the measurement failed."""

    message: str


class Done(Struct, frozen=True, tag="done"):
    """There is nothing more to come."""


Finding = Plan | Pair | Group | Unfit | Failed | Done


class Garbled(GpuyardError):
    """The program said something that can't be read, so what it measured is not known."""

    code = "probe_garbled"
    exit_code = 1

    def __init__(self, line: LogLine, why: Exception) -> None:
        super().__init__(
            f"the probe printed a finding that can't be read: {why}",
            f"Something else may write to its output: see `gpuyard logs {line.job}`, then probe again.",
            job=line.job,
        )


class Findings:
    """What a probe has found so far; a new attempt begins anew."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.plan = Plan((), ())
        self.pairs: list[Pair] = []
        self.groups: list[Group] = []
        self.failures: list[str] = []
        self.unfit: Unfit | None = None
        self.is_done = False

    def take(self, finding: Finding) -> None:
        match finding:
            case Plan():
                self._begin()
                self.plan = finding
            case Pair():
                self.pairs.append(finding)
            case Group():
                self.groups.append(finding)
            case Failed():
                self.failures.append(finding.message)
            case Unfit():
                self.unfit = finding
            case Done():
                self.is_done = True

    @property
    def is_sound(self) -> bool:
        """Whether all was measured and everything arrived."""
        return self.is_done and not self.failures and all(each.is_sound for each in self._measured)

    @property
    def _measured(self) -> tuple[Pair | Group, ...]:
        return (*self.pairs, *self.groups)


def parse_line(line: LogLine) -> Finding | None:
    """The finding in a line of output; None for any other output.

    Raises:
        Garbled: it is marked as one, and can't be read.

    """
    if line.stream != OUT or not line.text.startswith(_MARK):
        return None
    try:
        finding: Finding = msgspec.json.decode(line.text.removeprefix(_MARK), type=Finding)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbled(line, error) from error
    return finding


def probe_job(node: str, gpus: int, *, is_quick: bool = False, device: str = "cuda") -> JobSpec:
    """The job that probes: one rank with all the GPUs, so that it sees every pair."""
    command = ("python", "-m", _FOLDER, "--device", device, *(("--quick",) if is_quick else ()))
    task = TaskSpec(command, gpus=gpus, ranks=1)
    return JobSpec((task,), name=slug(f"probe-{node}"), nodes=(node,))


@asynccontextmanager
async def shipped_program() -> AsyncIterator[Path]:
    """A working directory with the program, to be uploaded with the job."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-probe-") as folder:
        source, target = Path(program.__path__[0]), Path(folder, _FOLDER)
        await asyncio.to_thread(shutil.copytree, source, target, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(folder)


def figures_of(node: str, job: Job, findings: Findings) -> Figures:
    """What is worth storing, as of the end of the job."""
    assert job.ended_at_s is not None, "it has ended"
    return Figures(
        node,
        job.ended_at_s,
        job.id,
        pairs=tuple(
            PairFigure(pair.a, pair.b, min(*pair.gb_s, MOST_GB_S), pair.is_sound) for pair in findings.pairs
        ),
        groups=tuple(GroupFigure(len(group.gpus), group.gb_s) for group in findings.groups if group.is_sound),
    )


async def store(bus: Bus, figures: Figures, *, timeout_s: float) -> None:
    """Hand figures to the node's monitor, and wait until the node's inventory carries them.

    Raises:
        TimeoutError: they are on disk, but the monitor has not taken them in yet.

    """
    subject = INVENTORY(node=figures.node)
    async with bus.read(NODES_STREAM, subject, start=From.LAST_PER_SUBJECT) as inventories:
        await bus.append(FIGURES(node=figures.node), encode(figures), msg_id=figures.probe)
        try:
            async with asyncio.timeout(timeout_s):
                async for message in inventories:
                    if _is_taken(decode(message.payload, Inventory), figures):
                        return
        except TimeoutError:
            raise TimeoutError(
                f"the figures are recorded, but the monitor of {figures.node} has not taken them in "
                f"after {timeout_s:g} s"
            ) from None


def _is_taken(inventory: Inventory, figures: Figures) -> bool:
    return inventory.probed_at_s is not None and inventory.probed_at_s >= figures.at_s
