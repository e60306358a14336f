"""The training example trains: alone and as a gang, started as torchrun would start it."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the `examples` extra is not installed")

TRAIN = Path(__file__).parents[2] / "examples" / "digits" / "train.py"
GANG_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(**variables: object) -> subprocess.Popen[str]:
    clean = {key: value for key, value in os.environ.items() if key not in GANG_VARIABLES}
    return subprocess.Popen(
        [sys.executable, TRAIN],
        env=clean | {key: str(value) for key, value in variables.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outputs(ranks: list[subprocess.Popen[str]]) -> list[str]:
    """What each rank printed; no rank survives the test."""
    try:
        printed = [rank.communicate(timeout=110)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), "\n".join(printed)
    finally:
        for rank in ranks:
            rank.kill()
    return printed


def accuracy(printed: str) -> float:
    found = re.findall(r"^test accuracy: (\d\.\d{3})$", printed, re.MULTILINE)
    assert len(found) == 1, printed
    return float(found[0])


@pytest.mark.parametrize("world_size", [2, 3])
def test_gang_learns_the_digits(world_size: int) -> None:
    port = free_port()
    printed = outputs(
        [
            start(
                RANK=rank,
                LOCAL_RANK=rank,
                WORLD_SIZE=world_size,
                LOCAL_WORLD_SIZE=world_size,
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
            for rank in range(world_size)
        ]
    )

    assert accuracy(printed[0]) >= 0.95
    for rank, text in enumerate(printed):
        assert f"rank {rank} of {world_size} on " in text
        assert re.search(rf"^rank {rank} epoch 15 step \d+ loss \d", text, re.MULTILINE)
    assert "accuracy" not in "".join(printed[1:])


def test_one_rank_alone_needs_no_variables() -> None:
    (printed,) = outputs([start()])

    assert accuracy(printed) >= 0.95
