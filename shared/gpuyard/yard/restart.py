"""When to start a dead process again: doubling back-off, forgiven after a steady while. Pure."""

FIRST_S = 0.2
MOST_S = 10.0
STEADY_S = 30.0


def after_exit(falls: int, up_s: float) -> tuple[int, float]:
    """Count the fall and say how long to wait.

    Args:
        falls: falls in a row before this one.
        up_s: how long the process ran.
    Returns: falls in a row now, and seconds until the next start.

    """
    now = 1 if up_s >= STEADY_S else falls + 1
    return now, min(MOST_S, FIRST_S * 2.0 ** min(now - 1, 30))
