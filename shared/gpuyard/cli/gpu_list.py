"""GPUs of a machine as people write them: `0,1,4-6`."""

import re

from gpuyard.contracts.errors import InvalidSpec

_PART = re.compile(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", re.ASCII)
_EXAMPLE = "Write it like `0,1,4-6`."


def gpu_list(text: str, count: int) -> tuple[int, ...]:
    """Read a list of GPUs of a machine that has `count`, in ascending order.

    Raises:
        InvalidSpec: it is no list, names a GPU that is not there, or one twice.

    """
    gpus = [gpu for part in text.split(",") for gpu in _run(part, text)]
    if beyond := sorted({gpu for gpu in gpus if gpu >= count}):
        there = "GPU 0" if count == 1 else f"GPUs 0 to {count - 1}"
        raise InvalidSpec(f"there is no GPU {beyond[0]}", f"The machine has {there}.")
    if len(set(gpus)) < len(gpus):
        twice = min(gpu for gpu in gpus if gpus.count(gpu) > 1)
        raise InvalidSpec(f"GPU {twice} is in the list twice", _EXAMPLE)
    return tuple(sorted(gpus))


def _run(part: str, text: str) -> range:
    found = _PART.fullmatch(part)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise InvalidSpec(f"`{text[:80]}` is no list of GPUs", _EXAMPLE)
    return range(first, last + 1)
