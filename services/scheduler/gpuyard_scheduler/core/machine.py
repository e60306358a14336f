"""The scheduler's decisions: told what happened and what time it is, it says what to do.

`handle` takes events one by one; `decide` then places what fits and returns the effects of the whole round:
records first, then the orders and answers that rest on them. Every job's record is written before anything is
done about it, so a scheduler that dies in between is continued by the next from the records alone.
"""

from collections.abc import Iterable

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.ids import job_id
from gpuyard.contracts.job import Exit, ExitCause, Job, JobEvent, JobState, Reason
from gpuyard.contracts.order import Order, Stop
from gpuyard.contracts.placement import Placement
from gpuyard.contracts.request import Accepted, Cancel, Finding, Reply, Submit
from gpuyard_scheduler.core import orders
from gpuyard_scheduler.core.admit import refusal
from gpuyard_scheduler.core.cluster import Cluster
from gpuyard_scheduler.core.events import (
    Answer,
    BeatSeen,
    Effect,
    Event,
    ExecutorSeen,
    FactSeen,
    Give,
    InventorySeen,
    LoadSeen,
    Requested,
    Ticked,
)
from gpuyard_scheduler.core.findings import take_in
from gpuyard_scheduler.core.gang import GangView, can_be_tried_again
from gpuyard_scheduler.core.names import some_of
from gpuyard_scheduler.core.records import Records
from gpuyard_scheduler.core.waiting import Waiting

MAX_LAUNCHES = 3
KEEP_ENDED = 10_000


