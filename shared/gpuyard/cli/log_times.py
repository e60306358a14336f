"""Times as people write them: `10m` ago, a date, or seconds since 1970. Pure."""

import math
import re
from datetime import UTC, datetime

from gpuyard.contracts.errors import InvalidSpec

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?[smhdw])+", re.ASCII)
_PIECE = re.compile(r"([\d.]+)([smhdw])")
_EPOCH = re.compile(r"\d{9,}(?:\.\d+)?", re.ASCII)
_LATEST_EPOCH_S = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def parse_time(text: str, now_s: float, option: str) -> float:
    """The time meant, in seconds since 1970. Without a zone it is local.

    Raises:
        InvalidSpec: it is none of the forms.

    """
    stripped = text.strip()
    if _AGO.fullmatch(stripped):
        return max(0.0, now_s - sum(float(n) * _UNITS_S[unit] for n, unit in _PIECE.findall(stripped)))
    if _EPOCH.fullmatch(stripped):
        return _epoch(stripped, option)
    try:
        return datetime.fromisoformat(stripped).timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidSpec(
            f"{option}: `{text[:80]}` is no time",
            "Write how long ago (`10m`, `2h`, `1d`), a date (`2025-01-31 14:05`), or seconds since 1970.",
        ) from None


def _epoch(text: str, option: str) -> float:
    at_s = float(text)
    if not math.isfinite(at_s) or at_s > _LATEST_EPOCH_S:
        raise InvalidSpec(
            f"{option}: {text[:80]} lies beyond the year 9999", "It is read as seconds, not as ms."
        )
    return at_s
