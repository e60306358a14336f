"""The jobs' records and what has to be written of them. Every change of a job goes through `change`."""

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from gpuyard.contracts.codec import encode
from gpuyard.contracts.job import Job, JobEvent, JobState, Reason
from gpuyard.contracts.subjects import STATE_STREAM
from gpuyard_scheduler.core.events import Commit, Effect, Forget
from gpuyard_scheduler.core.states import after

KEEP_BYTES = STATE_STREAM.max_bytes // 2
"""Histories of ended jobs may fill half of the stream: it must never be full, the lease is in it too."""
_FORGET_AT_ONCE = 16
_KEPT_WHOLE = 1_000
"""What a rank printed last may be heard of when its job has ended: so many records can still be added to."""


class Records:
    """Active jobs in full, and those that ended last; of others only the ids, oldest first."""

    def __init__(self, term: int, keep_ended: int) -> None:
        self.term = term
        self.active: dict[str, Job] = {}
        self.ended: dict[str, JobState] = {}
        self._just_ended: dict[str, Job] = {}
        self._bytes_of: dict[str, int] = {}
        self._ended_bytes = 0
        self.by_request: dict[str, str] = {}
        self._request_of: dict[str, str] = {}
        self._keep_ended = keep_ended
        self._changed: dict[str, list[JobEvent]] = {}
        self._drafts: dict[str, Job] = {}

    def load(self, jobs: Iterable[Job]) -> None:
        """Take over what is stored."""
        for job in sorted(jobs, key=lambda job: job.ended_at_s or 0.0):
            self._remember(job)

    def add(self, job: Job, event: JobEvent) -> None:
        self._remember(job)
        self._draft(job, event)

    def change(self, job: Job, kind: str, message: str, now_s: float, **fields: Any) -> Job:
        """Move a job along the table and note what happened."""
        return self.note(job, kind, message, now_s, state=after(job.state, kind), **fields)

    def explain(self, job: Job, reason: Reason, now_s: float) -> Job:
        """Say why a job is where it is, unless that was said before."""
        if job.reason == reason:
            return job
        return self.note(job, "waiting", reason.message, now_s, reason=reason)

    def unexplained(self) -> list[Job]:
        """Jobs of this round that wait without a reason."""
        return [job for job in self._drafts.values() if job.state is JobState.QUEUED and job.reason is None]

    def note(self, job: Job, kind: str, message: str, now_s: float, **fields: Any) -> Job:
        """Note what happened to a job without moving it."""
        changed = structs.replace(job, **fields)
        self._remember(changed)
        self._draft(changed, JobEvent(kind, now_s, message, changed.attempt))
        return changed

    def find(self, job_id: str) -> Job | None:
        """The record of a job that is active or ended not long ago."""
        return self.active.get(job_id) or self._just_ended.get(job_id)

    def flush(self) -> list[Effect]:
        """One record for each job that changed, with all that happened to it since the last flush."""
        effects: list[Effect] = []
        for job_id, events in self._changed.items():
            job = self._drafts[job_id]
            job = structs.replace(job, version=job.version + 1, term=self.term, events=tuple(events))
            kept = self._just_ended if job.state.is_final else self.active
            kept[job_id] = structs.replace(job, events=())
            effects.append(Commit(job))
        self._changed.clear()
        self._drafts.clear()
        return effects

    def _remember(self, job: Job) -> None:
        self.by_request[job.request_id] = job.id
        self._request_of[job.id] = job.request_id
        if job.state.is_final:
            self.active.pop(job.id, None)
            self.ended[job.id] = job.state
            self._ended_bytes -= self._bytes_of.get(job.id, 0)
            self._bytes_of[job.id] = len(encode(job)) * (job.version + 1)
            self._ended_bytes += self._bytes_of[job.id]
            self._keep_whole(job)
        else:
            self.active[job.id] = job

    def _keep_whole(self, job: Job) -> None:
        self._just_ended[job.id] = job
        if len(self._just_ended) > _KEPT_WHOLE:
            del self._just_ended[next(iter(self._just_ended))]

    def _draft(self, job: Job, event: JobEvent) -> None:
        self._drafts[job.id] = job
        self._changed.setdefault(job.id, []).append(event)

    def forget(self) -> list[Effect]:
        """Histories to delete, a few at a time: the oldest of too many, or of too many bytes."""
        effects: list[Effect] = []
        while len(effects) < _FORGET_AT_ONCE and (
            len(self.ended) > self._keep_ended or self._ended_bytes > KEEP_BYTES
        ):
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            self._ended_bytes -= self._bytes_of.pop(oldest)
            self._just_ended.pop(oldest, None)
            self.by_request.pop(self._request_of.pop(oldest), None)
            effects.append(Forget(oldest))
        return effects
