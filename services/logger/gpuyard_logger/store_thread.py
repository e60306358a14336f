"""The store on a thread of its own, so that waiting for the disk never stops the event loop."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from gpuyard.contracts.log import LogBatch, LogPage, LogQuery
from gpuyard_logger.store import Store, Stored, read_page

P = ParamSpec("P")
T = TypeVar("T")


class StoreThread:
    """Asks the store one thing at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def append(self, batches: Sequence[LogBatch]) -> Stored:
        return await self._call(self._store.append, batches)

    async def page(self, query: LogQuery, through_seq: int) -> LogPage:
        return await self._call(read_page, self._store, query, through_seq)

    async def close(self) -> None:
        """Let what is under way finish, then close the store."""
        await asyncio.shield(self._call(self._store.close))
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))
