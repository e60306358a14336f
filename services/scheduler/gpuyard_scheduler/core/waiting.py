"""Queued jobs: whose turn it is, and why the others wait.

Jobs go in order; the first that does not fit waits, and those behind it wait with it. A job that the known
nodes can't hold even when empty is parked until the nodes change: it holds up nobody, and costs nothing.
"""

from gpuyard.contracts.job import Job, JobSpec, Reason
from gpuyard.contracts.placement import Placement
from gpuyard_scheduler.core.admit import refusal
from gpuyard_scheduler.core.cluster import Cluster
from gpuyard_scheduler.core.packing import fits
from gpuyard_scheduler.core.place import place
from gpuyard_scheduler.core.queue import Queue
from gpuyard_scheduler.core.reasons import unwell
from gpuyard_scheduler.core.records import Records

_BEHIND = Reason("behind_others", "jobs of higher priority, or older ones, go first", "Raise its priority.")


class Waiting:
    """The queue, with what is known about its head."""

    def __init__(self, cluster: Cluster, records: Records) -> None:
        self._cluster = cluster
        self._records = records
        self._queue = Queue()
        self._roster = 0
        self._stuck: tuple[str, int] | None = None
        self._why_stuck: Reason | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, job: Job) -> None:
        self._queue.add(job)

    def remove(self, job: Job) -> None:
        self._queue.remove(job)

    def next_placed(self, now_s: float) -> tuple[Job, Placement] | None:
        """Take the first job out that fits now, with its place; None if somebody has to wait."""
        self._unpark()
        while (head := self._queue.head) and (head, self._cluster.version) != self._stuck:
            job = self._records.active[head]
            found = place(job.spec, self._cluster)
            if isinstance(found, Placement):
                self._queue.remove(job)
                return job, found
            if why := self._why_parked(job.spec):
                self._queue.park(job)
                self._records.explain(job, why, now_s)
            else:
                self._stuck, self._why_stuck = (head, self._cluster.version), found
        return None

    def explain(self, now_s: float, *, refresh: bool) -> None:
        """Give a reason to whoever has none; with `refresh`, bring the head's up to date.

        What changes with every job that ends is not written down each time: that would cost a write per job.
        """
        head = self._queue.head
        for job in self._records.unexplained():
            self._records.explain(job, (job.id == head and self._why_stuck) or _BEHIND, now_s)
        if refresh and head and self._why_stuck:
            self._records.explain(self._records.active[head], self._why_stuck, now_s)

    def _unpark(self) -> None:
        if self._roster != self._cluster.roster:
            self._roster = self._cluster.roster
            self._queue.unpark_all()

    def _why_parked(self, spec: JobSpec) -> Reason | None:
        """Why the job could not run even if everything were free; None if it could."""
        if not self._cluster.usable():
            return None
        if refused := refusal(spec, self._cluster):
            return Reason("too_large", refused.message, refused.hint)
        if not fits(spec, self._cluster.supposing()):
            return Reason(
                "waiting_for_nodes",
                "only nodes that do not answer now could hold it",
                "`gpuyard nodes` shows which are silent.",
            )
        emptied = self._cluster.supposing(all_well=False)
        return None if fits(spec, emptied) else unwell(spec, emptied, "are there")
