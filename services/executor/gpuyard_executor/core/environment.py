"""The environment of a rank, as torchrun would set it. Why these device variables: docs/decisions/0003."""

from collections.abc import Iterable, Mapping

from gpuyard.contracts.order import Prepare
from gpuyard.contracts.placement import Slot
from gpuyard_executor.core.secret_values import secrets_of

_PRIVATE_PREFIXES = ("GPUYARD_", "NATS_")
_PRIVATE = frozenset(
    {"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "INVOCATION_ID", "JOURNAL_STREAM"}
)


def inherited(own: Mapping[str, str]) -> dict[str, str]:
    """What a rank may see of the executor's environment: nothing of ours, of systemd's, and no secret."""
    return {key: value for key, value in own.items() if not _is_private(key)}


def _is_private(key: str) -> bool:
    is_otlp_secret = key.startswith("OTEL_") and key.endswith("_HEADERS")
    return key.startswith(_PRIVATE_PREFIXES) or key in _PRIVATE or is_otlp_secret


def rank_environment(
    base: Mapping[str, str], order: Prepare, slot: Slot, master_addr: str, master_port: int
) -> dict[str, str]:
    """Everything the rank is started with; ours goes over the task's, which goes over the base."""
    task = next(task for task in order.tasks if task.name == slot.task)
    return {
        "PYTHONUNBUFFERED": "1",
        **base,
        **task.env,
        **_place(order, slot),
        **_devices(order.slots, slot),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
        "GPUYARD_JOB_ID": order.job,
        "GPUYARD_ATTEMPT": str(order.attempt),
        "GPUYARD_TASK": slot.task,
        "GPUYARD_NODE": order.node,
    }


def rank_secrets(base: Mapping[str, str], order: Prepare | None, slot: Slot) -> dict[str, str]:
    """Values, by name, that must not be seen in what the rank prints; of a lost order, those of the base."""
    tasks = order.tasks if order else ()
    task = next((task for task in tasks if task.name == slot.task), None)
    return secrets_of({**base, **task.env}, task.secrets) if task else secrets_of(base, ())


def _place(order: Prepare, slot: Slot) -> dict[str, str]:
    return {
        "RANK": str(slot.rank),
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_RANK": str(slot.local_rank),
        "LOCAL_WORLD_SIZE": str(len(order.slots)),
        "NODE_RANK": str(slot.node_rank),
        "GROUP_RANK": str(slot.node_rank),
    }


def _devices(slots: Iterable[Slot], slot: Slot) -> dict[str, str]:
    visible = visible_gpus(slots, slot)
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(visible),
        "NVIDIA_VISIBLE_DEVICES": ",".join(visible) or "void",
        "GPUYARD_GPUS": ",".join(slot.gpus),
    }


def visible_gpus(slots: Iterable[Slot], slot: Slot) -> tuple[str, ...]:
    """GPUs a rank sees: with one each, all of the gang on the node in local-rank order; else its own."""
    local = sorted(slots, key=lambda each: each.local_rank)
    if all(len(each.gpus) == 1 for each in local):
        return tuple(each.gpus[0] for each in local)
    return slot.gpus
