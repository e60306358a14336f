"""Logs of a yard's processes: plain files, bounded.

A process writes into its file directly, so that nothing of it is lost and nothing blocks when `gpuyard up`
is away. The price: a full file is copied aside and emptied, and what is written in that instant is lost.
"""

import os
import shutil
from pathlib import Path

MOST_BYTES = 16 * 1024 * 1024


def open_log(path: Path) -> int:
    """Open for appending: every write goes to the end, also after the file was emptied."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: Path, most_bytes: int = MOST_BYTES) -> bool:
    """Move what a full log holds to `<name>.log.1`; tells whether it was full."""
    try:
        if path.stat().st_size <= most_bytes:
            return False
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True


def last_lines(path: Path, count: int, most_bytes: int = 65536) -> list[str]:
    """The last lines that say something; none if there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line.strip()][-count:]
