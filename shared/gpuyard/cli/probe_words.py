"""What a probe found, for people and for programs: measured against expected. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.cli import terminal
from gpuyard.client.node_view import NodeView
from gpuyard.client.probe import Findings, Group, Pair
from gpuyard.contracts.hardware import Link
from gpuyard.topology.gpu_models import model_in
from gpuyard.topology.link_speed import described

_SLOW, _FAST = 0.75, 1.5
"""Parts of the expected figure beyond which a measured one is worth a word."""

WRONG = "WRONG"
SHUNNED = "counts as 0 GB/s until a later probe finds it sound"
Expected = Mapping[tuple[str, str], float]
"""GB/s one way by pair of UUIDs, in either order."""


class PairView(Struct, frozen=True):
    """One pair of GPUs."""

    a: Annotated[int, Meta(description="Index of one GPU on the node.")]
    b: int
    gb_s: Annotated[tuple[float, float], Meta(description="Measured from `a` to `b`, and back.")]
    expected_gb_s: Annotated[float | None, Meta(description="From the table of link types.")]
    p2p: bool | None
    is_sound: Annotated[bool, Meta(description="All payloads arrived as they were sent.")]


class GroupView(Struct, frozen=True):
    """All-reduces over one group, bus bandwidth."""

    gpus: tuple[int, ...]
    gb_s: float
    is_sound: bool


class ProbeView(Struct, frozen=True, tag="probe", tag_field="type"):
    """What `--json` prints. A pair that is not sound is stored as one of 0 GB/s, such a group not at all."""

    node: str
    job: str
    probed_at_s: float
    pairs: tuple[PairView, ...]
    groups: tuple[GroupView, ...]
    remarks: Annotated[tuple[str, ...], Meta(description="What is wrong or notable, in words.")]
    is_sound: Annotated[bool, Meta(description="All was measured, and everything arrived.")]
    is_stored: Annotated[bool, Meta(description="The node's inventory carries the figures.")]


class Wording:
    """Tells the findings on one node in words.

    Args:
        node: The node as it was before the probe.

    """

    def __init__(self, node: NodeView) -> None:
        self._index = {gpu.uuid: gpu.index for gpu in node.gpus}
        self._expected = expected_gb_s(node)

    def pair(self, pair: Pair) -> str:
        """`GPU 0-3: 48.3 GB/s, 48.2 expected`."""
        if not pair.is_sound:
            return self._corrupted(pair)
        expected = self._expected.get((pair.a, pair.b))
        told = "" if expected is None else f", {expected:.1f} expected"
        return f"{self._names(pair)}: {min(pair.gb_s):.1f} GB/s{told}"

    def group(self, group: Group) -> str:
        """`all-reduce over GPU 0,3: 45.1 GB/s bus bandwidth`."""
        name = f"all-reduce over GPU {','.join(map(str, self._indexes(group)))}"
        if not group.is_sound:
            return f"{name}: {WRONG} SUMS, {group.wrong} of {group.sums}; not stored"
        return f"{name}: {group.gb_s:.1f} GB/s bus bandwidth"

    def remarks(self, findings: Findings) -> Iterator[str]:
        """What is wrong or notable, the worst first."""
        yield from (self._corrupted(pair) for pair in findings.pairs if not pair.is_sound)
        yield from (self.group(group) for group in findings.groups if not group.is_sound)
        yield from findings.failures
        for pair in findings.pairs:
            expected = self._expected.get((pair.a, pair.b))
            if pair.is_sound and expected and not _SLOW <= min(pair.gb_s) / expected <= _FAST:
                measured = f"{min(pair.gb_s):.1f} GB/s measured"
                yield f"{self._names(pair)}: {measured}, {expected:.1f} expected"

    def matrix(self, findings: Findings) -> str:
        """Measured and expected GB/s from the GPU of the row to that of the column."""
        cells = {(pair.a, pair.b): self._cell(pair, 0) for pair in findings.pairs}
        cells |= {(pair.b, pair.a): self._cell(pair, 1) for pair in findings.pairs}
        gpus = sorted(findings.plan.gpus, key=lambda gpu: self._index.get(gpu, 0))
        names = [f"GPU{self._index.get(gpu, '?')}" for gpu in gpus]
        rows = ([name, *(cells.get((a, b), "-") for b in gpus)] for name, a in zip(names, gpus, strict=True))
        return terminal.table(["", *names], rows)

    def pair_view(self, pair: Pair) -> PairView:
        pair = self._upwards(pair)
        return PairView(
            self._index[pair.a],
            self._index[pair.b],
            pair.gb_s,
            self._expected.get((pair.a, pair.b)),
            pair.p2p,
            pair.is_sound,
        )

    def group_view(self, group: Group) -> GroupView:
        return GroupView(self._indexes(group), group.gb_s, group.is_sound)

    def _cell(self, pair: Pair, way: int) -> str:
        if pair.wrong[way]:
            return WRONG
        expected = self._expected.get((pair.a, pair.b))
        return f"{pair.gb_s[way]:.1f}" + ("" if expected is None else f"/{expected:.1f}")

    def _corrupted(self, pair: Pair) -> str:
        pair = self._upwards(pair)
        a, b = self._index[pair.a], self._index[pair.b]
        ways = zip(((a, b), (b, a)), pair.wrong, pair.copies, strict=True)
        told = [f"{wrong} of {copies} from {x} to {y}" for (x, y), wrong, copies in ways if wrong]
        return f"{self._names(pair)}: {WRONG} PAYLOAD in copies: {', '.join(told)}; {SHUNNED}"

    def _names(self, pair: Pair) -> str:
        a, b = sorted((self._index[pair.a], self._index[pair.b]))
        return f"GPU {a}-{b}"

    def _upwards(self, pair: Pair) -> Pair:
        """The pair as from the lower index to the higher."""
        if self._index[pair.a] < self._index[pair.b]:
            return pair
        return Pair(pair.b, pair.a, pair.gb_s[::-1], pair.copies[::-1], pair.wrong[::-1], pair.p2p)

    def _indexes(self, group: Group) -> tuple[int, ...]:
        return tuple(sorted(self._index[gpu] for gpu in group.gpus))


def expected_gb_s(node: NodeView) -> Expected:
    """What the table of link types says of each pair, whatever was measured before."""
    position = {gpu.uuid: place for place, gpu in enumerate(node.gpus)}
    links = [
        Link(place, position[peer.uuid], peer.level, peer.nvlinks, p2p=peer.p2p, switched=peer.switched)
        for place, gpu in enumerate(node.gpus)
        for peer in gpu.links
        if place < position[peer.uuid]
    ]
    models = [model_in(gpu.model) for gpu in node.gpus]
    return _both_ways(described(links, models), [gpu.uuid for gpu in node.gpus])


def _both_ways(links: Sequence[Link], gpus: Sequence[str]) -> Expected:
    found = {}
    for link in links:
        if link.gb_s is not None:
            found[gpus[link.a], gpus[link.b]] = found[gpus[link.b], gpus[link.a]] = link.gb_s
    return found
