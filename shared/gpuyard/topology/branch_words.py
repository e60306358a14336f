"""What stands under a box of the picture and beside a branch of the text: its name and its PCIe links."""

from collections import Counter
from collections.abc import Sequence

from gpuyard.contracts.hardware import Gpu, Inventory
from gpuyard.topology.link_kinds import kinds, tied_parts
from gpuyard.topology.tree import Branch, Tier, links_between

_LONGEST = 44


def models(gpus: Sequence[Gpu]) -> str:
    """`8 x NVIDIA H200`."""
    counted = Counter(gpu.model or "GPU of unknown model" for gpu in gpus)
    return ", ".join(f"{count} x {model}" for model, count in counted.items()) or "no GPUs"


def footing(branch: Branch, inventory: Inventory) -> str:
    """`NUMA 0, CPUs 0-19,40-59: NODE 9.6 GB/s`; only what is known."""
    if branch.tier in (Tier.GPU, Tier.NVLINK_ISLAND):
        return ""
    name = "" if branch.tier is Tier.NODE else branch_name(branch, inventory)
    return ": ".join(filter(None, (name, pcie_words(branch, inventory))))


def branch_name(branch: Branch, inventory: Inventory) -> str:
    """A socket also says its CPUs."""
    cpus = {inventory.gpus[gpu].cpus for gpu in branch.gpus}
    near = next(iter(cpus)) if len(cpus) == 1 else None
    if branch.tier is not Tier.SOCKET or not near or not branch.name.startswith("NUMA"):
        return branch.name
    named = f"{branch.name}, CPUs {near}"
    return named if len(named) <= _LONGEST else f"{named[: _LONGEST - 1]}…"


def pcie_words(branch: Branch, inventory: Inventory) -> str:
    """How the parts of a branch reach each other where no NVLink joins them."""
    between = links_between(tied_parts(branch), inventory.links)
    return ", ".join(
        f"{kind}, no P2P" if kind.staged else str(kind)
        for kind in kinds(link for link in between if not link.nvlinks)
    )
