import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from gpuyard_monitor.aside import aside

HANGING = """
import asyncio, threading
from gpuyard_monitor.aside import aside

async def main():
    began, never = threading.Event(), threading.Event()
    def hang():
        began.set()
        never.wait()
    waiting = asyncio.ensure_future(aside(hang))
    while not began.is_set():
        await asyncio.sleep(0.01)
    waiting.cancel()

asyncio.run(main())
print("ended")
"""

_who: ContextVar[str] = ContextVar("who")


async def test_the_result_comes_back_from_another_thread() -> None:
    _who.set("caller")
    assert await aside(lambda: (_who.get(), threading.current_thread() is threading.main_thread())) == (
        "caller",
        False,
    )


async def test_errors_come_back_too() -> None:
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: 1 / 0)


async def test_whoever_is_cancelled_leaves_the_work_behind() -> None:
    began, goes_on = threading.Event(), threading.Event()
    done = threading.Event()

    def work() -> None:
        began.set()
        goes_on.wait()
        done.set()

    waiting = asyncio.ensure_future(aside(work))
    await aside(began.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    goes_on.set()
    assert await aside(lambda: done.wait(60.0))


def test_a_process_ends_although_the_work_hangs() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", HANGING), check=False, capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("ended\n", "", 0)
