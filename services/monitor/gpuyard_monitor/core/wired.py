"""How many NVLinks each GPU of a node should have up.

What was up once since the boot should be up still. Beyond that the model tells how many a GPU has, but not
how many of them its board uses: bridges may be missing, older boards leave ports open, and a lone GPU in a
virtual machine has no peers. So the model's number counts where NVLinks are soldered, and either the
generation is one whose boards always wire all of them, or a sister on the node shows that this board does.
"""

from collections.abc import Mapping, Sequence

from gpuyard.contracts.hardware import Gpu
from gpuyard.topology.gpu_models import GpuModel, NvLink, model_in

_ALWAYS_WIRED = frozenset({NvLink.V3, NvLink.V4, NvLink.V5})


def expected_nvlinks(gpus: Sequence[Gpu]) -> Mapping[str, int | None]:
    """By UUID; None where nothing is expected."""
    return {gpu.uuid: _expected(gpu, [each for each in gpus if each.model == gpu.model]) for gpu in gpus}


def _expected(gpu: Gpu, sisters: Sequence[Gpu]) -> int | None:
    model = model_in(gpu.model)
    numbers = [number for number in (gpu.nvlinks, _of_board(model, sisters)) if number is not None]
    return max(numbers, default=None)


def _of_board(model: GpuModel, sisters: Sequence[Gpu]) -> int | None:
    if model.nvlinks is None or model.bridged or len(sisters) < 2:
        return None
    uses_all = model.nvlink in _ALWAYS_WIRED or any((gpu.nvlinks or 0) >= model.nvlinks for gpu in sisters)
    return model.nvlinks if uses_all else None
