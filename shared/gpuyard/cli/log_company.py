"""Who is the first to print something else than the other ranks. Pure."""

Key = tuple[int, bytes]
"""A line as it is compared: its stream and its text."""
MOST_LATE = 1024


class Company:
    """Tells which row is the first that leaves the company of the others, after each time they agreed.

    Ranks agree in a row of more than half of them. Where they print different lines, the company is with the
    line that most of them come to; of equal ones, with the lowest rank. Who prints while all others are
    silent leaves it, too: the first to fail is often the only one that says so. Who only comes late does not.
    """

    def __init__(self, rank_count: int) -> None:
        self._rank_count = rank_count
        self._members: frozenset[int] | None = None
        self._has_agreed = False
        self._is_told = False
        self._lately: dict[Key, frozenset[int]] = {}
        """Who printed a line that others may come to late."""

    def leaves(self, key: Key, ranks: frozenset[int], biggest: frozenset[int] | None) -> bool:
        """Whether a row of these ranks is the first; `biggest` is the biggest group, if there are several."""
        is_late = self._is_late(key, ranks)
        if 2 * len(ranks) > self._rank_count:
            self._members, self._has_agreed, self._is_told = None, True, False
            return False
        if is_late:
            return False
        self._members = self._members or biggest
        is_outside = not ranks & self._members if self._members else self._has_agreed
        is_first = is_outside and not self._is_told
        self._is_told = self._is_told or is_first
        return is_first

    def _is_late(self, key: Key, ranks: frozenset[int]) -> bool:
        """Whether others printed this before and these ranks had not come to it yet."""
        earlier = self._lately.pop(key, None)
        if len(ranks) < self._rank_count:
            self._lately[key] = ranks
        if len(self._lately) > MOST_LATE:
            del self._lately[next(iter(self._lately))]
        return earlier is not None and not ranks & earlier
