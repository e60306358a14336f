"""Other ways to choose GPUs, to compare with: first fit, and the policy of NVIDIA's Kubernetes plugin."""

from collections.abc import Iterable

from gpuyard.topology.choice import Choice, choice_of, mask_of
from gpuyard.topology.shape import Shape


def first_fit(
    shape: Shape, free: Iterable[int] | int, count: int, load: tuple[int, ...] = ()
) -> Choice | None:
    """The lowest free indices, as a scheduler without topology takes them."""
    mask = free if isinstance(free, int) else mask_of(free)
    gpus = tuple(gpu for gpu in range(shape.size) if mask >> gpu & 1)
    return choice_of(shape, gpus[:count]) if 0 <= count <= len(gpus) else None


def go_gpuallocator(
    shape: Shape, free: Iterable[int] | int, count: int, load: tuple[int, ...] = ()
) -> Choice | None:
    """Best effort of go-gpuallocator; for now the same as first fit."""
    return first_fit(shape, free, count, load)
