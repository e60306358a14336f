"""On how well linked GPUs jobs land, beside go-gpuallocator and first fit, on every capture of 8 GPUs."""

from dataclasses import dataclass

from tests.bench.arrivals import POLICIES, Tally, tally
from tests.bench.figures import Figure
from tests.bench.placement import eight_gpu_shapes

SEEDS = 5
JOBS = 500


@dataclass(frozen=True)
class Row:
    """One capture: what each policy made of the same jobs."""

    capture: str
    by_policy: dict[str, Tally]

    def as_json(self) -> dict[str, object]:
        some = next(iter(self.by_policy.values()))
        return {
            "capture": self.capture,
            "jobs": {str(count): jobs for count, jobs in some.jobs.items()},
            "linked": {
                name: {str(count): linked for count, linked in each.linked.items()}
                for name, each in self.by_policy.items()
            },
            "one_socket": {name: each.one_socket for name, each in self.by_policy.items()},
        }


def measure() -> tuple[list[Figure], list[Row]]:
    by_seed = [[Row(name, _tallies(name, seed)) for name in eight_gpu_shapes()] for seed in range(SEEDS)]
    rows = [_summed([rows[at] for rows in by_seed]) for at in range(len(by_seed[0]))]
    return [_times(other, by_seed) for other in POLICIES if other != "gpuyard"], rows


def _tallies(name: str, seed: int) -> dict[str, Tally]:
    shape = eight_gpu_shapes()[name]
    return {policy: tally(shape, act, range(seed, seed + 1), JOBS) for policy, act in POLICIES.items()}


def _summed(rows: list[Row]) -> Row:
    return Row(rows[0].capture, {name: _total([row.by_policy[name] for row in rows]) for name in POLICIES})


def _total(tallies: list[Tally]) -> Tally:
    return Tally(
        {count: sum(each.jobs[count] for each in tallies) for count in tallies[0].jobs},
        {count: sum(each.linked[count] for each in tallies) for count in tallies[0].linked},
        sum(each.one_socket for each in tallies),
    )


def _times(other: str, by_seed: list[list[Row]]) -> Figure:
    runs = tuple(
        sum(row.by_policy["gpuyard"].all_linked for row in rows)
        / sum(row.by_policy[other].all_linked for row in rows)
        for rows in by_seed
    )
    name = f"2- and 4-GPU jobs on fully linked GPUs, times {other}"
    return Figure(name, "x", runs, "more than 1", 1.0, more_is_better=True)
