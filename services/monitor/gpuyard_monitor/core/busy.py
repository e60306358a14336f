"""Which GPUs of a node the ranks hold, from the facts that its executor writes."""

from collections.abc import Mapping

from gpuyard.contracts.fact import GangFact, RankState

Held = Mapping[str, frozenset[str]]
"""GPUs by job; jobs that hold none are left out, so that it stays as small as what runs."""
Holders = Mapping[str, frozenset[str]]
"""Jobs by GPU."""


def after(held: Held, fact: GangFact) -> Held:
    """What is held once this fact is known. The newest fact of a job replaces the one before."""
    gpus = frozenset(uuid for rank in fact.ranks if rank.state is not RankState.EXITED for uuid in rank.gpus)
    others = {job: theirs for job, theirs in held.items() if job != fact.job}
    return others | {fact.job: gpus} if gpus else others


def holders(held: Held) -> Holders:
    """Who holds each GPU that somebody holds."""
    gpus = frozenset().union(*held.values())
    return {gpu: frozenset(job for job, theirs in held.items() if gpu in theirs) for gpu in gpus}
