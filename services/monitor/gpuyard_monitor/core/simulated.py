"""A node whose hardware comes from a captured topology, with values that move as a real one's would.

Everything follows from the node's id, the time and which GPUs are held: two monitors given the same
would report the same. A held GPU computes at once; its memory fills within seconds, it heats up within a
minute. When it is given back, its memory is free at once and it cools down.
"""

import hashlib
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from gpuyard.contracts.hardware import Gpu, Host, Link
from gpuyard.topology.capture import Capture
from gpuyard.topology.gpu_models import GpuModel
from gpuyard.topology.link_speed import described
from gpuyard_monitor.core.busy import Holders
from gpuyard_monitor.core.foreign import Origin
from gpuyard_monitor.core.look import Hardware, Look
from gpuyard_monitor.core.plain import plain
from gpuyard_monitor.core.readings import Found, RawProcess, Reading, Remapped

_UUIDS = uuid.UUID("8f6e7d1a-3c2b-5e4f-9a08-5d1c7b6e2f30")
_FILL_S = 4.0
_HEAT_S = 25.0
_IDLE_C, _HOT_C = 31.0, 74.0
_FIRST_PID = 100_000
_NVLINK_BYTES_S, _PCIE_BYTES_S = 6e9, 1.5e9
"""Traffic of one NVLink, and of the slot, while a GPU works at full load."""


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node between two looks. `load` and `heat` go from 0 to 1 for each GPU, `sent` counts NVLink bytes."""

    node: str
    hardware: Hardware
    model: GpuModel
    load: tuple[float, ...]
    heat: tuple[float, ...]
    sent: tuple[float, ...]
    holders: tuple[str, ...]
    """The job that holds each GPU; empty if none does."""
    at_s: float

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.hardware.found.gpus if self.hardware.found else ()


def simulate(capture: Capture, node: str, at_s: float) -> SimulatedNode:
    """A cold, free node. UUIDs depend on the node's id and the index alone."""
    links = described(capture.topology.links, capture.model)
    gpus = tuple(_gpu(capture, node, index, links) for index in range(len(capture.topology.gpus)))
    nics = tuple(structs.replace(nic, name=plain(nic.name)) for nic in capture.topology.nics)
    hardware = Hardware(
        _host(capture, node),
        Found(gpus, links, nics, count=len(gpus)),
        source=plain(f"{capture.name}: {capture.source}" if capture.source else capture.name),
        simulated=True,
    )
    zeros = (0.0,) * len(gpus)
    return SimulatedNode(node, hardware, capture.model, zeros, zeros, zeros, ("",) * len(gpus), at_s)


def advance(node: SimulatedNode, now_s: float, holders: Holders) -> SimulatedNode:
    """Let time pass while jobs hold GPUs. A clock that jumps back lets none pass."""
    passed_s = max(now_s - node.at_s, 0.0)
    jobs = tuple(min(holders.get(gpu.uuid, ()), default="") for gpu in node.gpus)
    load = tuple(
        _near(at, 1.0, passed_s / _FILL_S) if job else 0.0 for at, job in zip(node.load, jobs, strict=True)
    )
    return replace(
        node,
        load=load,
        heat=tuple(
            _near(at, float(bool(job)), passed_s / _HEAT_S) for at, job in zip(node.heat, jobs, strict=True)
        ),
        sent=tuple(
            sent + passed_s * at * (gpu.nvlinks or 0) * _NVLINK_BYTES_S
            for sent, at, gpu in zip(node.sent, load, node.gpus, strict=True)
        ),
        holders=jobs,
        at_s=now_s,
    )


def look(node: SimulatedNode) -> Look:
    """What instruments would read now."""
    busy = sum(map(bool, node.holders)) / len(node.holders)
    return Look(
        readings=tuple(_reading(node, index) for index in range(len(node.gpus))),
        origins={
            _pid(index): Origin("simulated", "python", job) for index, job in enumerate(node.holders) if job
        },
        cpu=round(0.01 + 0.02 * _swing(node.node, -1, node.at_s) + 0.3 * busy, 4),
    )


