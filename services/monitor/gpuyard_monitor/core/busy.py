"""Which GPUs of a node the ranks hold, from the facts that its executor writes."""

from collections.abc import Mapping

from gpuyard.contracts.fact import GangFact, RankState

Held = Mapping[str, frozenset[str]]
"""GPUs by job; jobs that hold none are left out, so that it stays as small as what runs."""


def after(held: Held, fact: GangFact) -> Held:
    """What is held once this fact is known. The newest fact of a job replaces the one before."""
    gpus = frozenset(uuid for rank in fact.ranks if rank.state is not RankState.EXITED for uuid in rank.gpus)
    others = {job: theirs for job, theirs in held.items() if job != fact.job}
    return others | {fact.job: gpus} if gpus else others


def busy(held: Held) -> frozenset[str]:
    """All GPUs that somebody holds."""
    return frozenset().union(*held.values())
