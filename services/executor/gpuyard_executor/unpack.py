"""Unpacks an uploaded archive, trusting nothing in it."""

import tarfile
from pathlib import Path, PurePosixPath

MOST_BYTES = 8 * 1024**3
MOST_ENTRIES = 200_000


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar.gz into a new directory.

    Only files, directories and links that stay inside. Nothing is written through a link.

    Raises:
        tarfile.TarError: hostile, damaged or far too large.
        OSError: no room, or no tar.gz.

    """
    target.mkdir()
    with tarfile.open(archive, "r:gz") as tar:
        check = _Check()
        for member in tar:
            check(member)
            tar.extract(member, target, filter="data")


class _Check:
    """Looks at the members one after the other."""

    def __init__(self) -> None:
        self._links: set[PurePosixPath] = set()
        self._bytes = 0
        self._entries = 0

    def __call__(self, member: tarfile.TarInfo) -> None:
        self._count(member)
        path = _inside(member.name, PurePosixPath("."))
        if not self._links.isdisjoint(path.parents) or path in self._links:
            raise tarfile.ExtractError(f"`{member.name}` would be written through a link")
        if member.issym() or member.islnk():
            at = path.parent if member.issym() else PurePosixPath(".")
            link = _inside(member.linkname, at)
            if member.islnk() and not self._links.isdisjoint((link, *link.parents)):
                raise tarfile.ExtractError(f"`{member.name}` is a hard link through a link")
        elif not (member.isfile() or member.isdir()):
            raise tarfile.ExtractError(f"`{member.name}` is a device or a pipe")
        if member.issym():
            self._links.add(path)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._bytes += member.size
        self._entries += 1
        if self._bytes > MOST_BYTES or self._entries > MOST_ENTRIES:
            raise tarfile.ExtractError(f"it holds more than {MOST_BYTES >> 30} GiB or {MOST_ENTRIES:,} files")


def _inside(name: str, at: PurePosixPath) -> PurePosixPath:
    """The path meant by a name, if it stays inside."""
    if name.startswith("/"):
        raise tarfile.ExtractError(f"`{name}` is an absolute path")
    parts: list[str] = []
    for part in (at / name).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise tarfile.ExtractError(f"`{name}` leads out of the directory")
    return PurePosixPath(*parts)
