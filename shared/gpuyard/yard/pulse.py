"""When to give up a nats-server that lives but does not work. Pure."""

from enum import StrEnum

MOST_MISSES = 3


class Pulse(StrEnum):
    """What one look at the server found."""

    WELL = "well"
    SILENT = "silent"
    """It does not answer."""
    STUCK = "stuck"
    """It answers, but a stream met a write error and takes nothing more until the server is restarted."""


def after_look(misses: int, pulse: Pulse, *, has_room: bool) -> tuple[int, bool]:
    """Count the miss and say whether to kill the server.

    Args:
        misses: bad looks in a row before this one.
        pulse: what this one found.
        has_room: whether its disk has room. While it has none, a new server would get stuck as well.
    Returns: bad looks in a row now, and whether to kill it.

    """
    if pulse is Pulse.WELL:
        return 0, False
    return misses + 1, misses + 1 >= MOST_MISSES and (pulse is Pulse.SILENT or has_room)
