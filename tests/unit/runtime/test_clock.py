import asyncio

from gpuyard.runtime.clock import FakeClock


async def test_sleepers_wake_in_order_when_time_passes() -> None:
    clock = FakeClock(100.0)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("b", 2), ("a", 1), ("c", 9))]
    await asyncio.sleep(0)
    clock.advance(2)
    await asyncio.gather(*tasks[:2])
    assert woken == ["a", "b"]
    assert (clock.now(), clock.monotonic()) == (102.0, 2.0)
    tasks[2].cancel()


async def test_a_cancelled_sleeper_is_left_alone() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    clock.advance(2)
    assert task.cancelled()
