"""Names of nodes in sentences."""

from collections.abc import Sequence


def some_of(nodes: Sequence[str]) -> str:
    """The first few names and the number of the others: a record must not grow with its gang twice."""
    shown = ", ".join(nodes[:8])
    return shown if len(nodes) <= 8 else f"{shown} and {len(nodes) - 8} more"
