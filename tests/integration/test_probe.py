"""A probe in a whole yard. The node is simulated, so the host's memory stands in for its GPUs."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard import JobSpec, TaskSpec
from gpuyard.cli.main import main
from gpuyard.contracts.hardware import Basis
from gpuyard.contracts.job import JobState
from tests.realyard import RealYard, real_yard

pytest.importorskip("torch", reason="the `examples` extra is not installed")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    with real_yard(tmp_path_factory.mktemp("probe") / "yard", "h100-4gpu-nv6") as running:
        yield running


async def test_figures_reach_the_inventory(yard: RealYard, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["probe", "n0", "--device", "cpu", "--gpus", "2", "--json", "--dir", str(yard.root)]
    code = await asyncio.to_thread(main, arguments)
    out, err = capfd.readouterr()
    assert code == 0, err
    view = json.loads(out)
    assert (view["is_sound"], view["is_stored"]) == (True, True)
    (pair,), (group,) = view["pairs"], view["groups"]
    async with yard.client() as client:
        (node,) = await client.nodes(sample_wait_s=0)
        job = await client.get(view["job"])
    assert node.probed_at_s == view["probed_at_s"] == job.ended_at_s
    assert node.allreduce_gb_s == ((2, group["gb_s"]),)
    measured = {
        (gpu.index, link.index): link.gb_s
        for gpu in node.gpus
        for link in gpu.links
        if link.basis is Basis.MEASURED
    }
    assert measured == dict.fromkeys([(pair["a"], pair["b"]), (pair["b"], pair["a"])], min(pair["gb_s"]))


async def test_a_simulated_node_has_nothing_to_measure(
    yard: RealYard, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main, ["probe", "n0", "--dir", str(yard.root)]) == 4
    assert "n0 is simulated" in capfd.readouterr().err


async def test_a_probe_waits_for_the_gpus_and_ctrl_c_cancels_it(yard: RealYard) -> None:
    async with yard.client() as client:
        holder = await client.submit(
            JobSpec((TaskSpec(("sleep", "600"), gpus=4, ranks=1),), name="hold", nodes=("n0",))
        )
        async for job in client.watch(holder):
            if job.state is JobState.RUNNING:
                break
        process = await start(yard.root, "probe", "n0", "--device", "cpu")
        assert process.stderr is not None
        assert f"no GPUs of n0 free, 4 needed: waiting for {holder.id}" in await line_of(process.stderr)
        assert "queued:" in await line_of(process.stderr)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert process.returncode == 130, err
        (probe,) = [job for job in await client.list() if f"cancelled {job.id}".encode() in err]
        assert (await client.wait(probe)).state is JobState.CANCELLED
        await client.cancel(holder, wait=True)


async def start(root: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gpuyard", *arguments, "--dir", str(root)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ,
    )


async def line_of(stream: asyncio.StreamReader) -> str:
    return (await stream.readline()).decode()