def _host(capture: Capture, node: str) -> Host:
    """Affinity lists reach as far as the machine's last CPU; without any, its size is unknown.

    Another capture is another machine, which has booted at another time.
    """
    gpus = capture.topology.gpus
    cpus = [int(part) for gpu in gpus if gpu.cpus for part in gpu.cpus.replace("-", ",").split(",")]
    numas = [gpu.numa for gpu in gpus if gpu.numa is not None]
    return Host(
        hostname=node,
        cpus=max(cpus) + 1 if cpus else None,
        numa_nodes=max(numas) + 1 if numas else None,
        boot_id=str(uuid.uuid5(_UUIDS, f"{node}/{capture.name}/{len(gpus)}")),
    )


def _gpu(capture: Capture, node: str, index: int, links: Sequence[Link]) -> Gpu:
    affinity = capture.topology.gpus[index]
    return Gpu(
        uuid=f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}",
        index=index,
        model=plain(capture.model.name),
        memory_bytes=capture.model.memory_bytes,
        numa=affinity.numa,
        cpus=affinity.cpus,
        nvlinks=_nvlinks(links, index),
    )


def _nvlinks(links: Sequence[Link], index: int) -> int | None:
    """NVLinks of a GPU: into the switch, or to each of its peers. None if there are none."""
    mine = [link for link in links if index in (link.a, link.b) and link.nvlinks]
    if any(link.switched for link in mine):
        return max(link.nvlinks for link in mine)
    return sum(link.nvlinks for link in mine) or None


def _reading(node: SimulatedNode, index: int) -> Reading:
    gpu, model = node.gpus[index], node.model
    load, heat, job = node.load[index], node.heat[index], node.holders[index]
    swing = _swing(node.node, index, node.at_s)
    utilisation = 0.70 + 0.28 * swing if job else 0.01 * swing
    fraction = 0.01 + (0.60 + 0.25 * _phase(node.node, index)) * load
    used = None if gpu.memory_bytes is None else int(gpu.memory_bytes * fraction)
    sent = int(node.sent[index]) if gpu.nvlinks else None
    pcie = round(_PCIE_BYTES_S * load * utilisation)
    return Reading(
        uuid=gpu.uuid,
        utilisation=round(utilisation, 3),
        memory_used_bytes=used,
        power_w=round(model.idle_w + (model.most_w - model.idle_w) * load * utilisation, 1),
        temperature_c=round(_IDLE_C + 2.0 * swing + (_HOT_C - _IDLE_C) * heat, 1),
        clock_reasons=(),
        processes=(RawProcess(_pid(index), used),) if job else (),
        nvlink_tx_bytes=sent,
        nvlink_rx_bytes=sent,
        pcie_tx_bytes_s=pcie,
        pcie_rx_bytes_s=2 * pcie,
        ecc_corrected=0,
        ecc_uncorrected=0,
        remapped=Remapped(0, 0, pending=False, failed=False),
        nvlinks_active=gpu.nvlinks,
        recovery="none",
    )


def _pid(index: int) -> int:
    return _FIRST_PID + index


def _near(value: float, target: float, times: float) -> float:
    """Where a value is after `times` of its time constant on its way to the target."""
    return target + (value - target) * math.exp(-times)


def _swing(node: str, index: int, now_s: float) -> float:
    """A slow, never quite repeating wave between 0 and 1."""
    phase = 2.0 * math.pi * _phase(node, index)
    return 0.5 + 0.25 * math.sin(now_s / 7.0 + phase) + 0.25 * math.sin(now_s / 2.3 + 3.0 * phase)


def _phase(node: str, index: int) -> float:
    """A fraction of its own for each GPU, always the same."""
    digest = hashlib.blake2b(f"{node}/{index}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32
