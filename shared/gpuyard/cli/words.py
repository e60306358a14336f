"""Jobs in words for people: where, why, how long, how it ended. Pure."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gpuyard.cli import terminal
from gpuyard.contracts.job import Exit, Job, JobState, TaskSpec
from gpuyard.contracts.placement import PlacedLink, Placement, Slot

Indexes = Mapping[str, int]
"""Index of each GPU on its node, by UUID."""

STATE_COLOURS = {
    JobState.QUEUED: "yellow",
    JobState.STARTING: "cyan",
    JobState.RUNNING: "cyan",
    JobState.STOPPING: "yellow",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "magenta",
}


_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float) -> str:
    """A length of time: `0.4 s`, `12 s`, `3 min 4 s`, `5 h 2 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    for unit_s, unit, smaller_s, smaller in _UNITS:
        if whole >= unit_s:
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def count(number: int, noun: str) -> str:
    """`1 rank`, `2 ranks`, `no ranks`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def size(number_of_bytes: int | None) -> str:
    """Memory in GiB; `?` if unknown."""
    return "?" if number_of_bytes is None else f"{number_of_bytes / 2**30:.1f} GiB"


@lru_cache(maxsize=4096)
def harmless(text: str) -> str:
    """Text of strangers, as a terminal may see it."""
    return terminal.harmless(text.encode(errors="replace"), keep_colour=False)


def place(placement: Placement, indexes: Indexes) -> str:
    """Where a gang is: `node dgx1-1: GPU 0, 3 (NV2 48 GB/s)`."""
    return "; ".join(
        _on_node(node, placement.on(node), [link for link in placement.links if link.node == node], indexes)
        for node in placement.nodes
    )


def _on_node(node: str, slots: Iterable[Slot], links: list[PlacedLink], indexes: Indexes) -> str:
    slots = tuple(slots)
    gpus = [gpu for slot in slots for gpu in slot.gpus]
    if not gpus:
        return f"node {node}: {count(len(slots), 'rank')}, no GPU"
    return f"node {node}: GPU {gpus_named(gpus, indexes)}" + (f" ({_links(links)})" if links else "")


def gpus_named(gpus: Sequence[str], indexes: Indexes) -> str:
    """GPUs by their indexes, or by UUID where one is unknown."""
    if all(gpu in indexes for gpu in gpus):
        return ", ".join(str(index) for index in sorted(indexes[gpu] for gpu in gpus))
    return ", ".join(gpus)


def _links(links: list[PlacedLink]) -> str:
    """Kinds of links, the fastest first: `2 x NV2, SYS, slowest 8.5 GB/s`."""
    fastest_first = sorted(links, key=lambda link: -(link.gb_s or 0.0))
    kinds = Counter(link.label for link in fastest_first).items()
    named = ", ".join(label if number == 1 else f"{number} x {label}" for label, number in kinds)
    measured = [link.gb_s for link in links if link.gb_s is not None]
    if len(measured) < len(links):
        return named
    return f"{named}{', slowest' if len(links) > 1 else ''} {min(measured):g} GB/s"


def phase(job: Job, indexes: Indexes) -> str:
    """What a job is doing now, in one line."""
    words: list[str] = [job.state]
    if job.state is JobState.STARTING and job.placement:
        words.append(f"on {place(job.placement, indexes)}")
    elif job.state is JobState.RUNNING:
        words.append(f"{count(job.spec.rank_count, 'rank')}, attempt {job.attempt}")
    else:
        words.append(why(job))
    return ": ".join(word for word in words if word)


def why(job: Job) -> str:
    """Why a job is where it is, or how it ended."""
    if job.state.is_final:
        return ending(job)
    return job.reason.message if job.reason else ""


def task(spec: TaskSpec) -> str:
    """What a task runs: `2 ranks, 2 GPUs: python train.py`."""
    env = f" (with {', '.join(sorted(spec.env))})" if spec.env else ""
    return f"{count(spec.rank_count, 'rank')}, {count(spec.gpus, 'GPU')}: {shlex.join(spec.command)}{env}"


def ending(job: Job) -> str:
    """How a job ended, and how long it ran: `rank 1 on node n1 failed first: it raised; ran 3 min 4 s`."""
    parts = [_failure(job.exit)] if job.exit else []
    if job.started_at_s is not None and job.ended_at_s is not None:
        parts.append(f"ran {duration(job.ended_at_s - job.started_at_s)}")
    return "; ".join(part for part in parts if part)


def _failure(exit_: Exit) -> str:
    message = exit_.message or (f"exit code {exit_.code}" if exit_.code else "")
    if exit_.rank is None:
        return message
    where = f" on node {exit_.node}" if exit_.node else ""
    return f"rank {exit_.rank}{where} failed first" + (f": {message}" if message else "")


def exit_code(job: Job) -> int:
    """What `gpuyard run` exits with: the job's own code, 1 if it failed without one."""
    if job.state is JobState.SUCCEEDED:
        return 0
    code = job.exit.code if job.exit else None
    return code if code and 0 < code < 256 else 1
