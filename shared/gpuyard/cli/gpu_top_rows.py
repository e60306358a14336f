"""The GPUs of the cluster as rows: what there is to see, which of it, and in which order. Pure."""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from msgspec import Meta, Struct

from gpuyard.client.node_view import GpuView, NodeView
from gpuyard.contracts.hardware import Health


class Row(Struct, frozen=True):
    """One GPU, as `gpu-top --json` prints it. Fields are only ever added; None is unknown."""

    node: str
    index: int
    uuid: str
    model: str
    utilisation: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    job: Annotated[str | None, Meta(description="The job that holds it.")]
    job_name: str | None
    owner: str | None
    health: Health
    health_reason: str
    heard: Annotated[bool, Meta(description="Whether its node spoke just now.")]
    free: Annotated[bool, Meta(description="Whether a job could be given it now.")]

    @property
    def condition(self) -> str:
        """Health in one word for people; a silent node's health is not known any more."""
        return _CONDITIONS[self.health] if self.heard else "silent"


_CONDITIONS = {Health.OK: "ok", Health.OUT: "out", Health.FOREIGN: "foreign", Health.UNKNOWN: "unknown"}


class Sort(StrEnum):
    """What rows are ordered by."""

    NODE = "node"
    UTILISATION = "utilisation"
    MEMORY = "memory"
    POWER = "power"
    TEMPERATURE = "temperature"
    JOB = "job"


def rows_of(nodes: Iterable[NodeView]) -> list[Row]:
    """A row for each GPU."""
    return [_row(node, gpu) for node in nodes for gpu in node.gpus]


def _row(node: NodeView, gpu: GpuView) -> Row:
    return Row(
        node=node.node,
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        utilisation=gpu.utilisation,
        memory_used_bytes=gpu.memory_used_bytes,
        memory_bytes=gpu.memory_bytes,
        power_w=gpu.power_w,
        power_limit_w=gpu.power_limit_w,
        temperature_c=gpu.temperature_c,
        job=gpu.holder,
        job_name=gpu.job_name,
        owner=gpu.owner,
        health=gpu.health,
        health_reason=gpu.health_reason,
        heard=node.heard,
        free=node.has_free(gpu),
    )


def selected(rows: Iterable[Row], text: str, *, free_only: bool) -> list[Row]:
    """The rows in which each word of the text occurs somewhere, in any case of letters."""
    words = text.lower().split()
    return [
        row
        for row in rows
        if (row.free or not free_only) and (not words or all(word in _searched(row) for word in words))
    ]


def _searched(row: Row) -> str:
    fields = (row.node, row.model, row.job, row.owner, row.condition, row.health_reason if row.heard else "")
    return "\n".join(field for field in fields if field).lower()


def ordered(rows: Iterable[Row], sort: Sort, *, reverse: bool = False) -> list[Row]:
    """Measured values from high to low, names upwards; what is unknown or empty always comes last."""
    by_place = sorted(rows, key=_place, reverse=reverse and sort is Sort.NODE)
    if sort is Sort.NODE:
        return by_place
    known = [row for row in by_place if _value(row, sort) is not None]
    known.sort(key=lambda row: _value(row, sort), reverse=reverse == (sort is Sort.JOB))
    return known + [row for row in by_place if _value(row, sort) is None]


def _value(row: Row, sort: Sort) -> Any:
    match sort:
        case Sort.UTILISATION:
            return row.utilisation
        case Sort.MEMORY:
            return row.memory_used_bytes
        case Sort.POWER:
            return row.power_w
        case Sort.TEMPERATURE:
            return row.temperature_c
    return row.job


def _place(row: Row) -> tuple[object, ...]:
    return (_by_number(row.node), row.index)


@lru_cache(maxsize=65536)
def _by_number(name: str) -> tuple[tuple[int, str], ...]:
    """Lets `n9` come before `n10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
