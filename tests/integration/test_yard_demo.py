"""The demo, as `make demo` runs it."""

import asyncio
import sys
from pathlib import Path

import pytest

from gpuyard.client import locate


@pytest.mark.timeout(900)
async def test_the_demo_trains_and_leaves_nothing_running(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gpuyard", "demo"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, narration = await process.communicate()
    said = narration.decode()
    assert process.returncode == 0, said + output.decode()
    for phase in (
        "starting: on node v100-8gpu-cubemesh-1hca-1: GPU ",
        "running: 2 ranks",
        "succeeded",
    ):
        assert phase in said
    assert "(NV2 " in said
    assert output.startswith((b"[0] ", b"[1] "))
    assert "as promised at least 0.95" in said
    assert str(tmp_path / ".demo" / "yard" / "logger") in said
    assert locate.lock_holder(tmp_path / ".demo" / "yard") is None
