"""How far a job is, in words: `45 % (step 450/1000), about 12 min left`. Pure."""

from gpuyard.cli import words
from gpuyard.client.progress import JobProgress
from gpuyard.contracts.job import Job

STALE_S = 120.0


def told(progress: JobProgress, job: Job, now_s: float) -> str:
    """One line for people."""
    counted = _counted(progress)
    parts = [_share(progress.fraction)] if progress.fraction is not None else []
    parts.append(f"({counted})" if parts and counted else counted)
    line = " ".join(part for part in parts if part)
    return ", ".join(part for part in (line, _left(progress, job, now_s)) if part)


def _share(fraction: float) -> str:
    """Never 100 % before the end."""
    percent = fraction * 100
    return f"{percent:.1f} %" if percent < 10 and percent else f"{int(percent)} %"


def _counted(progress: JobProgress) -> str:
    of_epoch = progress.fraction is None and progress.epoch is not None
    return ", ".join(
        text
        for text in (
            _count("epoch", progress.epoch, progress.epochs),
            _count("step", progress.step, progress.steps) + (" of it" if of_epoch and progress.steps else ""),
        )
        if text
    )


def _count(name: str, value: float | None, total: float | None) -> str:
    if value is None:
        return ""
    return f"{name} {value:g}" if total is None else f"{name} {value:.15g}/{total:.15g}"


def _left(progress: JobProgress, job: Job, now_s: float) -> str:
    if job.state.is_final:
        return ""
    if progress.left_s is not None:
        return f"about {words.duration(progress.left_s)} left" if progress.left_s >= 1 else "about done"
    silent_s = now_s - progress.at_s
    return f"nothing new for {words.duration(silent_s)}" if silent_s > STALE_S else ""
