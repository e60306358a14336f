"""What an engine tells of a container, and how the rank in it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import RankEnd

_SIGKILLED, _SIGTERMED, _LOST = 137, 143, 255
_TAKEN_DOWN = (_SIGKILLED, _SIGTERMED, _LOST)
"""Exit codes of containers that an engine ends, or finds ended, at its own stop or start."""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container as the engine shows it. `status`: `created`, `running`, `exited` ..."""

    status: str
    id: str = ""
    code: int | None = None
    oom_killed: bool = False
    error: str = ""
    started_at_s: float | None = None
    ended_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self.status in ("exited", "dead", "removing")

    @property
    def has_run(self) -> bool:
        return self.started_at_s is not None


def parse_view(raw: Mapping[str, Any]) -> ContainerView:
    """Read the answer to `GET /containers/NAME/json`."""
    state = raw["State"]
    return ContainerView(
        status=state["Status"],
        id=raw["Id"],
        code=state.get("ExitCode"),
        oom_killed=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
        started_at_s=parse_time(state.get("StartedAt", "")),
        ended_at_s=parse_time(state.get("FinishedAt", "")),
    )


def parse_time(text: str) -> float | None:
    """Seconds since the epoch; None for the year 1, which means never.

    Source: RFC 3339, with up to nine digits of a second, of which six count.
    """
    if not text or text.startswith("0001-"):
        return None
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if digits else ""
    return datetime.fromisoformat(
        f"{whole}.{digits[:6].ljust(6, '0')}{zone}" if digits else whole
    ).timestamp()


@dataclass(frozen=True, slots=True)
class Outage:
    """When the engine was last away. No beginning: it never was; no end: it still is."""

    from_s: float | None = None
    to_s: float | None = None

    def __contains__(self, at_s: float | None) -> bool:
        if self.from_s is None or at_s is None:
            return False
        return self.from_s <= at_s and (self.to_s is None or at_s <= self.to_s)


def end_of(
    view: ContainerView, words: bytes, stopped_at_s: float | None, outage: Outage, *, is_rebooted: bool
) -> RankEnd:
    """How a rank ended whose container is over.

    Args:
        words: What the launcher said through the engine; empty once the command runs.
        stopped_at_s: When the rank was told to stop; None if it was not.

    """
    stopped = stopped_at_s is not None and not (view.ended_at_s and view.ended_at_s < stopped_at_s)
    if words:
        message = f"the container can't start it: {words.decode(errors='replace').strip()}"
        return RankEnd(view.code, view.ended_at_s, stopped, ExitCause.LAUNCH, message)
    if view.oom_killed:
        cause, message = _oom(view)
    elif stopped or view.code not in _TAKEN_DOWN:
        cause, message = None, ""
    else:
        cause, message = _taken_down(view, outage, is_rebooted=is_rebooted)
    return RankEnd(view.code, view.ended_at_s, stopped, cause, message)


def _oom(view: ContainerView) -> tuple[ExitCause | None, str]:
    if view.code == 0:
        return None, "one of its processes was killed for using more memory than the container may"
    return ExitCause.OOM, "it used more memory than its container may: ask for more with `memory_bytes`"


def _taken_down(view: ContainerView, outage: Outage, *, is_rebooted: bool) -> tuple[ExitCause | None, str]:
    if is_rebooted:
        return ExitCause.NODE_LOST, "the machine was restarted while it ran"
    if view.code == _LOST or view.ended_at_s in outage:
        return ExitCause.NODE_LOST, "the container engine stopped, and the container with it"
    return None, ""
