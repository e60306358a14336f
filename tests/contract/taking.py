"""Steps of the bus tests: take what comes, within a generous time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from gpuyard.bus.port import Bus, Message
from gpuyard.contracts.subjects import Stream

T = TypeVar("T")
WITHIN_S = 20.0


async def take(source: AsyncIterator[T], count: int) -> list[T]:
    async with asyncio.timeout(WITHIN_S):
        return [await anext(source) for _ in range(count)]


async def one(source: AsyncIterator[T]) -> T:
    return (await take(source, 1))[0]


async def nothing_from(source: AsyncIterator[T], during_s: float) -> None:
    coming = asyncio.ensure_future(take(source, 1))
    done, _ = await asyncio.wait([coming], timeout=during_s)
    assert not done
    coming.cancel()
    await asyncio.wait([coming])


async def end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def root(stream: Stream) -> str:
    return stream.subjects[0].removesuffix(".>")


async def fill(bus: Bus, subject: str, count: int, first: int = 0) -> list[int]:
    return [(await bus.append(subject, str(first + n).encode())).seq for n in range(count)]


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]
