"""A whole yard: trouble in the output becomes an event, a secret in it appears nowhere."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpuyard import JobSpec, TaskSpec
from gpuyard.contracts.job import JobState
from gpuyard.contracts.log_rule import LogAction, LogRule
from tests.realyard import GENEROUS_S, RealYard, real_yard

INHERITED, OWN = "hf_inherited-Secret/42", "own+secret=value:7"
PROGRAM = f"""
import base64, os, sys, time
print("epoch 1")
for name in ("HF_TOKEN", "OWN_SECRET"):
    secret = os.environ[name]
    print("login with", secret, base64.b64encode(secret.encode()).decode())
    sys.stdout.write("in two: " + secret[:5]); sys.stdout.flush(); time.sleep(1.5); print(secret[5:])
print("-----BEGIN PRIVATE KEY-----", "{"QUJDREVGR0hJSktM" * 4}", "-----END PRIVATE KEY-----", sep="\\n")
print("mine: it went wrong")
sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.")
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", INHERITED)
        with real_yard(tmp_path_factory.mktemp("yard"), "rtx3090-2gpu-nvlink") as yard:
            yield yard


def files_holding(root: Path, text: str) -> set[str]:
    """Files below that hold this text."""
    found = set()
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # services go on meanwhile
            if path.is_file() and text.encode() in path.read_bytes():
                found.add(str(path.relative_to(root)))
    return found


async def test_trouble_is_told_and_secrets_are_not(yard: RealYard) -> None:
    task = TaskSpec(
        (sys.executable, "-c", PROGRAM), env={"OWN_SECRET": OWN}, secrets=("HF_TOKEN", "OWN_SECRET")
    )
    rule = LogRule("mine", "mine: .* wrong", LogAction.NO_RETRY, "it went wrong")
    async with asyncio.timeout(GENEROUS_S), yard.client() as client:
        job = await client.submit(JobSpec((task,), log_rules=(rule,)))
        assert (await client.wait(job)).state is JobState.FAILED
        lines = [line.text.decode() async for line in client.logs(job, follow=True)]
        while (
            len(told := [event.message async for event in client.events(job) if event.kind == "log_rule"]) < 2
        ):
            await asyncio.sleep(0.05)
        assert (await client.get(job)).no_retry == "mine"
    assert lines[:3] == [
        "epoch 1",
        "login with [redacted:HF_TOKEN] [redacted:HF_TOKEN]",
        "in two: [redacted:HF_TOKEN]",
    ]
    assert lines[5:8] == ["[redacted:private-key]"] * 3
    assert any("a GPU ran out of memory" in message and "CUDA out of memory" in message for message in told)
    assert any("it went wrong; the job is not tried again" in message for message in told)
    await until_ranks_are_removed(yard.root)
    assert files_holding(yard.root, INHERITED) == set()
    assert {Path(name).parts[:5][-1] for name in files_holding(yard.root, OWN)} <= {
        "STATE",
        "ORDERS",
        "REQUESTS",
    }
    assert not any(OWN in message or INHERITED in message for message in (*told, *lines))


async def until_ranks_are_removed(root: Path) -> None:
    async with asyncio.timeout(GENEROUS_S):
        while any(path.name.startswith("out.") for path in root.rglob("out.*")):
            await asyncio.sleep(0.05)
