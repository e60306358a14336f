"""One back-off policy for everything that is tried again."""


def backoff_s(tries: int, *, first_s: float = 0.1, most_s: float = 5.0, chance: float) -> float:
    """Seconds to wait before the next try: doubling, capped, full jitter.

    Args:
        tries: failures so far, from 1.
        chance: a random number, 0 to 1, from the caller.
    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    return chance * min(most_s, first_s * 2.0 ** min(tries - 1, 30))
