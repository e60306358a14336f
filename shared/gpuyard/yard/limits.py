"""Open files: raise the limit as far as needed, refuse where that is too little."""

import resource

from gpuyard.contracts.errors import Unavailable

LEAST = 1024
ENOUGH = 4096


def raise_open_files() -> int:
    """Allow this process and its children enough open files; returns how many.

    Raises:
        Unavailable: the machine allows too few.

    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted_limit(soft, hard)
    if allowed < LEAST:
        raise Unavailable(
            f"only {allowed} files may be open at once; {LEAST} are needed",
            f"Allow more with `ulimit -n {ENOUGH}`, or in /etc/security/limits.conf.",
        )
    if allowed != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def wanted_limit(soft: int, hard: int) -> int:
    """The limit to set; an unlimited one is given as -1."""
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH:
        return ENOUGH if soft == resource.RLIM_INFINITY else soft
    return ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
