"""Tests on the machine's own NVIDIA driver. Where none answers they are skipped, with its reason."""

import contextlib
from collections.abc import Iterator

import pytest

from gpuyard.contracts.errors import Unavailable
from gpuyard_monitor.core.readings import Found
from gpuyard_monitor.nvml import Nvml


@pytest.fixture(scope="package")
def nvml() -> Iterator[Nvml]:
    try:
        nvml = Nvml()
    except Unavailable as why:
        pytest.skip(f"{why.message} ({why.hint})")
    with contextlib.closing(nvml):
        yield nvml


@pytest.fixture
def found(nvml: Nvml) -> Found:
    found = nvml.find()
    if not found.gpus:
        pytest.skip(f"the driver answers, but shows {found.count} GPUs of which none can be used")
    return found
