"""Reading jobs: the newest message on a job's subject is the job as it is, all of them are its history."""

from collections.abc import AsyncGenerator, Iterable

from msgspec import Struct

from gpuyard.bus.port import Bus, From, Message
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, Fault, InvalidSpec, NotFound
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.job import Job, JobState
from gpuyard.contracts.subjects import JOB, STATE_STREAM

MOST_NAMED = 5


class Event(Struct, frozen=True):
    """Something that happened to a job, with its place in the history: `after=seq` goes on behind it."""

    seq: int
    index: int
    job: str
    state: JobState
    attempt: int
    kind: str
    at_s: float
    message: str


def parse_job(message: Message) -> Job:
    """The record in a message of a job's subject.

    Raises:
        Fault: it can't be read.

    """
    try:
        return decode(message.payload, Job)
    except InvalidSpec as error:
        raise Fault(
            f"the record on {message.subject} can't be read: {error.message}",
            "This client may be older than the scheduler: update gpuyard.",
        ) from error


async def newest(bus: Bus, job: str) -> Job | None:
    """The job with exactly this id as it is now; None if there is none."""
    message = await bus.last(STATE_STREAM, JOB(job=job))
    return None if message is None else parse_job(message)


async def everything(bus: Bus) -> list[Job]:
    """Every job as it is now, oldest first."""
    jobs = []
    async with bus.read(STATE_STREAM, JOB.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            jobs.append(parse_job(await anext(reader)))
    return sorted(jobs, key=lambda job: (job.submitted_at_s, job.id))


async def find(bus: Bus, ref: str) -> Job:
    """Find a job by its id, a unique beginning of it, or its name.

    Of several jobs with the same name or beginning, the only active one is meant, if there is just one.

    Raises:
        InvalidSpec: this can't be an id or a name.
        NotFound: no such job.
        Conflict: it could be several; the error lists them.

    """
    if not is_id(ref):
        raise InvalidSpec(
            f"`{ref[:80]}` can't be a job: ids and names hold lower-case letters, digits and dashes"
        )
    if job := await newest(bus, ref):
        return job
    jobs = await everything(bus)
    named = [job for job in jobs if job.spec.name == ref]
    return _the_one(ref, named or [job for job in jobs if job.id.startswith(ref)])


async def changes(bus: Bus, job: str) -> AsyncGenerator[Job, None]:
    """The job as it is now and after each change, until it has ended."""
    while True:
        try:
            async with bus.read(STATE_STREAM, JOB(job=job), start=From.LAST_PER_SUBJECT) as reader:
                async for message in reader:
                    record = parse_job(message)
                    yield record
                    if record.state.is_final:
                        return
        except Conflict:  # the stream was found behind what was read: what it holds now is the truth
            continue


async def history(bus: Bus, job: str | None, *, after: int, live: bool) -> AsyncGenerator[Event, None]:
    """What happened, in order: to one job, until it has ended; or to all, for ever if `live`."""
    subject = JOB.all if job is None else JOB(job=job)
    start: From | int = after + 1 if after else From.FIRST
    read_seq = 0
    while True:
        try:
            async with bus.read(STATE_STREAM, subject, start=start) as reader:
                while live or reader.backlog:
                    message = await anext(reader)
                    read_seq = message.seq
                    record = parse_job(message)
                    for event in _events(message.seq, record) if message.seq > after else ():
                        yield event
                    if job is not None and record.state.is_final and not reader.backlog:
                        return  # what a rank printed last may be told of behind its end
            return
        except Conflict:
            if read_seq or not after:
                raise
            # `after` is beyond the end: only what comes later can be wanted.
            start = From.LAST_PER_SUBJECT


def _the_one(ref: str, candidates: list[Job]) -> Job:
    if not candidates:
        raise NotFound(f"there is no job `{ref}`", "`gpuyard ps --all` lists all jobs.", job=ref)
    active = [job for job in candidates if not job.state.is_final]
    for choice in (candidates, active):
        if len(choice) == 1:
            return choice[0]
    newest_first = [job.id for job in reversed(active or candidates)]
    more = f" and {len(newest_first) - MOST_NAMED} more" if len(newest_first) > MOST_NAMED else ""
    raise Conflict(
        f"`{ref}` could be {', '.join(newest_first[:MOST_NAMED])}{more}",
        "Give more of the id.",
        candidates=" ".join(newest_first),
    )


def _events(seq: int, job: Job) -> Iterable[Event]:
    for index, event in enumerate(job.events):
        yield Event(seq, index, job.id, job.state, event.attempt, event.kind, event.at_s, event.message)
