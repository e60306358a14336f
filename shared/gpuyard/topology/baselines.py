"""Other ways to choose GPUs, to compare with: first fit, and the policy of NVIDIA's Kubernetes plugin.

They have the signature of `choose`, and what they take is valued in the same way.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations

from gpuyard.contracts.errors import Refused
from gpuyard.contracts.hardware import Level
from gpuyard.topology.choice import Choice, choice_of
from gpuyard.topology.ring import bits_of, mask_of
from gpuyard.topology.shape import Shape

# The states of the search for a partition double with each GPU.
MOST_GPUS = 16

_NVLINK = 100
_LEVELS = {
    Level.SYSTEM: 10,
    Level.SAME_NODE: 20,
    Level.HOST_BRIDGE: 30,
    Level.MULTI_SWITCH: 40,
    Level.SINGLE_SWITCH: 50,
    Level.SAME_BOARD: 60,
    None: 0,
}


def first_fit(
    shape: Shape, free: Iterable[int] | int, count: int, load: tuple[int, ...] = ()
) -> Choice | None:
    """The lowest free indices, as a scheduler without topology takes them."""
    gpus = bits_of(mask_of(free))
    return choice_of(shape, gpus[:count]) if 0 <= count <= len(gpus) else None


def go_gpuallocator(
    shape: Shape,
    free: Iterable[int] | int,
    count: int,
    load: tuple[int, ...] = (),
    required: Iterable[int] = (),
) -> Choice | None:
    """The best-effort policy of go-gpuallocator, with its faults; None also where it panics.

    It splits all free GPUs into sets of the wanted size, takes the split with the highest score, and of that
    the set with the highest score that holds the `required` ones. If the size does not divide their number,
    one set holds the padding; the policy returns that one too, and its caller panics.

    It enumerates every split; here the first best one is found by dynamic programming over what is left.

    Raises:
        Refused: more than `MOST_GPUS` are free.

    """
    gpus, wanted = bits_of(mask_of(free)), mask_of(required)
    if not 0 <= count <= len(gpus) or wanted.bit_count() > count or wanted & ~mask_of(gpus):
        return None
    if len(gpus) > MOST_GPUS:
        raise Refused(
            f"go-gpuallocator would take minutes to split {len(gpus)} GPUs; {MOST_GPUS} are the most",
            "Use another policy.",
        )
    if count < 2:
        return choice_of(shape, bits_of(wanted) or gpus[:count])
    chosen = _of_best_split(shape, gpus, count, wanted)
    return choice_of(shape, chosen) if chosen and len(chosen) == count else None


def pair_score(shape: Shape, a: int, b: int) -> int:
    """What go-gpuallocator gives a pair: 100 for each NVLink, and 10 to 60 for its PCIe level if known.

    NVLinks into a switch count nothing: it looks for the peer at the far end, and finds the switch. Which
    level they hide is taken from the sides of the machine.
    """
    if shape.switched and shape.nvlinks[a][b]:
        return _LEVELS[_hidden_level(shape.sides[a], shape.sides[b])]
    return _NVLINK * shape.nvlinks[a][b] + _LEVELS[shape.levels[a][b]]


def _hidden_level(a: int | None, b: int | None) -> Level | None:
    if a is None or b is None:
        return None
    return Level.SAME_NODE if a == b else Level.SYSTEM


def _of_best_split(shape: Shape, gpus: tuple[int, ...], count: int, wanted: int) -> tuple[int, ...] | None:
    padding = -len(gpus) % count
    seats = gpus + tuple(range(shape.size, shape.size + padding))

    @cache
    def score(members: tuple[int, ...]) -> int:
        real = [gpu for gpu in members if gpu < shape.size]
        return sum(pair_score(shape, a, b) for a, b in combinations(real, 2))

    def sets(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for others in combinations(left[1:], count - 1):
            members = (left[0], *others)
            pads = sum(seat >= shape.size for seat in members)
            held = mask_of(members) & wanted
            if pads in (0, padding) and held in (0, wanted) and not (held and pads):
                yield members

    @cache
    def best(left: tuple[int, ...]) -> tuple[int, tuple[tuple[int, ...], ...]] | None:
        """Score and sets of the first best split of what is left; None if there is none."""
        if not left:
            return 0, ()
        found: tuple[int, tuple[tuple[int, ...], ...]] | None = None
        for members in sets(left):
            rest = best(tuple(seat for seat in left if seat not in members))
            if rest and (found is None or score(members) + rest[0] > found[0]):
                found = score(members) + rest[0], (members, *rest[1])
        return found

    split = best(seats)
    holding = [members for members in split[1] if mask_of(members) & wanted == wanted] if split else []
    return tuple(gpu for gpu in max(holding, key=score, default=()) if gpu < shape.size)
