"""Orders on disk, so that they may be acknowledged: after a restart the executor still knows what was wanted.

One file per order, written once. A file cut short was never acknowledged. Not synced: what a power cut takes
away, ends by it as well.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from gpuyard.contracts.order import Order, Prepare, Start, Stop
from gpuyard_executor.core.rank import GangKey

_KINDS = {Prepare: "prepare", Start: "start", Stop: "stop"}


class Entry(Struct, frozen=True):
    """An order and the trace it belongs to."""

    order: Order
    trace: str = ""


class Journal:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, entry: Entry) -> None:
        """Keep an order; the same again changes nothing."""
        path = self._path(entry.order)
        if path.exists():
            return
        try:
            path.write_bytes(msgspec.msgpack.encode(entry))
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def read(self) -> list[Entry]:
        """All that is kept."""
        entries = []
        for path in sorted(self._directory.iterdir()):
            try:
                entries.append(msgspec.msgpack.decode(path.read_bytes(), type=Entry))
            except msgspec.MsgspecError:
                path.unlink()
        return entries

    def forget(self, gang: GangKey) -> None:
        for kind in _KINDS.values():
            (self._directory / f"{gang}.{kind}").unlink(missing_ok=True)

    def _path(self, order: Order) -> Path:
        return self._directory / f"{GangKey(order.job, order.attempt)}.{_KINDS[type(order)]}"
