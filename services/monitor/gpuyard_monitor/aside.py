"""Work that may block for ever, done beside the event loop."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """The work's result, from a thread of its own; whoever is cancelled leaves it behind.

    A driver that hangs never comes back. The event loop's own threads are waited for when a process ends,
    these are not.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    run = partial(contextvars.copy_context().run, _fulfil, done, work)
    threading.Thread(target=run, name="aside", daemon=True).start()
    return await asyncio.wrap_future(done)


def _fulfil(done: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
        done.set_exception(error)
    else:
        done.set_result(result)
