"""All that the monitor knows of one node: looks go in, what others are told comes out.

The inventory is the only memory that outlives the monitor, so it holds everything that must: the rules that
hold for each GPU, GPUs that answer no more, what was measured. Nothing is told before `recall` has brought
the last one back, since a monitor without memory would call a broken GPU well.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from gpuyard.contracts.figures import Figures
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.node_event import NodeEvent
from gpuyard_monitor.core.busy import Holders
from gpuyard_monitor.core.changes import Change, changes, xid_event
from gpuyard_monitor.core.described import described, is_same_run
from gpuyard_monitor.core.figures import check, with_figures
from gpuyard_monitor.core.health import Moment
from gpuyard_monitor.core.look import Hardware, Look, Trouble
from gpuyard_monitor.core.readings import Reading, Xid
from gpuyard_monitor.core.rules import Known, in_force
from gpuyard_monitor.core.ward import Ward
from gpuyard_monitor.core.wired import expected_nvlinks

_SAME_XID_TOLD_AFTER_S = 60.0
_NOBODY: frozenset[str] = frozenset()


class Watch:
    """One node over time.

    Args:
        tolerated: names of programs that may use a GPU although nobody scheduled them.
        ignored: health rules that are switched off.

    """

    def __init__(
        self, node: str, labels: Mapping[str, str], tolerated: Sequence[str], ignored: Sequence[str] = ()
    ) -> None:
        self.inventory: Inventory | None = None
        """The newest that may be told; None before the last one is recalled."""
        self._node = node
        self._labels = labels
        self._tolerated = frozenset(tolerated)
        self._hardware: Hardware | None = None
        self._bare: Inventory | None = None
        """The inventory with nobody's health in it."""
        self._trouble: Trouble | None = None
        self._wards: defaultdict[str, Ward] = defaultdict(partial(Ward, in_force(ignored)))
        self._changes: list[Change] = []
        self._xid_told_s: dict[tuple[str | None, int], float] = {}

    def see_hardware(self, hardware: Hardware, now: Moment) -> None:
        """Take in what the node is."""
        self._hardware = hardware
        self._trouble = hardware.trouble
        self._describe(self._bare, now)
        if self.inventory:
            self._tell(now)

    def recall(self, last: Inventory | None, now: Moment) -> None:
        """Go on from the inventory of an earlier monitor, if there is one; once the hardware was seen."""
        self._describe(last, now)
        if last and self._bare and is_same_run(last, self._bare):
            for gpu in last.gpus:
                self._wards[gpu.uuid].recall(gpu.faults)
        self.inventory = last
        self._tell(now)

    def see(self, look: Look, now: Moment, holders: Holders | None, seq: int) -> NodeSample:
        """Take in one look and sum it up.

        Args:
            holders: jobs by GPU; None if the facts of the executor are not known.

        """
        self._trouble = look.trouble
        for xid in look.xids:
            self._see_xid(xid, now)
        if look.trouble is None:
            self._see_readings(look, now, holders)
        if self.inventory and self._is_news(self.inventory):
            self._tell(now)
        samples = [ward.sample() for ward in self._wards.values()] if look.trouble is None else []
        gpus = tuple(sample for sample in samples if sample)
        return NodeSample(self._node, now.at_s, seq, look.cpu, look.memory_used_bytes, gpus)

    def take_figures(self, figures: Figures, now: Moment) -> None:
        """Take in what a probe measured; not before the last inventory was recalled.

        Raises:
            InvalidSpec: it can't be true of this node.

        """
        assert self._bare, "nothing was seen yet"
        check(figures, self._bare, now.at_s)
        self._describe(with_figures(self._bare, figures), now)
        self._tell(now)

    def new_changes(self) -> list[Change]:
        """What has happened since the last call, in order."""
        new, self._changes = self._changes, []
        return new

    @property
    def misses_gpus(self) -> bool:
        """Whether a GPU does not answer that should: the driver may tell of it again any moment."""
        unnamed = self._hardware.found.missing if self._hardware and self._hardware.found else 0
        return unnamed > 0 or any(ward.is_lost for ward in self._wards.values())

    def _describe(self, before: Inventory | None, now: Moment) -> None:
        assert self._hardware, "nothing was seen yet"
        bare = described(self._hardware, before, node=self._node, labels=self._labels, at_s=now.at_s)
        nvlinks = expected_nvlinks(bare.gpus)
        for gpu in bare.gpus:
            self._wards[gpu.uuid].known = Known(nvlinks[gpu.uuid], gpu.mig)
        for uuid in self._wards.keys() - nvlinks.keys():
            del self._wards[uuid]
        if self._hardware.found:
            self._miss(nvlinks.keys() - {gpu.uuid for gpu in self._hardware.found.gpus}, now)
        self._bare = bare

    def _miss(self, uuids: Iterable[str], now: Moment) -> None:
        """GPUs that the driver no longer lists are lost before anybody can take them for well."""
        for uuid in uuids:
            self._wards[uuid].see(Reading(uuid, lost=True), now, paced=False)

    def _see_readings(self, look: Look, now: Moment, holders: Holders | None) -> None:
        """A GPU of the inventory that the driver no longer lists is lost too."""
        read = {reading.uuid: reading for reading in look.readings}
        for uuid, ward in self._wards.items():
            reading = read.get(uuid) or Reading(uuid, lost=True)
            jobs = None if holders is None else holders.get(uuid, _NOBODY)
            ward.see(reading, now, paced=look.paced)
            ward.see_processes(reading, look.origins, jobs, self._tolerated, now.mono_s)

    def _see_xid(self, xid: Xid, now: Moment) -> None:
        """An error that comes again and again is told once a minute."""
        ward = self._wards.get(xid.uuid) if xid.uuid else None
        is_out = ward is not None and ward.see_xid(xid.number, now)
        key = (xid.uuid, xid.number)
        if now.mono_s - self._xid_told_s.get(key, -_SAME_XID_TOLD_AFTER_S) >= _SAME_XID_TOLD_AFTER_S:
            self._xid_told_s[key] = now.mono_s
            self._changes.append(Change(xid_event(self._node, xid, now.at_s, is_out=is_out), now.at_s))

    def _is_news(self, told: Inventory) -> bool:
        """Whether health or advice are no longer as told; all else changes with the hardware alone."""
        shown = self._shown()
        return shown.gpus != told.gpus or shown.advice != told.advice

    def _tell(self, now: Moment) -> None:
        told, shown = self.inventory, replace(self._shown(), at_s=now.at_s)
        before_s = told.at_s if told else 0.0
        if self._trouble and shown.gpus and not (told and told.advice == shown.advice):
            event = NodeEvent(self._node, self._trouble.event, now.at_s, shown.advice)
            self._changes.append(Change(event, before_s))
        self._changes += [Change(event, before_s) for event in changes(told, shown)] if told else ()
        self.inventory = _dated(shown, told)

    def _shown(self) -> Inventory:
        """The inventory as it is to be told. Trouble with the driver matters where there were GPUs."""
        assert self._bare, "nothing was seen yet"
        bare, why = self._bare, self._trouble.why if self._trouble else ""
        gpus = tuple(self._wards[gpu.uuid].shown(gpu, why) for gpu in bare.gpus)
        return replace(
            bare, gpus=gpus, advice=self._trouble.advice if self._trouble and gpus else bare.advice
        )


def _dated(shown: Inventory, told: Inventory | None) -> Inventory:
    """The inventory as of when it became so: changes are known by the inventory that they change."""
    return replace(told) if told and replace(shown, at_s=told.at_s) == told else shown
