"""Lines that loggers found in the output of ranks, and what follows from them."""

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.job import Job
from gpuyard.contracts.log_rule import LogAction
from gpuyard.contracts.request import Accepted, Finding, Reply
from gpuyard_scheduler.core.cluster import Cluster
from gpuyard_scheduler.core.records import Records

_MOST_REMEMBERED = 256


def take_in(finding: Finding, records: Records, cluster: Cluster, now_s: float) -> Reply:
    """Note a finding in its job's record and act on it; once for each attempt and rule."""
    job = records.find(finding.job)
    if job is None:
        return Failure("not_found", f"the record of {finding.job} is not kept any more")
    met = (finding.attempt, finding.rule)
    if met in job.rules_met:
        return Accepted(job.id, job.state)
    node = _node_of(job, finding)
    if finding.action is LogAction.SUSPECT_NODE and node:
        cluster.distrust([node])
    no_retry = finding.rule if finding.action is LogAction.NO_RETRY else job.no_retry
    rules_met = (*job.rules_met, met)[-_MOST_REMEMBERED:]
    message = _sentence(finding, node)
    job = records.note(job, "log_rule", message, now_s, rules_met=rules_met, no_retry=no_retry)
    return Accepted(job.id, job.state)


def _node_of(job: Job, finding: Finding) -> str:
    """Where the rank ran; empty if its attempt was given up and another has its place in the record."""
    if job.attempt != finding.attempt or job.placement is None:
        return ""
    return next((slot.node for slot in job.placement.slots if slot.rank == finding.rank), "")


def _sentence(finding: Finding, node: str) -> str:
    where = f"rank {finding.rank} on {node}" if node else f"rank {finding.rank}"
    return f"{where}: {finding.message}{_consequence(finding, node)}: {finding.line}"


def _consequence(finding: Finding, node: str) -> str:
    if finding.action is LogAction.NO_RETRY:
        return "; the job is not tried again"
    if finding.action is LogAction.SUSPECT_NODE and node:
        return f"; other nodes are preferred to {node} until a launch succeeds there"
    return ""
