"""Waiting jobs in their order: priority, then age. Parked jobs wait aside and hold up nobody."""

from bisect import bisect_left, insort

from gpuyard.contracts.job import Job

_Key = tuple[int, float, str]


def _key(job: Job) -> _Key:
    return -job.spec.priority, job.submitted_at_s, job.id


class Queue:
    """Ids of queued jobs, first to go first."""

    def __init__(self) -> None:
        self._keys: list[_Key] = []
        self._parked: set[_Key] = set()

    def __len__(self) -> int:
        """How many wait, parked ones included."""
        return len(self._keys) + len(self._parked)

    @property
    def head(self) -> str | None:
        """The job whose turn it is."""
        return self._keys[0][2] if self._keys else None

    def add(self, job: Job) -> None:
        insort(self._keys, _key(job))

    def park(self, job: Job) -> None:
        """Set a job aside that can't run on the nodes there are."""
        self.remove(job)
        self._parked.add(_key(job))

    def unpark_all(self) -> None:
        """The nodes changed: everybody gets another turn."""
        for key in self._parked:
            insort(self._keys, key)
        self._parked.clear()

    def remove(self, job: Job) -> None:
        """Take a job out; it must be in."""
        if _key(job) in self._parked:
            self._parked.discard(_key(job))
            return
        position = bisect_left(self._keys, _key(job))
        assert self._keys[position][2] == job.id, f"{job.id} is not queued"
        del self._keys[position]
