"""A working directory as one object: packed the same way every time, uploaded once.

The archive holds names, contents and executable bits, sorted, and nothing of the moment or the machine. So
equal directories make equal bytes, and the object's name, their hash, tells whether it is there already.
"""

import asyncio
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from gpuyard.bus.port import Bus
from gpuyard.client.locate import is_yard
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.subjects import MIB, UPLOADS_BUCKET

MOST_BYTES = 256 * MIB
MOST_ENTRIES = 100_000
IGNORE_FILE = ".gpuyardignore"
ALWAYS_SKIPPED = (".git", ".venv", "__pycache__", ".gpuyard", ".demo", "node_modules", "*.pyc")
_NARROW = f"Name what the job does not need in `{IGNORE_FILE}`, or choose a smaller directory."


class Entry(NamedTuple):
    """One thing that goes into the archive, by its path inside the directory."""

    path: str
    mode: int
    size_bytes: int


class Packed(NamedTuple):
    """An archive and the name it is stored under."""

    name: str
    data: bytes


async def upload(bus: Bus, directory: Path | str) -> str:
    """Store the directory for executors to fetch, unless it is there already; return its name.

    Raises:
        InvalidSpec: it can't be read, is too large, or holds what can't be shipped.

    """
    packed = await asyncio.to_thread(pack, Path(directory))
    if not await bus.has_object(UPLOADS_BUCKET, packed.name):
        await bus.put_object(UPLOADS_BUCKET, packed.name, packed.data)
    return packed.name


def pack(directory: Path) -> Packed:
    """Pack a directory into a tar.gz that depends on names, contents and executable bits alone.

    Raises:
        InvalidSpec: it can't be read, is too large, or holds what can't be shipped.

    """
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=6, mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in scan(directory):
            _add(archive, directory, entry)
    data = buffer.getvalue()
    return Packed(f"sha256-{hashlib.sha256(data).hexdigest()}", data)


def scan(directory: Path) -> list[Entry]:
    """List what `pack` would pack, sorted by path."""
    if is_yard(directory):
        raise InvalidSpec(
            f"`{directory}` is a yard's own directory, which holds its secret token",
            "Choose another directory with --workdir, or use --no-workdir.",
        )
    entries = sorted(_walk(directory, _patterns(directory)), key=lambda entry: os.fsencode(entry.path))
    total_bytes = sum(entry.size_bytes for entry in entries)
    if total_bytes > MOST_BYTES:
        raise _too_large(directory, total_bytes, entries)
    return entries


def _walk(root: Path, skipped: tuple[str, ...]) -> Iterator[Entry]:
    pending = [root]
    count = 0
    while pending:
        for path in _children(pending.pop()):
            inside = path.relative_to(root).as_posix()
            if _matches(inside, skipped):
                continue
            entry = _entry(root, path, inside)
            if stat.S_ISDIR(entry.mode) and is_yard(path):
                continue  # it holds the secret token
            yield entry
            count += 1
            if count > MOST_ENTRIES:
                raise InvalidSpec(f"`{root}` holds more than {MOST_ENTRIES:,} files and directories", _NARROW)
            if stat.S_ISDIR(entry.mode):
                pending.append(path)


def _children(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError as error:
        raise _unreadable(directory, error) from error


def _entry(root: Path, path: Path, inside: str) -> Entry:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        _check_link(root, path)
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InvalidSpec(
            f"`{path}` is a socket, a pipe or a device: it can't be shipped",
            f"Remove it, or name it in `{IGNORE_FILE}`.",
        )
    return Entry(inside, status.st_mode, status.st_size if stat.S_ISREG(status.st_mode) else 0)


def _check_link(root: Path, link: Path) -> None:
    try:
        stays = not link.readlink().is_absolute() and link.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a loop of links; which of the two depends on the Python version
        stays = False
    if not stays:
        raise InvalidSpec(
            f"the link `{link}` leads out of the working directory",
            f"Make it relative and let it stay inside, or name it in `{IGNORE_FILE}`.",
        )


def _add(archive: tarfile.TarFile, root: Path, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path)
    path = root / entry.path
    if stat.S_ISDIR(entry.mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    elif stat.S_ISLNK(entry.mode):
        info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
        archive.addfile(info)
    else:
        data = _content(path)
        info.size, info.mode = len(data), 0o755 if entry.mode & stat.S_IXUSR else 0o644
        archive.addfile(info, io.BytesIO(data))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _patterns(directory: Path) -> tuple[str, ...]:
    file = directory / IGNORE_FILE
    if not file.is_file():
        return ALWAYS_SKIPPED
    lines = (line.strip() for line in _content(file).decode(errors="replace").splitlines())
    wanted = [line for line in lines if line and not line.startswith("#")]
    for line in wanted:
        if line.startswith("!"):
            raise InvalidSpec(f"`{file}`: `{line}` would bring files back, which is not supported")
    return ALWAYS_SKIPPED + tuple(wanted)


def _matches(inside: str, patterns: tuple[str, ...]) -> bool:
    """Like .gitignore: a pattern with a slash is about the path, any other about the name at every depth."""
    name = inside.rpartition("/")[2]
    for pattern in patterns:
        bare = pattern.rstrip("/")
        if fnmatchcase(inside, bare.lstrip("/")) if "/" in bare else fnmatchcase(name, bare):
            return True
    return False


def _unreadable(path: Path, error: OSError) -> InvalidSpec:
    return InvalidSpec(
        f"can't read `{path}` for the working directory: {error.strerror or error}",
        f"Choose another directory with --workdir, use --no-workdir, or name it in `{IGNORE_FILE}`.",
    )


def _too_large(directory: Path, total_bytes: int, entries: list[Entry]) -> InvalidSpec:
    biggest = sorted(entries, key=lambda entry: entry.size_bytes, reverse=True)[:3]
    named = ", ".join(f"`{entry.path}` ({entry.size_bytes / MIB:,.0f} MiB)" for entry in biggest)
    return InvalidSpec(
        f"`{directory}` holds {total_bytes / MIB:,.0f} MiB, more than {MOST_BYTES // MIB}; biggest: {named}",
        _NARROW,
    )
