"""Random machines, and the many forms in which their matrices get published."""

from dataclasses import dataclass
from itertools import combinations

from hypothesis import strategies as st

from gpuyard.contracts.hardware import Level, Link, Nic
from gpuyard.topology.matrix_text import Affinity, Topology

LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n  NV#  = Connection of # NVLinks\n"
PROMPTS = [
    "root@node:~# nvidia-smi topo -m",
    "```",
    "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)",
    "  MIG 1g.10gb Device 0: (UUID: MIG-1)",
    "GPU topology:",
    "\u2500\u2500 Gr\u00f6\u00dfe \U0001f600",
    "+----------+----------+",
    "|   0  N/A  |",
    "\x00",
    "",
]
HEADERS = ["{}", "\t{}", "\t\x1b[4m{}\x1b[0m", "\x1b[4m\t{}\x1b[0m", "^[[4m{}^[[0m", "[4m{}[0m"]


@dataclass(frozen=True)
class Form:
    """How a matrix is written down."""

    separator: str = "\t"
    end: str = "\n"
    header: str = "\t{}"
    trailing: str = ""
    legacy: bool = False
    order: int = 0
    nic_rows: bool = True
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    legend: bool = False


forms = st.builds(
    Form,
    separator=st.sampled_from(["\t", " ", "        ", "\t ", "\u00a0", " | "]),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n", "   \n"]),
    header=st.sampled_from(HEADERS),
    trailing=st.sampled_from(["", " ", "\t\t", " " * 90]),
    legacy=st.booleans(),
    order=st.integers(0, 1000),
    nic_rows=st.booleans(),
    above=st.lists(st.sampled_from(PROMPTS), max_size=3).map(tuple),
    below=st.lists(st.sampled_from(PROMPTS), max_size=3).map(tuple),
    legend=st.booleans(),
)  # fmt: skip


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Machines with 1 to 9 GPUs and up to 12 network cards; every affinity is known."""
    gpus, nics = draw(st.integers(1, 9)), draw(st.integers(0, 12))
    level = st.sampled_from([each for each in Level if each is not Level.SAME_BOARD])
    nvlinks = st.integers(1, 18)
    links = []
    for a, b in combinations(range(gpus), 2):
        bonded = draw(st.booleans())
        links.append(Link(a, b, nvlinks=draw(nvlinks)) if bonded else Link(a, b, level=draw(level)))
    affinity = st.builds(Affinity, st.sampled_from(["0-31", "0-23,48-71", "5", "1-1"]), st.integers(0, 7))
    levels = st.lists(level, min_size=gpus, max_size=gpus).map(tuple)
    return Topology(
        tuple(draw(affinity) for _ in range(gpus)),
        tuple(links),
        tuple(Nic(f"NIC{index}", draw(levels)) for index in range(nics)),
    )


def written(topology: Topology, form: Form) -> str:
    """The matrix in a form; reading it must give the topology back."""
    names = [f"GPU{index}" for index in range(len(topology.gpus))]
    names += [nic.name for nic in topology.nics]
    titles = form.separator.join(["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    header = form.header.format(form.separator.join([*names, titles]))
    rows = [_row(topology, index, name, form) for index, name in enumerate(names)]
    rows = rows if form.nic_rows else rows[: len(topology.gpus)]
    turned = rows[form.order % len(rows) :] + rows[: form.order % len(rows)]
    lines = [*form.above, header, *(row + form.trailing for row in turned), *form.below]
    legend = LEGEND + "".join(f"  NIC{index}: mlx5_{index + 4}\n" for index in range(len(topology.nics)))
    return form.end.join(lines) + (legend.replace("\n", form.end) if form.legend else "")


def renamed(topology: Topology, form: Form) -> Topology:
    """The topology with the names that the form's legend gives to network cards."""
    if not form.legend:
        return topology
    nics = (Nic(f"mlx5_{index + 4}", nic.levels) for index, nic in enumerate(topology.nics))
    return Topology(topology.gpus, topology.links, tuple(nics))


def _row(topology: Topology, index: int, name: str, form: Form) -> str:
    count = len(topology.gpus) + len(topology.nics)
    cells = [" X " if other == index else _cell(topology, index, other) for other in range(count)]
    if form.legacy:
        cells = ["SOC" if cell == "SYS" else cell for cell in cells]
    if index < len(topology.gpus):
        gpu = topology.gpus[index]
        cells += [str(gpu.cpus), str(gpu.numa), "N/A"]
    return form.separator.join([name, *cells])


def _cell(topology: Topology, one: int, other: int) -> str:
    a, b = sorted((one, other))
    gpus = len(topology.gpus)
    if b < gpus:
        return next(link.label for link in topology.links if (link.a, link.b) == (a, b))
    if a < gpus:
        return str(topology.nics[b - gpus].levels[a])
    return "NODE"
