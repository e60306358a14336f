"""A node whose hardware comes from a captured topology, with values that move as a real one's would.

Everything follows from the node's id, the time and which GPUs are held: two monitors given the same
would report the same. A held GPU computes at once; its memory fills within seconds, it heats up within a
minute. When it is given back, its memory is free at once and it cools down.
"""

import hashlib
import math
import uuid
from dataclasses import dataclass, replace

from gpuyard.contracts.hardware import Gpu, GpuSample, Host, Inventory, NodeSample
from gpuyard.topology.capture import Capture
from gpuyard.topology.gpu_models import GpuModel
from gpuyard.topology.link_speed import described

_UUIDS = uuid.UUID("8f6e7d1a-3c2b-5e4f-9a08-5d1c7b6e2f30")
_FILL_S = 4.0
_HEAT_S = 25.0
_IDLE_C, _HOT_C = 31.0, 74.0


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node between two samples. `load` and `heat` go from 0 to 1 for each GPU."""

    inventory: Inventory
    model: GpuModel
    load: tuple[float, ...]
    heat: tuple[float, ...]
    held: tuple[bool, ...]
    at_s: float


def simulate(capture: Capture, node: str, at_s: float) -> SimulatedNode:
    """A cold, free node. UUIDs depend on the node's id and the index alone."""
    inventory = Inventory(
        node=node,
        at_s=at_s,
        host=_host(capture, node),
        gpus=tuple(_gpu(capture, node, index) for index in range(len(capture.topology.gpus))),
        links=described(capture.topology.links, capture.model),
        nics=capture.topology.nics,
        simulated=True,
        source=f"{capture.name}: {capture.source}" if capture.source else capture.name,
    )
    zeros = (0.0,) * len(inventory.gpus)
    return SimulatedNode(inventory, capture.model, zeros, zeros, (False,) * len(zeros), at_s)


def advance(node: SimulatedNode, now_s: float, busy: frozenset[str]) -> SimulatedNode:
    """Let time pass while the GPUs in `busy` work. A clock that jumps back lets none pass."""
    passed_s = max(now_s - node.at_s, 0.0)
    held = tuple(gpu.uuid in busy for gpu in node.inventory.gpus)
    return replace(
        node,
        load=tuple(
            _near(at, 1.0, passed_s / _FILL_S) if on else 0.0 for at, on in zip(node.load, held, strict=True)
        ),
        heat=tuple(_near(at, float(on), passed_s / _HEAT_S) for at, on in zip(node.heat, held, strict=True)),
        held=held,
        at_s=now_s,
    )


def sample(node: SimulatedNode, seq: int) -> NodeSample:
    """What an instrument would read now."""
    busy = sum(node.held) / len(node.held)
    swing = _swing(node.inventory.node, -1, node.at_s)
    return NodeSample(
        node=node.inventory.node,
        at_s=node.at_s,
        seq=seq,
        cpu=round(0.01 + 0.02 * swing + 0.3 * busy, 4),
        gpus=tuple(_gpu_sample(node, index) for index in range(len(node.held))),
    )


def _host(capture: Capture, node: str) -> Host:
    """Affinity lists reach as far as the machine's last CPU; without any, its size is unknown."""
    gpus = capture.topology.gpus
    cpus = [int(part) for gpu in gpus if gpu.cpus for part in gpu.cpus.replace("-", ",").split(",")]
    numas = [gpu.numa for gpu in gpus if gpu.numa is not None]
    return Host(
        hostname=node,
        cpus=max(cpus) + 1 if cpus else None,
        numa_nodes=max(numas) + 1 if numas else None,
        boot_id=str(uuid.uuid5(_UUIDS, node)),
    )


def _gpu(capture: Capture, node: str, index: int) -> Gpu:
    affinity = capture.topology.gpus[index]
    return Gpu(
        uuid=f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}",
        index=index,
        model=capture.model.name,
        memory_bytes=capture.model.memory_bytes,
        numa=affinity.numa,
        cpus=affinity.cpus,
    )


def _gpu_sample(node: SimulatedNode, index: int) -> GpuSample:
    gpu, model = node.inventory.gpus[index], node.model
    load, heat, held = node.load[index], node.heat[index], node.held[index]
    swing = _swing(node.inventory.node, index, node.at_s)
    utilisation = 0.70 + 0.28 * swing if held else 0.01 * swing
    used = 0.01 + (0.60 + 0.25 * _phase(node.inventory.node, index)) * load
    return GpuSample(
        uuid=gpu.uuid,
        utilisation=round(utilisation, 3),
        memory_used_bytes=None if gpu.memory_bytes is None else int(gpu.memory_bytes * used),
        power_w=round(model.idle_w + (model.most_w - model.idle_w) * load * utilisation, 1),
        temperature_c=round(_IDLE_C + 2.0 * swing + (_HOT_C - _IDLE_C) * heat, 1),
    )


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