class Machine:
    """The state of the cluster and its jobs under one term."""

    def __init__(self, term: int, *, keep_ended: int = KEEP_ENDED) -> None:
        self.cluster = Cluster()
        self.records = Records(term, keep_ended)
        self.waiting = Waiting(self.cluster, self.records)
        self._term = term
        self._facts: dict[str, dict[str, GangFact]] = {}
        self._unreadable: frozenset[str] = frozenset()
        self._launch_until_s: dict[str, float] = {}
        """Launch deadlines, by the clock that only goes forward."""
        self._start_given: dict[str, int] = {}
        self._give: list[Give] = []
        self._answers: list[Answer] = []
        self._refresh = False

    # -- taking over ---------------------------------------------------------------------------------------

    def load(self, jobs: Iterable[Job], now_s: float, mono_s: float, unreadable: Iterable[str] = ()) -> None:
        """Continue where an earlier term stopped: orders are given again, which is harmless.

        What runs of jobs whose record can't be read (a newer version wrote it) is left alone.
        """
        self._unreadable = frozenset(unreadable)
        self.records.load(jobs)
        for job in list(self.records.active.values()):
            if job.state is JobState.QUEUED:
                self.waiting.add(job)
            elif job.placement:
                self._hold(job.id, job.placement)
                if job.state is JobState.STARTING:
                    self._order(job, orders.prepare(job, job.placement, self._term))
                    passed_s = max(0.0, now_s - (job.placed_at_s or now_s))
                    self._launch_until_s[job.id] = mono_s + max(0.0, job.spec.launch_deadline_s - passed_s)
                elif job.state is JobState.STOPPING:
                    cause = job.stop_cause or ExitCause.UNKNOWN
                    self._order(job, orders.stop(job, job.placement.nodes, self._term, cause))

    # -- events --------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_s: float, mono_s: float) -> None:
        """Take in one event. `now_s` is for people, `mono_s` is measured with: it only goes forward."""
        match event:
            case Requested(Submit() as request, trace):
                self._answer(request.reply_to, self._submit(request, trace, now_s))
            case Requested(Cancel() as request):
                self._answer(request.reply_to, self._cancel(request, now_s))
            case Requested(Finding() as request):
                self._answer(request.reply_to, take_in(request, self.records, self.cluster, now_s))
            case FactSeen(fact):
                self._see_fact(fact, now_s)
            case BeatSeen(node):
                self.cluster.see_beat(node, mono_s)
            case InventorySeen(inventory):
                self.cluster.see_inventory(inventory)
            case ExecutorSeen(info):
                self.cluster.see_executor(info)
            case LoadSeen(node, levels):
                self.cluster.see_load(node, levels)
            case Ticked():
                self.cluster.check_silence(mono_s)
                self._check_launches(now_s, mono_s)
                self._refresh = True

    def decide(self, now_s: float, mono_s: float) -> list[Effect]:
        """Place what fits, then return everything to be done since the last call, in order."""
        while found := self.waiting.next_placed(now_s):
            self._place(*found, now_s, mono_s)
        self.waiting.explain(now_s, refresh=self._refresh)
        self._refresh = False
        effects = self.records.flush() + self._give + self._answers + self.records.forget()
        self._give, self._answers = [], []
        return effects

    # -- requests ------------------------------------------------------------------------------------------

    def _submit(self, request: Submit, trace: str, now_s: float) -> Reply:
        known = self.records.by_request.get(request.request_id)
        if known:
            return self._repeated(request, known)
        if refused := refusal(request.spec, self.cluster):
            return refused
        job = Job(
            id=self._new_id(request),
            request_id=request.request_id,
            spec=request.spec,
            state=JobState.QUEUED,
            version=0,
            submitted_at_s=now_s,
            trace=trace,
        )
        self.records.add(job, JobEvent("queued", now_s, f"submitted by {request.spec.owner or 'someone'}"))
        self.waiting.add(job)
        return Accepted(job.id, JobState.QUEUED)

    def _repeated(self, request: Submit, known: str) -> Reply:
        job = self.records.active.get(known)
        if job and job.spec != request.spec:
            return Failure(
                "conflict",
                f"the request id {request.request_id} belongs to {known}, which is a different job",
                "Use a request id of its own for each job.",
            )
        return Accepted(known, job.state if job else self.records.ended[known])

    def _new_id(self, request: Submit) -> str:
        """Longer ids where a short one is taken by another request."""
        for digits in range(6, 23):
            candidate = job_id(request.spec.name, request.request_id, digits)
            if candidate not in self.records.active and candidate not in self.records.ended:
                return candidate
        raise AssertionError("two requests with the same id")

    def _cancel(self, request: Cancel, now_s: float) -> Reply:
        job = self.records.active.get(request.job)
        if job is None:
            return self._cancel_ended(request.job)
        exit_ = Exit(None, ExitCause.CANCELLED, "cancelled on request")
        if job.state is JobState.QUEUED:
            self.waiting.remove(job)
            job = self._end(job, "cancelled", exit_.message, now_s, exit_)
        elif job.state is JobState.STOPPING:
            job = self.records.note(
                job, "cancel_requested", exit_.message, now_s, stop_cause=exit_.cause, exit=exit_
            )
        else:
            job = self._stop(job, exit_, now_s)
        return Accepted(job.id, job.state)

    def _cancel_ended(self, job: str) -> Reply:
        state = self.records.ended.get(job)
        if state is None:
            return Failure("not_found", f"there is no job {job}", "`gpuyard ps --all` lists the known ones.")
        if state is not JobState.CANCELLED:
            return Failure("conflict", f"{job} has already {state}", "There is nothing left to cancel.")
        return Accepted(job, state)

    # -- facts ---------------------------------------------------------------------------------------------

    def _see_fact(self, fact: GangFact, now_s: float) -> None:
        job = self.records.active.get(fact.job)
        if job is None or job.attempt != fact.attempt or job.placement is None:
            self._see_stray(fact)
            return
        facts = self._facts.setdefault(job.id, {})
        if not (facts.get(fact.node) and facts[fact.node].released):
            facts[fact.node] = fact
            self._advance(job, GangView(job, facts), now_s)

    def _see_stray(self, fact: GangFact) -> None:
        """Something runs that should not: end it, and give its GPUs to nobody until it is gone."""
        owner = f"{fact.job}.{fact.attempt}"
        if fact.released:
            self.cluster.release(owner, fact.node)
            return
        for rank in fact.ranks:
            self.cluster.hold_if_free(owner, fact.node, rank.gpus)
        if fact.job in self._unreadable:
            return
        stop = Stop(fact.node, fact.job, fact.attempt, self._term, ExitCause.CANCELLED)
        self._give.append(Give(stop, ""))

    def _advance(self, job: Job, gang: GangView, now_s: float) -> None:
        """Move a job as far as the facts carry it."""
        if job.state is JobState.STOPPING:
            self._finish_stop(job, gang, now_s)
            return
        failure = gang.first_failure() or gang.refusal()
        if job.state is JobState.STARTING and gang.is_running and not failure:
            message = f"ranks that run: {job.spec.rank_count}"
            job = self.records.change(
                job, "running", message, now_s, started_at_s=gang.started_at_s or now_s, reason=None
            )
            self.cluster.trust(gang.nodes)
            gang = GangView(job, gang.facts)
        if failure:
            job = self._stop(job, failure, now_s, started_at_s=job.started_at_s or gang.started_at_s)
            self._finish_stop(job, GangView(job, gang.facts), now_s)
        elif job.state is JobState.RUNNING and gang.has_ended:
            self._end(job, "succeeded", "every rank ended well", now_s, Exit(0))
        elif job.state is JobState.STARTING and gang.is_ready and len(gang.nodes) > 1:
            self._start(job, gang)

    def _start(self, job: Job, gang: GangView) -> None:
        """Every rank on every node is ready: let them run, once."""
        master = gang.rendezvous()
        if master and self._start_given.get(job.id) != job.attempt:
            self._start_given[job.id] = job.attempt
            self._order(job, orders.start(job, gang.nodes, self._term, master))

    def _check_launches(self, now_s: float, mono_s: float) -> None:
        for job_id_, until_s in list(self._launch_until_s.items()):
            job = self.records.active.get(job_id_)
            if job is None or job.state is not JobState.STARTING:
                del self._launch_until_s[job_id_]
            elif mono_s > until_s:
                missing = GangView(job, self._facts.get(job.id, {})).missing()
                message = f"not all ranks got ready in {job.spec.launch_deadline_s:g} s; missing: {missing}"
                self._stop(job, Exit(None, ExitCause.LAUNCH, message), now_s)

    # -- the way out ---------------------------------------------------------------------------------------

    def _stop(self, job: Job, exit_: Exit, now_s: float, **fields: object) -> Job:
        """Begin to end every rank of the gang, for the reason in `exit_`."""
        placement, cause = job.placement, exit_.cause or ExitCause.UNKNOWN
        assert placement, f"{job.id} is to stop but has no place"
        message = _describe(exit_)
        job = self.records.change(
            job,
            "stopping",
            message,
            now_s,
            stop_cause=cause,
            exit=exit_,
            reason=Reason(f"stopping_{cause}", message),
            **fields,
        )
        facts = self._facts.get(job.id, {})
        nodes = [node for node in placement.nodes if node not in facts or not facts[node].released]
        self._order(job, orders.stop(job, nodes, self._term, cause))
        return job

    def _finish_stop(self, job: Job, gang: GangView, now_s: float) -> None:
        """A node that has nothing left gives its GPUs back; the last one decides what the job becomes."""
        for node, fact in gang.facts.items():
            if fact.released:
                self.cluster.release(job.id, node)
        if not gang.is_released:
            return
        exit_ = job.exit or Exit(None, ExitCause.UNKNOWN)
        if can_be_tried_again(exit_):
            self.cluster.distrust([exit_.node] if exit_.node else gang.nodes)
        if job.stop_cause is ExitCause.CANCELLED:
            self._end(job, "cancelled", "every rank has ended", now_s, exit_)
        elif can_be_tried_again(exit_) and not job.no_retry and job.launches_failed + 1 < MAX_LAUNCHES:
            self._requeue(job, exit_, now_s)
        else:
            self._end(job, "failed", _describe(exit_), now_s, exit_)

    def _requeue(self, job: Job, exit_: Exit, now_s: float) -> None:
        self._facts.pop(job.id, None)
        message = f"launch {job.attempt} failed: {exit_.message}"
        job = self.records.change(
            job,
            "requeued",
            message,
            now_s,
            placement=None,
            placed_at_s=None,
            started_at_s=None,
            stop_cause=None,
            exit=None,
            launches_failed=job.launches_failed + 1,
            reason=Reason("launch_failed", message, "It is tried again when its turn comes."),
        )
        self.waiting.add(job)

    def _end(self, job: Job, kind: str, message: str, now_s: float, exit_: Exit) -> Job:
        for node in job.placement.nodes if job.placement else ():
            self.cluster.release(job.id, node)
        self._facts.pop(job.id, None)
        self._start_given.pop(job.id, None)
        return self.records.change(job, kind, message, now_s, ended_at_s=now_s, exit=exit_, reason=None)

    # -- placing -------------------------------------------------------------------------------------------

    def _place(self, job: Job, placement: Placement, now_s: float, mono_s: float) -> None:
        self._hold(job.id, placement)
        job = self.records.change(
            job,
            "placed",
            f"on {some_of(placement.nodes)}",
            now_s,
            attempt=job.attempt + 1,
            placement=placement,
            placed_at_s=now_s,
            reason=Reason("starting", "its ranks get ready"),
        )
        self._order(job, orders.prepare(job, placement, self._term))
        self._launch_until_s[job.id] = mono_s + job.spec.launch_deadline_s

    def _hold(self, job: str, placement: Placement) -> None:
        for slot in placement.slots:
            self.cluster.hold(job, slot.node, slot.gpus)

    # -- what is asked of others ---------------------------------------------------------------------------

    def _order(self, job: Job, given: Iterable[Order]) -> None:
        self._give.extend(Give(order, job.trace) for order in given)

    def _answer(self, reply_to: str, reply: Reply) -> None:
        if reply_to:
            self._answers.append(Answer(reply_to, reply))


def _describe(exit_: Exit) -> str:
    """Why a gang ends, in one sentence."""
    who = f"rank {exit_.rank} on {exit_.node}: " if exit_.rank is not None else ""
    code = f" (exit code {exit_.code})" if exit_.code is not None else ""
    return f"{who}{exit_.message or exit_.cause or 'ended'}{code}"
