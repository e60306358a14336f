"""`gpuyard gpu-top` on a real terminal, a real yard behind it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gpuyard import AsyncClient
from gpuyard.contracts.job import JobSpec, TaskSpec
from tests.ptys import Terminal
from tests.realyard import RealYard, real_yard

WIDTH, HEIGHT = 160, 30


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    root = tmp_path_factory.mktemp("top") / "yard"
    with real_yard(root, "dgx-h100-8gpu-10hca", "azure-ndv2-v100-8gpu") as yard:
        yield yard


@pytest.fixture
async def client(yard: RealYard) -> AsyncIterator[AsyncClient]:
    async with yard.client() as client:
        yield client


def top(yard: RealYard, *arguments: str, **environment: str) -> Terminal:
    return Terminal(
        [sys.executable, "-m", "gpuyard", "gpu-top", "--dir", str(yard.root), *arguments],
        {**os.environ, "TERM": "xterm-256color", **environment},
        Path("/"),
        width=WIDTH,
        height=HEIGHT,
    )


@pytest.fixture
def terminal(yard: RealYard) -> Iterator[Terminal]:
    terminal = top(yard)
    yield terminal
    terminal.close()


def places(lines: list[str]) -> list[tuple[str, str]]:
    """Nodes and indexes of the rows on the screen."""
    return [(words[0], words[1]) for words in map(str.split, lines[2:-1]) if len(words) > 2]


def all_rows(lines: list[str]) -> bool:
    return len(lines) == HEIGHT and len(places(lines)) == 16


def was_given_back(terminal: Terminal) -> bool:
    end = terminal.written[-200:]
    return all(word in end for word in ("\x1b[?1049l", "\x1b[?25h", "\x1b[?7h"))


async def look(terminal: Terminal, as_wanted: Callable[[list[str]], bool]) -> list[str]:
    """Wait for a screen without keeping the loop from its other duties."""
    return await asyncio.to_thread(terminal.until, as_wanted)


async def test_a_job_shows_on_its_gpus(terminal: Terminal, client: AsyncClient) -> None:
    lines = await look(terminal, all_rows)
    assert lines[0].startswith("2 nodes, 16 GPUs: ")
    assert places(lines)[0] == ("n0", "0")
    job = await client.submit(JobSpec((TaskSpec(("sleep", "600"), gpus=4),), name="bert", owner="alice"))
    await look(terminal, lambda now: sum(f"{job.id}  alice" in line for line in now) == 4)
    await client.cancel(job, wait=True)
    await look(terminal, lambda now: not any(job.id in line for line in now))


async def test_keys_sort_filter_and_quit(terminal: Terminal) -> None:
    before = terminal.modes
    await look(terminal, all_rows)
    terminal.press("t")
    await look(terminal, lambda now: "sorted by temperature" in now[-1])
    terminal.press("nr")
    await look(terminal, lambda now: "sorted by node, reversed" in now[-1] and places(now)[0] == ("n1", "7"))
    terminal.press("r/v100 n1")
    await look(terminal, lambda now: now[-1] == "filter: v100 n1" and len(places(now)) == 8)
    terminal.press("\r")
    await look(terminal, lambda now: "1-8 of 8" in now[-1])
    terminal.press("\x1b")
    await look(terminal, lambda now: "1-16 of 16" in now[-1])
    terminal.press("f?")
    await look(terminal, lambda now: "free only" in now[-1] and "q quits" in now[-2])
    terminal.press("q")
    assert await asyncio.to_thread(terminal.ended) == 0
    assert was_given_back(terminal)
    assert terminal.modes == before


async def test_a_smaller_window_scrolls(terminal: Terminal) -> None:
    await look(terminal, all_rows)
    terminal.resize(70, 10)
    lines = await look(terminal, lambda now: len(now) == 10 and "1-7 of 16" in now[-1])
    assert max(map(len, lines)) <= 70
    terminal.press("\x1b[6~\x1b[B")
    await look(terminal, lambda now: "9-15 of 16" in now[-1] and places(now)[0] == ("n1", "0"))
    terminal.press("\x1b[F")
    await look(terminal, lambda now: "10-16 of 16" in now[-1])
    terminal.press("\x1b[H")
    await look(terminal, lambda now: "1-7 of 16" in now[-1])


@pytest.mark.parametrize(("how", "code"), [("\x03", 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"])
async def test_the_terminal_is_given_back_however_it_ends(
    terminal: Terminal, how: str | signal.Signals, code: int
) -> None:
    before = terminal.modes
    await look(terminal, all_rows)
    terminal.signal(how) if isinstance(how, signal.Signals) else terminal.press(how)
    assert await asyncio.to_thread(terminal.ended) == code
    assert was_given_back(terminal)
    assert terminal.modes == before


async def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(terminal: Terminal) -> None:
    before = terminal.modes
    await look(terminal, all_rows)
    terminal.press("\x1a")
    await asyncio.to_thread(terminal.stopped)
    assert was_given_back(terminal)
    assert terminal.modes == before
    terminal.signal(signal.SIGCONT)
    await look(terminal, all_rows)
    terminal.press("q")
    assert await asyncio.to_thread(terminal.ended) == 0
    assert terminal.modes == before


async def test_a_node_that_is_not_heard_turns_silent(terminal: Terminal, yard: RealYard) -> None:
    await look(terminal, all_rows)
    pids = [await yard.pid_of(service) for service in ("monitor", "executor")]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        lines = await look(terminal, lambda now: "16 silent" in now[0])
        assert all(line.endswith("silent") and " ? " in line for line in lines[2:18])
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    await look(terminal, lambda now: "silent" not in now[0])


async def test_without_colour_there_is_none(yard: RealYard) -> None:
    terminal = top(yard, NO_COLOR="1")
    try:
        await look(terminal, all_rows)
        assert "\x1b[32m" not in terminal.written
    finally:
        terminal.close()


async def test_a_terminal_that_cannot_be_drawn_on_gets_a_table(yard: RealYard) -> None:
    terminal = top(yard, TERM="dumb")
    try:
        assert await asyncio.to_thread(terminal.ended) == 0
        assert len(terminal.lines) == 17
        assert "\x1b" not in terminal.written
    finally:
        terminal.close()
