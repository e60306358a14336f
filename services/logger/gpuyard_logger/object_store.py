"""Segments in object storage, through obstore: S3 and what speaks like it, other clouds, a folder, memory.

Objects are called PARTITION/SEGMENT.seg. They are as whole and as unchanging as the files they were.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import MemoryStore, from_url

from gpuyard.contracts.errors import InvalidSpec
from gpuyard_logger.config import ObjectsConfig

_SUFFIX = ".seg"
_UPLOAD_S = 60.0
_PART_BYTES = 5 * 1024 * 1024
_PARTS_AT_ONCE = 2
"""Bounds the memory of an upload."""
_COMPARED_BYTES = 4096


class ObjectStore:
    """A bucket, or a place in it.

    Raises:
        InvalidSpec: the URL or an option can't be used.

    """

    def __init__(self, config: ObjectsConfig) -> None:
        self._reads = _open(config, config.timeout_s)
        # A memory is only the same memory if it is the same object.
        self._writes = self._reads if isinstance(self._reads, MemoryStore) else _open(config, _UPLOAD_S)

    def of(self, partition: int) -> "ObjectFolder":
        """What there is of a partition."""
        return ObjectFolder(self._reads, self._writes, partition)


class ObjectFolder:
    """Segments of one partition. Any call may raise OSError; nothing is half-done then. For threads."""

    def __init__(self, reads: Any, writes: Any, partition: int) -> None:
        self._reads = reads
        self._writes = writes
        self._partition = partition

    def put(self, segment: str, path: Path) -> None:
        """Store a file. When this returns it is there, and can be read."""
        with _as_os_errors():
            stored = obstore.put(
                self._writes,
                self._key(segment),
                path,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )
            found = obstore.head(self._writes, self._key(segment))
        if found["size"] != path.stat().st_size or found["e_tag"] != stored["e_tag"]:
            raise OSError(f"segment {segment} is not in the object storage as it was sent")
        self._compare_end(segment, path)

    def read(self, segment: str, offset: int, size_bytes: int) -> bytes:
        """Bytes of a segment; fewer at its end.

        Raises:
            FileNotFoundError: it is not there (any more).

        """
        with _as_os_errors():
            return bytes(obstore.get_range(self._reads, self._key(segment), start=offset, length=size_bytes))

    def size_bytes(self, segment: str) -> int:
        with _as_os_errors():
            return int(obstore.head(self._reads, self._key(segment))["size"])

    def remove(self, segment: str) -> None:
        try:
            with _as_os_errors():
                obstore.delete(self._writes, self._key(segment))
        except FileNotFoundError:
            pass

    def names(self) -> frozenset[str]:
        with _as_os_errors():
            pages = obstore.list(self._writes, str(self._partition), chunk_size=1000)
            paths = [str(entry["path"]) for page in pages for entry in page]
        return frozenset(Path(path).stem for path in paths if path.endswith(_SUFFIX))

    def _key(self, segment: str) -> str:
        return f"{self._partition}/{segment}{_SUFFIX}"

    def _compare_end(self, segment: str, path: Path) -> None:
        """Proves that ranges of it can be read, by the way that readers take."""
        start = max(path.stat().st_size - _COMPARED_BYTES, 0)
        with path.open("rb") as file:
            file.seek(start)
            end = file.read()
        if self.read(segment, start, len(end)) != end:
            raise OSError(f"segment {segment} reads differently from the object storage")


def _open(config: ObjectsConfig, patience_s: float) -> Any:
    patience = timedelta(seconds=patience_s)
    options: dict[str, Any] = {"timeout": patience, "connect_timeout": patience}
    if config.options.get("endpoint", "").startswith("http://"):
        options["allow_http"] = True
    retry: Any = {
        "retry_timeout": patience,
        "backoff": {
            "init_backoff": timedelta(seconds=0.1),
            "max_backoff": patience / 4,
            "base": 2,
        },
    }
    if config.url.startswith(("file:", "memory:")):
        return _made(config, {"mkdir": True} if config.url.startswith("file:") else {})
    return _made(config, {"config": config.options or None, "client_options": options, "retry_config": retry})


def _made(config: ObjectsConfig, how: dict[str, Any]) -> Any:
    try:
        return from_url(config.url, **how)
    except (BaseError, ValueError, OSError) as error:
        raise InvalidSpec(
            f"`url` in [logger.objects] can't be used: {_sentence(error)}",
            "For example `s3://BUCKET/PREFIX`; keys and endpoint go into `options` or the environment.",
        ) from error


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """What is missing is a FileNotFoundError, everything else an OSError, each with one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"object storage: {_sentence(error)}") from error
    except (BaseError, OSError) as error:
        raise OSError(f"object storage: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    """Without the debugging dump behind it."""
    return str(error).split("\n", 1)[0].strip()
