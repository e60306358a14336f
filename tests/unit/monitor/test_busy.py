from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard_monitor.core.busy import Held, after, holders


def fact(job: str, *ranks: tuple[RankState, str], attempt: int = 1, released: bool = False) -> GangFact:
    facts = tuple(RankFact(rank, state, gpus=(uuid,)) for rank, (state, uuid) in enumerate(ranks))
    return GangFact("n1", job, attempt, 1, 0.0, facts, released=released)


def held_after(*facts: GangFact) -> Held:
    held: Held = {}
    for each in facts:
        held = after(held, each)
    return held


def test_a_rank_holds_its_gpus_until_it_has_exited() -> None:
    held = held_after(
        fact(
            "a",
            (RankState.PREPARING, "g0"),
            (RankState.READY, "g1"),
            (RankState.RUNNING, "g2"),
            (RankState.EXITED, "g3"),
        )
    )
    assert holders(held) == {gpu: {"a"} for gpu in ("g0", "g1", "g2")}


def test_the_newest_fact_of_a_job_replaces_the_one_before() -> None:
    held = held_after(
        fact("a", (RankState.RUNNING, "g0")),
        fact("b", (RankState.RUNNING, "g1")),
        fact("a", (RankState.RUNNING, "g2"), attempt=2),
    )
    assert holders(held) == {"g1": {"b"}, "g2": {"a"}}


def test_ended_jobs_are_forgotten() -> None:
    running, ended = fact("a", (RankState.RUNNING, "g0")), fact("a", (RankState.EXITED, "g0"))
    assert held_after(running, ended) == {}
    assert held_after(running, fact("a", released=True)) == {}
    assert holders({}) == {}


def test_two_jobs_may_hold_a_gpu_while_one_gives_it_to_the_other() -> None:
    held = held_after(fact("a", (RankState.RUNNING, "g0")), fact("b", (RankState.PREPARING, "g0")))
    assert holders(held) == {"g0": {"a", "b"}}
