"""`gpuyard place`: which GPUs of a captured machine would be taken, and why. It needs no yard."""

import difflib
from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

from cyclopts import Parameter
from msgspec import Struct

from gpuyard.cli import terminal, words
from gpuyard.cli.gpu_list import gpu_list
from gpuyard.cli.session import AsJson, YardDir
from gpuyard.contracts.errors import InvalidSpec, Refused
from gpuyard.contracts.hardware import Inventory, Link
from gpuyard.topology import captures
from gpuyard.topology.baselines import first_fit, go_gpuallocator
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.choice import Choice, choose, explained
from gpuyard.topology.link_kinds import kinds
from gpuyard.topology.rejection import RejectedSet
from gpuyard.topology.shape import Shape, shape_of

OURS = "gpuyard"
POLICIES = {OURS: choose, "go-gpuallocator": go_gpuallocator, "first-fit": first_fit}


class PlaceView(Struct, frozen=True):
    """What `place --json` prints. Figures are None for fewer than two GPUs."""

    gpus: tuple[int, ...]
    bottleneck_gb_s: float | None
    sum_gb_s: float | None
    links: dict[str, int]
    rejected: tuple[RejectedSet, ...]
    policy: str
    free: tuple[int, ...]


def place(
    *,
    capture: Annotated[
        str,
        Parameter(help="A captured topology by name, or a file with the output of `nvidia-smi topo -m`."),
    ],
    gpus: Annotated[int, Parameter(help="So many GPUs.")],
    free: Annotated[str | None, Parameter(help="Only these are free, for example `0,1,4-6`.")] = None,
    policy: Annotated[str, Parameter(help=f"Who chooses: {', '.join(POLICIES)}.")] = OURS,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Show which GPUs of a captured machine a job would get, and why."""
    _check(gpus, policy)
    inventory = captured_inventory(captures.load(capture))
    count = len(inventory.gpus)
    view = _decide(inventory, tuple(range(count)) if free is None else gpu_list(free, count), gpus, policy)
    if as_json:
        terminal.print_json(view)
        return
    for line in _told(view, inventory):
        terminal.print_data(words.harmless(line))


def _check(gpus: int, policy: str) -> None:
    if gpus < 1:
        raise InvalidSpec(f"--gpus is {gpus}: it must be at least 1")
    if policy not in POLICIES:
        near = difflib.get_close_matches(policy, POLICIES, n=1, cutoff=0.3)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        raise InvalidSpec(
            f"there is no policy `{policy[:80]}`",
            f"{hint}There are {', '.join(f'`{each}`' for each in POLICIES)}.",
        )


def _decide(inventory: Inventory, free: tuple[int, ...], count: int, policy: str) -> PlaceView:
    shape = shape_of(inventory)
    choice = POLICIES[policy](shape, free, count)
    if choice is None:
        raise _unplaced(inventory, free, count, policy)
    inside = _inside(inventory.links, choice.gpus)
    return PlaceView(
        gpus=choice.gpus,
        bottleneck_gb_s=choice.bottleneck_gb_s,
        sum_gb_s=choice.sum_gb_s,
        links={kind.label: kind.count for kind in kinds(inside)},
        rejected=_rejected(shape, free, choice, policy),
        policy=policy,
        free=free,
    )


def _unplaced(inventory: Inventory, free: tuple[int, ...], count: int, policy: str) -> Refused:
    if count > len(inventory.gpus):
        have = words.count(len(inventory.gpus), "GPU")
        return Refused(f"{words.count(count, 'GPU')} can never fit: {inventory.node} has {have}")
    if count > len(free):
        hint = f"Ask for {len(free)} or fewer, or wait." if free else ""
        return Refused(
            f"{words.count(count, 'GPU')} do not fit: {len(free)} of {len(inventory.gpus)} are free", hint
        )
    return Refused(
        f"{policy} fails to place {words.count(count, 'GPU')} on {len(free)} free ones, though they fit",
        f"The policy `{OURS}` finds a place.",
    )


def _rejected(shape: Shape, free: tuple[int, ...], choice: Choice, policy: str) -> tuple[RejectedSet, ...]:
    """The next best sets; of another policy's choice, the set that ours takes instead."""
    if policy == OURS:
        return explained(shape, free, choice)
    ours = choose(shape, free, len(choice.gpus))
    if ours is None or ours.gpus == choice.gpus:
        return ()
    return (RejectedSet(ours.gpus, ours.bottleneck_gb_s, ours.sum_gb_s, f"{OURS} takes {_worth(ours)}"),)


def _worth(choice: Choice) -> str:
    if choice.bottleneck_gb_s is None:
        return "this one"
    return f"these: {_rate(choice.bottleneck_gb_s)} at the slowest link, {_rate(choice.sum_gb_s)} together"


def _inside(links: Sequence[Link], gpus: tuple[int, ...]) -> list[Link]:
    pairs = set(combinations(gpus, 2))
    return [link for link in links if (link.a, link.b) in pairs]


def _told(view: PlaceView, inventory: Inventory) -> list[str]:
    """The decision for people."""
    inside = kinds(_inside(inventory.links, view.gpus))
    facts = [
        ("links", ", ".join(f"{kind.count} x {kind}" for kind in inside)),
        ("slowest link of the best ring", _rate(view.bottleneck_gb_s)),
        ("all links together", _rate(view.sum_gb_s)),
    ]
    named = ", ".join(map(str, view.gpus))
    lines = [f"GPU {named} of {inventory.node}, chosen by {view.policy} from {len(view.free)} free"]
    lines += [f"  {name:<30} {value}" for name, value in facts if value]
    if view.rejected:
        lines.append("not taken:")
        lines += [f"  GPU {', '.join(map(str, each.gpus))}: {each.why}" for each in view.rejected]
    return lines


def _rate(gb_s: float | None) -> str:
    return "" if gb_s is None else f"{gb_s:.1f} GB/s"
