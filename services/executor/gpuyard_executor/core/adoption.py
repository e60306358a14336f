"""What an executor makes of the node it finds at its start: gangs rebuilt from orders, engine and bus.

The engine knows what lives, the orders what was wanted, the facts what everybody was told. A rank that was
told to have begun, of which the engine knows nothing, is lost; one that never began may still be prepared.
"""

from collections.abc import Mapping

from gpuyard.contracts.fact import GangFact, RankFact
from gpuyard.contracts.job import ExitCause
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.placement import Slot
from gpuyard_executor.core.events import Adopted
from gpuyard_executor.core.gang import Gang, Rank
from gpuyard_executor.core.rank import GangKey, RankEnd, RankKey, RankStatus
from gpuyard_executor.core.states import EXITED, PREPARING, READY

_GONE = "nothing was left of it when the executor came back"


def newest_term(found: Adopted) -> int:
    return max((each.term for each in (*found.orders, *found.facts)), default=0)


def rebuild(found: Adopted, now_s: float) -> dict[GangKey, Gang]:
    """Every gang that still concerns the node."""
    gangs = _ordered(found)
    for fact in found.facts:
        key = GangKey(fact.job, fact.attempt)
        if key not in gangs and not fact.released:
            gangs[key] = _unordered(fact)
        if key in gangs:
            gangs[key].told, gangs[key].is_told, gangs[key].port = fact, True, fact.master_port
    for status in found.statuses:
        _place(gangs, status)
    for gang in gangs.values():
        told = {rank.rank: rank for rank in gang.told.ranks} if gang.told else {}
        for rank in gang:
            if not rank.is_asked:
                _recall(rank, told, now_s, is_ordered=gang.order is not None)
    return gangs


def _ordered(found: Adopted) -> dict[GangKey, Gang]:
    gangs: dict[GangKey, Gang] = {}
    for order in found.orders:
        if isinstance(order, Prepare):
            gangs[GangKey(order.job, order.attempt)] = Gang.of(order)
    for order in found.orders:
        key = GangKey(order.job, order.attempt)
        if isinstance(order, Stop):
            gangs.setdefault(key, Gang(key, order.term)).stop = order
        elif isinstance(order, Start) and key in gangs:
            gangs[key].start = order
        if key in gangs:
            gangs[key].term = max(gangs[key].term, order.term)
    return gangs


def _unordered(fact: GangFact) -> Gang:
    """Everybody believes that it runs here, but its orders are lost: what is left of it must end."""
    key = GangKey(fact.job, fact.attempt)
    ranks = {
        rank.rank: Rank(
            Slot(rank.rank, "lost", fact.node, rank.rank, 0, rank.gpus),
            RankStatus(RankKey(*key, rank.rank), PREPARING),
        )
        for rank in fact.ranks
    }
    stop = Stop(fact.node, fact.job, fact.attempt, fact.term, ExitCause.NODE_LOST, 0.0)
    return Gang(key, fact.term, stop=stop, ranks=ranks)


def _place(gangs: Mapping[GangKey, Gang], status: RankStatus) -> None:
    gang = gangs.get(status.key.gang)
    rank = gang.ranks.get(status.key.rank) if gang else None
    if rank:
        rank.status = status
        rank.is_asked = True
        rank.is_started = status.state not in (PREPARING, READY)


def _recall(rank: Rank, told: Mapping[int, RankFact], now_s: float, *, is_ordered: bool) -> None:
    """A rank that the engine does not know stands where the last fact left it, or is lost."""
    fact = told.get(rank.slot.rank)
    if fact and fact.state is EXITED and fact.exit:
        end = RankEnd(fact.exit.code, fact.ended_at_s, cause=fact.exit.cause, message=fact.exit.message)
        rank.status = RankStatus(rank.key, EXITED, fact.started_at_s, end)
    elif not is_ordered or (fact and fact.state is not PREPARING):
        rank.end(now_s, ExitCause.NODE_LOST, _GONE)
