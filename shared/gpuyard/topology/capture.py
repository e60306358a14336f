"""A captured topology: the matrix, where it came from, and which GPU it was taken on.

Lines that start with `#` tell about the capture. The first says machine and source. `# model: NAME`
names the GPU if the first line does not; everything else about the GPU follows from the table of models.
Tables of `nvidia-smi topo -p2p` below the matrix say which GPUs copy directly to each other.
"""

import dataclasses
import re
from dataclasses import dataclass

from gpuyard.topology.gpu_models import UNKNOWN, GpuModel, model_in
from gpuyard.topology.matrix_text import Topology, parse_topology
from gpuyard.topology.p2p_text import parse_p2p, with_p2p

# Characters in which a name or a first line says what the machine is; longer ones are searched no further.
_NAMING = 200
_MODEL = re.compile(r"#\s*model:(.*)")


@dataclass(frozen=True, slots=True)
class Capture:
    """Hardware as someone saw it."""

    name: str
    source: str
    model: GpuModel
    topology: Topology


def parse_capture(name: str, text: str) -> Capture:
    """Read a capture file.

    Raises:
        TopologyError: a table is cut or contradicts itself, or the matrix is missing.

    """
    comments = [line for line in text.split("\n") if line.startswith("#")]
    named = [match[1].strip()[:_NAMING] for line in comments if (match := _MODEL.match(line))]
    source = comments[0].lstrip("# ").strip() if comments else ""
    model = _model(named[0]) if named else model_in(name[:_NAMING], source[:_NAMING])
    topology = parse_topology(text)
    links = with_p2p(topology.links, parse_p2p(text))
    return Capture(name, source, model, dataclasses.replace(topology, links=links))


def _model(named: str) -> GpuModel:
    found = model_in(named)
    return GpuModel("", named) if found is UNKNOWN else found
