"""The best ring through a set of GPUs: its slowest link is what a collective runs at.

A ring visits every GPU of the set once and returns. Finding the best one is the bottleneck travelling
salesman problem; sets are small, so it is solved exactly: the answer is one of the set's own bandwidths,
and whether a ring of links of at least that bandwidth exists is decided by dynamic programming over the
subsets (Held and Karp, 1962).
"""

from collections.abc import Sequence


def ring_bottleneck(gb_s: Sequence[Sequence[float]], members: Sequence[int]) -> float | None:
    """Bandwidth of the slowest link of the best ring; of the link itself for two; None below two GPUs."""
    if len(members) < 2:
        return None
    if len(members) == 2:
        return gb_s[members[0]][members[1]]
    # Every GPU needs two links of the ring.
    highest = min(sorted((gb_s[a][b] for b in members if b != a), reverse=True)[1] for a in members)
    values = sorted({gb_s[a][b] for a in members for b in members if a < b and gb_s[a][b] <= highest})
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _has_ring(gb_s, members, values[middle]) else (low, middle - 1)
    return values[low]


def _has_ring(gb_s: Sequence[Sequence[float]], members: Sequence[int], least: float) -> bool:
    peers = [sum(1 << j for j, b in enumerate(members) if a != b and gb_s[a][b] >= least) for a in members]
    return is_ring(peers)


def is_ring(peers: Sequence[int]) -> bool:
    """Whether a ring through all of three or more nodes exists; `peers` holds a bit mask for each."""
    full = (1 << len(peers)) - 1
    ends = {1: 1}
    for _ in range(len(peers) - 1):
        longer: dict[int, int] = {}
        for visited, last in ends.items():
            for node, near in enumerate(peers):
                if not visited >> node & 1 and near & last:
                    grown = visited | 1 << node
                    longer[grown] = longer.get(grown, 0) | 1 << node
        ends = longer
    return bool(ends.get(full, 0) & peers[0])
