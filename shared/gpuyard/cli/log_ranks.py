"""Sets of ranks as people write them: `0,8-15`. Pure."""

from collections.abc import Collection

from gpuyard.contracts.errors import InvalidSpec

MOST_RANKS = 65536


def parse_ranks(text: str) -> frozenset[int]:
    """Read `0,8-15`."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        last = last if dash else first
        if not (_is_rank(first) and _is_rank(last) and int(first) <= int(last)):
            raise InvalidSpec(f"`{text[:80]}` is not a list of ranks", "Write it like `0,2-5`.")
        ranks.update(range(int(first), int(last) + 1))
    return frozenset(ranks)


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) < MOST_RANKS


def render_ranks(ranks: Collection[int]) -> str:
    """Write `0,8-15`; `parse_ranks` reads it."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    return ",".join("-".join(map(str, run)) for run in runs)
