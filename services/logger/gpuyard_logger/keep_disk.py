"""How much room there is where the segments lie, and what they take of it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gpuyard_logger.core.retention import Disk
from gpuyard_logger.keep_index import Held

Space = Callable[[Path], tuple[int, int]]
"""Size of a path's file system and what is free of it, in bytes."""


def space_at(path: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.total, usage.free


def look(folder: Path, held: Held, space: Space) -> Disk:
    """The disk as it is. Files that no record names are about to be removed."""
    total_bytes, free_bytes = space(folder)
    with os.scandir(folder) as entries:
        file_bytes = sum(map(_size_bytes, entries))
    unnamed_bytes = max(file_bytes - held.file_bytes, 0)
    return Disk(total_bytes, free_bytes, file_bytes, held.dropped_bytes + unnamed_bytes)


def _size_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # it went since it was listed
        return 0
