"""What lies where in a yard's directory, and taking possession of it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.client import locate
from gpuyard.contracts.errors import Conflict, Unavailable

LEAST_FREE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class Layout:
    """Paths inside a yard's directory."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / locate.LOCK_FILE

    @property
    def endpoints(self) -> Path:
        return self.root / "endpoints.json"

    @property
    def nodes(self) -> Path:
        """The ids of the nodes that have records in the NODES stream."""
        return self.root / "nodes.json"

    @property
    def nats_conf(self) -> Path:
        return self.root / "nats.conf"

    @property
    def nats_store(self) -> Path:
        return self.root / "nats"

    @property
    def settings(self) -> Path:
        return self.root / "services.toml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def data(self, service: str) -> Path:
        """Where a service keeps what must outlive it."""
        return self.root / service


def prepare(root: Path) -> Layout:
    """Make the directory, private to its owner, and check that there is room.

    Raises:
        Unavailable: it can't be written, or the disk is full.

    """
    layout = Layout(root.absolute())
    try:
        for folder in (layout.root, layout.logs, layout.nats_store):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        locate.write_private(layout.root / "probe", b"")
        (layout.root / "probe").unlink()
        free_bytes = shutil.disk_usage(layout.root).free
    except OSError as error:
        raise Unavailable(
            f"the directory {layout.root} can't be used: {error.strerror}",
            "Name one that you may write to with `--dir DIR`.",
        ) from error
    check_room(layout.root, free_bytes)
    return layout


def check_room(root: Path, free_bytes: int) -> None:
    """Refuse a nearly full disk: a store that meets the end of it stays stuck until restarted."""
    if free_bytes < LEAST_FREE_BYTES:
        raise Unavailable(
            f"only {free_bytes >> 20} MiB are free in {root}; {LEAST_FREE_BYTES >> 20} MiB are needed",
            "Free some space, or name a directory on another disk with `--dir DIR`.",
        )


@contextmanager
def possession(layout: Layout) -> Iterator[None]:
    """Hold the yard's lock for as long as the body runs, or the process lives.

    Raises:
        Conflict: another `gpuyard up` runs there.

    """
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = locate.lock_holder(layout.root)
            raise Conflict(
                f"a yard already runs in {layout.root} (pid {holder})",
                f"Stop it with `gpuyard down{locate.dir_flag(layout.root)}`, or use another `--dir`.",
                pid=holder,
            ) from error
        yield
    finally:
        os.close(descriptor)
