"""Links by kind, in words: what `NV2` or `SYS` reaches on this machine."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuyard.contracts.hardware import Basis, Level, Link
from gpuyard.topology.tree import Branch, Tier

LEVEL_WORDS = {
    Level.SAME_BOARD: "on one board",
    Level.SINGLE_SWITCH: "over one PCIe switch",
    Level.MULTI_SWITCH: "over several PCIe switches",
    Level.HOST_BRIDGE: "over a PCIe host bridge",
    Level.SAME_NODE: "between host bridges of one NUMA node",
    Level.SYSTEM: "between NUMA nodes",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """All links of one label. `slowest` and `fastest` are GB/s one way, None where unknown."""

    label: str
    count: int
    nvlinks: int
    slowest: float | None
    fastest: float | None
    staged: bool
    """All copies go through host memory."""

    @property
    def speed(self) -> str:
        """`48.2 GB/s`, `8.1-9.8 GB/s`; empty if unknown."""
        if self.slowest is None or self.fastest is None:
            return ""
        return "-".join(dict.fromkeys((speed(self.slowest), speed(self.fastest)))) + " GB/s"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.label, self.speed)))


def speed(gb_s: float) -> str:
    """As many digits as mean something: `9.63`, `48.2`, `376`."""
    return f"{gb_s:.3g}" if gb_s < 100 else f"{gb_s:.0f}"


def kinds(links: Iterable[Link]) -> list[Kind]:
    """One for each label, the fastest first."""
    by_label: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        by_label[str(link.label)].append(link)
    found = [_kind(label, members) for label, members in by_label.items()]
    return sorted(found, key=lambda kind: (-(kind.fastest or 0.0), -kind.nvlinks, kind.label))


def tied_parts(branch: Branch) -> list[Branch]:
    """The parts of a branch as PCIe sees them: an island is none, its parts are."""
    parts = []
    for child in branch.children:
        parts.extend(tied_parts(child) if child.tier is Tier.NVLINK_ISLAND else [child])
    return parts


def _kind(label: str, links: Sequence[Link]) -> Kind:
    speeds = [link.gb_s for link in links if link.gb_s is not None]
    known = speeds if len(speeds) == len(links) else []
    return Kind(
        label,
        len(links),
        links[0].nvlinks,
        min(known, default=None),
        max(known, default=None),
        all(link.p2p is False for link in links),
    )


def notes(links: Sequence[Link]) -> list[str]:
    """What a reader must know to understand labels and speeds; only of what is there."""
    levels = {link.level for link in links if not link.nvlinks}
    found = [f"{level}: {LEVEL_WORDS[level]}" for level in Level if level in levels]
    if any(link.p2p is False for link in links):
        found.append("no P2P: copies go through host memory")
    known = {link.basis for link in links if link.gb_s is not None}
    sure = {Basis.MEASURED: "measured", Basis.MODEL: "typical of the model", Basis.TYPICAL: "a rough guess"}
    if known:
        found.append(f"GB/s one way, {' or '.join(words for basis, words in sure.items() if basis in known)}")
    return found
