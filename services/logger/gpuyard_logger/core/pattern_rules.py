"""Rules for lines that every job has, and how those of the logger and of the job join them.

RE2 finds plain text at many gigabytes per second if it begins with a rare letter. So each pattern begins with
plain text, and patterns of the same beginning have one clue, which is looked for once. The table in
docs/concepts/log-rules.md is checked against this one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gpuyard.contracts.log_rule import LogAction, LogRule


class Wanted(NamedTuple):
    """What is looked for on account of a rule: any of these patterns."""

    rule: LogRule
    patterns: tuple[str, ...]
    clues: tuple[str, ...] = ()
    """Without any of these there is no need to look."""
    is_lasting: bool = False
    """What is printed once is printed on and on: the end of a long text is enough."""


def _shipped(
    name: str, message: str, *patterns: str, clue: str = "", action: LogAction = LogAction.EVENT
) -> Wanted:
    return Wanted(LogRule(name, patterns[0], action, message), patterns, (clue,) if clue else ())


_LOSS = r"(?i:loss)[\])\"']*[ \t]*(?:is|[:=|])?[ \t]*(?i:nan|inf|infinity)(?:[^A-Za-z0-9_]|$)"

_NCCL = "NCCL (?:WARN |error in:|Error )"

SHIPPED: tuple[Wanted, ...] = (
    _shipped(
        "cuda-oom",
        "a GPU ran out of memory",
        "CUDA out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        clue="CUDA",
    ),
    _shipped(
        "cuda-assert",
        "a GPU kernel refused its input",
        "CUDA error: device-side assert triggered",
        clue="CUDA",
    ),
    _shipped(
        "cuda-memory",
        "a GPU kernel reached for memory it does not have",
        "CUDA error: an illegal memory access",
        clue="CUDA",
    ),
    _shipped(
        "gpu-ecc",
        "memory of a GPU is damaged",
        "uncorrectable ECC error encountered",
        clue="ECC error",
        action=LogAction.SUSPECT_NODE,
    ),
    _shipped(
        "gpu-lost",
        "a GPU can't be reached any more",
        "GPU has fallen off the bus",
        action=LogAction.SUSPECT_NODE,
    ),
    _shipped("gpu-xid", "the driver reports an error of a GPU", r"Xid \(PCI:"),
    _shipped(
        "nccl-timeout",
        "a collective operation did not end in time",
        "Watchdog caught collective operation timeout",
    ),
    _shipped("nccl-error", "NCCL failed", r"NCCL (?:error in:|Error [0-9]+:)", clue=_NCCL),
    _shipped("nccl-warning", "NCCL warns", "NCCL WARN ", clue=_NCCL),
    _shipped(
        "rendezvous",
        "ranks did not find each other",
        "The client socket has (?:timed out after|failed to connect to any network address)",
    ),
    Wanted(
        LogRule("loss-nan", _LOSS, LogAction.EVENT, "the loss is not a number any more"),
        (_LOSS,),
        ("nan", "NaN", "inf(?:[^a-z]|$)", "Inf"),
        is_lasting=True,
    ),
    _shipped("disk-full", "a disk is full", "No space left on device"),
    _shipped(
        "shm-full",
        "shared memory is too small",
        r"DataLoader worker \(pid[^)]*\) is killed by signal: Bus error",
        "Unexpected bus error encountered in worker",
    ),
    _shipped(
        "host-oom",
        "the machine ran out of memory",
        "Kill(?:ed)? process [0-9]+",
        "Detected [0-9]+ oom.kill event",
    ),
    _shipped("killed", "a process was killed", r"Signal 9 \(SIGKILL\)", clue="Signal "),
    _shipped(
        "segfault",
        "a process reached for memory it does not have",
        "Segmentation fault",
        r"Signal 11 \(SIGSEGV\)",
    ),
    _shipped(
        "module-missing",
        "a Python module is missing",
        "ModuleNotFoundError: No module named",
        action=LogAction.NO_RETRY,
    ),
)


def joined(*layers: Iterable[LogRule]) -> tuple[tuple[Wanted, ...], tuple[Wanted, ...]]:
    """Rules that were shipped and still hold, and those of the layers: later ones replace earlier ones."""
    own = {rule.name: rule for layer in layers for rule in layer}
    shipped = tuple(wanted for wanted in SHIPPED if wanted.rule.name not in own)
    rules = (rule for rule in own.values() if rule.action is not LogAction.IGNORE)
    return shipped, tuple(Wanted(rule, (rule.pattern,)) for rule in rules)
