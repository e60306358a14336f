"""`gpuyard logs` as a user types it, in a whole yard."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuyard import JobSpec, JobState, TaskSpec
from tests.ptys import Terminal
from tests.realyard import GENEROUS_S, RealYard, real_yard

pytestmark = pytest.mark.timeout(300)
HOSTILE = rb"\x1b]0;owned\x07\x1b[2J\x1b[31mred \x9b2J\xff"
PROGRAM = rf"""
import os, sys
rank = int(os.environ["RANK"])
sys.stdout.buffer.write(b"{HOSTILE.decode()}\n 10%\r100%\n")
for step in range(20):
    print(f"step {{step}}")
    print("loss=nan" if (rank, step) == (2, 13) else f"loss={{step / 10}}")
sys.stdout.flush()
print("a warning", file=sys.stderr)
"""
RAW = HOSTILE.decode("unicode_escape").encode("latin-1")
ENDLESS = "import time\nfor n in range(10**6): print(n, flush=True); time.sleep(0.01)"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    with real_yard(tmp_path_factory.mktemp("logs") / "yard", "dgx-h100-8gpu-10hca") as running:
        asyncio.run(_print(running, "train", ranks=3))
        asyncio.run(_print(running, "eval", ranks=1))
        yield running


async def _print(yard: RealYard, name: str, *, ranks: int) -> None:
    spec = JobSpec(
        (TaskSpec((sys.executable, "-c", PROGRAM), ranks=ranks),), name=name, labels={"team": "vision"}
    )
    async with yard.client(timeout_s=30) as client:
        job = await client.wait(await client.submit(spec), timeout_s=GENEROUS_S)
        assert job.state is JobState.SUCCEEDED
        assert [line async for line in client.logs(job, follow=True)]


@pytest.fixture
def environment(yard: RealYard) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("GPUYARD_URL", "NO_COLOR")}
    return {**kept, "GPUYARD_DIR": str(yard.root), "TERM": "xterm"}


@pytest.fixture
async def endless(yard: RealYard) -> AsyncIterator[str]:
    """A job that prints until it is cancelled."""
    spec = JobSpec((TaskSpec((sys.executable, "-c", ENDLESS)),), name="endless", grace_s=1.0)
    async with yard.client(timeout_s=30) as client:
        job = await client.submit(spec)
        yield job.id
        await client.cancel(job, wait=True)


def gpuyard(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpuyard", *arguments]


def run(environment: dict[str, str], *arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    ended = subprocess.run(
        gpuyard(*arguments), env=environment, capture_output=True, timeout=GENEROUS_S, check=False
    )
    assert ended.returncode == code, ended.stderr.decode()
    return ended


def test_a_pipe_gets_every_byte_and_errors_stay_apart(environment: dict[str, str]) -> None:
    ended = run(environment, "logs", "eval")
    lines = ended.stdout.split(b"\n")
    assert lines[:3] == [RAW, b" 10%\r100%", b"step 0"]
    assert (len(lines), ended.stderr) == (43, b"a warning\n")


def test_a_terminal_is_steered_by_colour_only(environment: dict[str, str], tmp_path: Path) -> None:
    terminal = Terminal(gpuyard("logs", "train"), environment, tmp_path, width=100, height=30)
    try:
        assert terminal.ended() == 0
    finally:
        terminal.close()
    shown = "\\x1b]0;owned\\x07\\x1b[2J\x1b[31mred \\x9b2J\\xff\x1b[0m\r\n"
    assert terminal.written.count(shown) == 3
    assert "\x1b[32m[1]\x1b[0m 100%\r\n" in terminal.written
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", terminal.written)


def test_what_ranks_share_is_shown_once(environment: dict[str, str]) -> None:
    lines = run(environment, "logs", "train", "--fold").stdout.split(b"\n")
    assert len(lines) == 44
    assert lines[2] == b"  [0-2 x3] step 0"
    at = lines.index(b"! [2] loss=nan")
    assert b"  [0-1 x2] loss=1.3" in lines[at - 1 : at + 2]
    assert sum(line.startswith(b"!") for line in lines) == 1


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (("--rank", "2", "--grep", "NAN", "-i"), ["loss=nan"]),
        (("--rank", "2", "--grep", "nan", "-C", "1"), ["step 13", "loss=nan", "step 14"]),
        (("--rank", "0", "--stream", "out", "--tail", "2"), ["step 19", "loss=1.9"]),
        (("--rank", "1", "--grep", "^step", "--tail", "1"), ["step 19"]),
        (("--until", "1h"), []),
    ],
)
def test_only_what_is_wanted(environment: dict[str, str], options: tuple[str, ...], texts: list[str]) -> None:
    assert run(environment, "logs", "train", *options).stdout.decode().splitlines() == texts


def test_jobs_of_a_label_are_merged_and_told_apart(environment: dict[str, str]) -> None:
    found = run(environment, "logs", "--label", "team=vision", "--grep", "step 7").stdout.decode()
    marks = sorted(re.sub(r"-\w+", "", line.split("]")[0]) for line in found.splitlines())
    assert marks == ["[eval 0", "[train 0", "[train 1", "[train 2"]


def test_a_search_goes_on_where_it_stopped(environment: dict[str, str]) -> None:
    arguments = ["logs", "--all", "--grep", "step 1[0-4]", "--limit", "7", "--label", "team=vision"]
    found = []
    while arguments:
        page = run(environment, *arguments)
        found += page.stdout.decode().splitlines()
        told = page.stderr.decode().strip().rpartition("gpuyard logs ")[2]
        arguments = ["logs", *shlex.split(told)] if told else []
    assert len(found) == len(set(found)) == 20


def test_a_file_holds_everything(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("a.txt", "a.jsonl"):
        assert (
            b"Wrote 129 lines" in run(environment, "logs", "train", "--export", str(tmp_path / name)).stderr
        )
    assert (tmp_path / "a.txt").read_bytes().count(RAW) == 3
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert sum("text_base64" in row for row in rows) == 3
    run(environment, "logs", "train", "--export", str(tmp_path / "a.jsonl" / "b.txt"), code=3)


def test_output_is_pinned_and_let_go(environment: dict[str, str]) -> None:
    assert run(environment, "logs", "eval", "--pin").stdout.endswith(b"  pinned\n")
    assert run(environment, "logs", "eval", "--unpin").stdout.endswith(b"  not pinned\n")


async def test_whoever_leaves_is_told_how_to_come_back(environment: dict[str, str], endless: str) -> None:
    pipe = asyncio.subprocess.PIPE
    follow = await asyncio.create_subprocess_exec(
        *gpuyard("logs", "-f", endless), env=environment, stdout=pipe, stderr=pipe, preexec_fn=_heed_ctrl_c
    )
    assert follow.stdout
    async with asyncio.timeout(GENEROUS_S):
        assert await follow.stdout.readline() == b"0\n"
        follow.send_signal(signal.SIGINT)
        out, err = await follow.communicate()
    assert follow.returncode == 130, err
    last = int(out.splitlines()[-1]) if out else 0
    (command,) = re.findall(r"Come back with `gpuyard (.*)`", err.decode())
    assert command.startswith(f"logs -f {endless} --since ")
    back = await asyncio.create_subprocess_exec(
        *gpuyard(*shlex.split(command)), env=environment, stdout=pipe, stderr=pipe, preexec_fn=_heed_ctrl_c
    )
    assert back.stdout
    async with asyncio.timeout(GENEROUS_S):
        first = int(await back.stdout.readline())
        back.send_signal(signal.SIGINT)
        await back.communicate()
    assert 0 < first <= last + 1 or first == last == 0


async def test_a_reader_that_has_seen_enough_is_no_error(environment: dict[str, str], endless: str) -> None:
    command = f"{shlex.join(gpuyard('logs', '-f', endless))} | head -n 2; exit ${{PIPESTATUS[0]}}"
    shell = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        command,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(shell.communicate(), GENEROUS_S)
    assert (shell.returncode, out, err) == (0, b"0\n1\n", b"")


def _heed_ctrl_c() -> None:
    """The suite itself may have been started with Ctrl-C ignored, as a script's background jobs are."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
