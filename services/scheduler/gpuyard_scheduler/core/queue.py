"""Waiting jobs in their order: priority, then age."""

from bisect import bisect_left, insort

from gpuyard.contracts.job import Job

_Key = tuple[int, float, str]


def _key(job: Job) -> _Key:
    return -job.spec.priority, job.submitted_at_s, job.id


class Queue:
    """Ids of queued jobs, first to go first."""

    def __init__(self) -> None:
        self._keys: list[_Key] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, position: int) -> str:
        return self._keys[position][2]

    def add(self, job: Job) -> None:
        insort(self._keys, _key(job))

    def remove(self, job: Job) -> None:
        """Take a job out; it must be in."""
        position = bisect_left(self._keys, _key(job))
        assert self._keys[position][2] == job.id, f"{job.id} is not queued"
        del self._keys[position]
