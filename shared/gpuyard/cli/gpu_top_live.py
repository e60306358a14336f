"""The live view: feeds, keys and signals change it; after each it is drawn."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import inf

from gpuyard.cli.gpu_top_frame import Picture, frame, page_of
from gpuyard.cli.gpu_top_keys import pressed, single_keys
from gpuyard.cli.gpu_top_rows import Row
from gpuyard.cli.gpu_top_screen import Screen
from gpuyard.cli.gpu_top_state import State, chosen, press, scrolled
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import GpuyardError

Feed = AsyncGenerator[list[Row], None]
Readings = tuple[float | None, ...]
CURVE_S, CURVE_STEP_S = 600.0, 60.0
CURVES_AGAIN_S = 30.0
LOOK_S = 0.5
MOST_ASKED = 8
TERMINATED = 128 + signal.SIGTERM


async def show(yard: AsyncClient, feed: Feed, state: State) -> int:
    """Show the rows until the viewer quits; return what the process shall exit with.

    Args:
        feed: Gives all rows, again and again.
        state: What to show first.

    """
    return await _Live(yard, Screen(sys.stdout), state).run(feed)


class _Live:
    def __init__(self, yard: AsyncClient, screen: Screen, state: State) -> None:
        self._yard = yard
        self._screen = screen
        self._state = state
        self._rows: list[Row] = []
        self._curves: dict[str, Readings] = {}
        self._terminal = ExitStack()
        self._over = asyncio.Event()
        self._code = 0

    async def run(self, feed: Feed) -> int:
        """Take the terminal, and give it back whatever happens."""
        self._rows = await anext(feed)
        work = (self._follow(feed), self._remember(), self._over.wait())
        tasks = {asyncio.create_task(each) for each in work}
        try:
            with self._signals():
                self._take_terminal()
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._terminal.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        return self._code

    # What changes the view

    async def _follow(self, feed: Feed) -> None:
        async for self._rows in feed:
            self._draw()

    async def _remember(self) -> None:
        """Ask the monitors of the nodes on the screen for their curves, each now and then."""
        turns = asyncio.Semaphore(MOST_ASKED)
        asked_s: dict[str, float] = {}
        while True:
            now_s = time.monotonic()
            seen = {row.node for row in self._on_screen() if row.heard}
            due = [node for node in seen if now_s >= asked_s.get(node, -inf) + CURVES_AGAIN_S]
            asked_s |= dict.fromkeys(due, now_s)
            await asyncio.gather(*(self._ask(node, turns) for node in due))
            await asyncio.sleep(LOOK_S)

    async def _ask(self, node: str, turns: asyncio.Semaphore) -> None:
        with suppress(GpuyardError):  # a monitor without an answer leaves the curves as they are
            async with turns:
                history = await self._yard.history(node, last_s=CURVE_S, step_s=CURVE_STEP_S)
            self._curves |= {gpu.uuid: gpu.utilisation for gpu in history.gpus}
            self._draw()

    def _press(self, key: str) -> None:
        count = len(chosen(self._rows, self._state))
        self._state = press(self._state, key, page=self._page, count=count)
        if self._state.is_over:
            self._over.set()
        self._draw()

    def _resize(self) -> None:
        self._screen.clear()
        self._draw()

    def _pause(self) -> None:
        """What Ctrl-Z means: the terminal belongs to the shell until it lets us go on."""
        self._terminal.close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take_terminal()

    def _terminate(self) -> None:
        self._code = TERMINATED
        self._over.set()

    # What is seen of it

    @contextmanager
    def _signals(self) -> Iterator[None]:
        acts = {
            signal.SIGWINCH: self._resize,
            signal.SIGTSTP: self._pause,
            signal.SIGTERM: self._terminate,
        }
        with ExitStack() as heeded:
            for number, act in acts.items():
                heeded.enter_context(_on(number, act))
            yield

    def _take_terminal(self) -> None:
        keyboard = sys.stdin.fileno()
        self._terminal.enter_context(single_keys(keyboard))
        self._terminal.enter_context(self._screen.taken())
        self._terminal.enter_context(pressed(keyboard, self._press))
        self._draw()

    def _on_screen(self) -> Iterable[Row]:
        shown = chosen(self._rows, self._state)
        return shown[self._state.offset : self._state.offset + self._page]

    @property
    def _page(self) -> int:
        return page_of(self._state, self._screen.size)

    def _draw(self) -> None:
        count = len(chosen(self._rows, self._state))
        self._state = scrolled(self._state, self._state.offset, page=self._page, count=count)
        notice = "" if self._yard.connected else "the message bus does not answer"
        picture = Picture(self._rows, self._curves, self._screen.glyphs, notice)
        self._screen.draw(frame(picture, self._state, self._screen.size))


@contextmanager
def _on(number: signal.Signals, act: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
