"""A whole monitor over the stand-in for the driver: what others see on the bus."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gpuyard.contracts.codec import encode
from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard.contracts.hardware import Health
from gpuyard.contracts.subjects import (
    FACT,
    FACTS_STREAM,
)
from tests.unit.monitor.fake_nvml import GRAPHICS, MPS, FakeDriver, uuid
from tests.unit.monitor.machines import SLEEPER, Yard, all_well, is_only


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody scheduled."""
    with subprocess.Popen(
        (sys.executable, "-c", SLEEPER), env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def lose(box: FakeDriver) -> None:
    box.gpus[3].lost = 1


def xid(box: FakeDriver) -> None:
    box.xid(3, 79)


def ecc(box: FakeDriver) -> None:
    box.gpus[3].ecc_uncorrected = 1


def row_failed(box: FakeDriver) -> None:
    box.gpus[3].remapped[3] = 1


def row_pending(box: FakeDriver) -> None:
    box.gpus[3].remapped[2] = 1


def nvlink_down(box: FakeDriver) -> None:
    box.gpus[3].ports[5].up = 0


def thermal(box: FakeDriver) -> None:
    box.gpus[3].clock_reasons = 0x40


def power_brake(box: FakeDriver) -> None:
    box.gpus[3].clock_reasons = 0x80


def recovery(box: FakeDriver) -> None:
    box.gpus[3].recovery = 1


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (lose, "fell off the bus; reset the GPU with the monitor stopped, or reboot"),
        (xid, "Xid 79: fell off the bus; reset"),
        (ecc, "memory errors that could not be corrected"),
        (row_failed, "could not be replaced"),
        (row_pending, "waits to be replaced"),
        (nvlink_down, "11 of 12 NVLinks are up"),
        (thermal, "so hot"),
        (power_brake, "power supply"),
        (recovery, "asks for a reset"),
    ],
)
async def test_a_fault_takes_that_gpu_out_within_ten_seconds(
    box: FakeDriver, yard: Yard, breaks: Callable[[FakeDriver], None], says: str
) -> None:
    async with yard.monitor() as samples:
        await yard.passes(samples, all_well, 2)
        breaks(box)
        inventory = await yard.passes(samples, is_only(3, Health.OUT))
        assert says in inventory.gpus[3].health_reason
        kinds = [kind for kind, gpu in await yard.events() if gpu == uuid(3) and kind != "xid"]
        assert kinds == ["gpu_lost" if breaks is lose else "gpu_out"]


async def test_a_lost_gpu_keeps_its_place_and_comes_back(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        whole = (await yard.inventory("n1"))[0]
        box.gpus[3].lost = 1
        lost = await yard.passes(samples, is_only(3, Health.OUT))
        assert [gpu.uuid for gpu in lost.gpus] == [gpu.uuid for gpu in whole.gpus]
        assert len((await samples.after(1.0)).gpus) == 7
        await samples.after(60.0)  # the hardware is looked at anew
        later = await yard.passes(samples, is_only(3, Health.OUT), 2)
        assert later.links == whole.links
        box.gpus[3].lost = 0
        await samples.after(60.0)
        await yard.passes(samples, all_well, 62)
        assert await yard.events() == [
            ("gpu_lost", uuid(3)),
            ("gpu_back", uuid(3)),
            ("gpu_ok", uuid(3)),
        ]


async def test_a_programs_xid_is_told_and_changes_nothing(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        for _ in range(3):
            box.xid(3, 13)
            box.xid(-1, 31)
            assert all_well(await yard.passes(samples, all_well, 1))
        assert await yard.events() == [("xid", uuid(3)), ("xid", None)]


async def test_a_verdict_survives_the_monitor_but_not_the_boot(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        box.xid(3, 79)
        told = await yard.passes(samples, is_only(3, Health.OUT))
    async with yard.monitor() as samples:
        again = await yard.passes(samples, is_only(3, Health.OUT), 1)
        await yard.passes(samples, is_only(3, Health.OUT), 90)
        assert again.gpus[3].faults == told.gpus[3].faults
    yard.boot("boot-2")
    async with yard.monitor() as samples:
        await yard.passes(samples, all_well, 1)
    assert await yard.events() == [
        ("xid", uuid(3)),
        ("gpu_out", uuid(3)),
        ("booted", None),
        ("gpu_ok", uuid(3)),
    ]


async def test_another_driver_is_a_new_start_too(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        box.xid(3, 119)
        await yard.passes(samples, is_only(3, Health.OUT))
    box.version = b"590.2"
    async with yard.monitor() as samples:
        await yard.passes(samples, all_well, 1)
    assert (await yard.events())[-2:] == [("driver_changed", None), ("gpu_ok", uuid(3))]


async def test_a_count_that_shrinks_is_noticed_across_a_restart(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor():
        whole = (await yard.inventory("n1"))[0]
    box.count = 7
    async with yard.monitor() as samples:
        inventory, _ = await yard.inventory("n1")
        assert is_only(7, Health.OUT)(inventory), "nobody may take it for well, not even for a second"
        assert inventory.links == whole.links
        await yard.passes(samples, is_only(7, Health.OUT), 1)
        assert await yard.events() == [("gpu_lost", uuid(7))]
    yard.boot("boot-2")
    async with yard.monitor():
        assert [gpu.uuid for gpu in await yard.gpus()] == [uuid(index) for index in range(7)]
        assert (await yard.events())[-1] == ("gpu_removed", uuid(7))


async def test_a_gpu_that_can_not_be_named_is_an_advice(box: FakeDriver, yard: Yard) -> None:
    box.gpus[2].lost = 1
    async with yard.monitor():
        inventory, _ = await yard.inventory("n1")
        assert len(inventory.gpus) == 7
        assert inventory.advice.startswith("1 of 8 GPUs do not answer the driver")


async def test_a_stranger_makes_its_gpu_foreign_until_it_is_gone(
    box: FakeDriver, yard: Yard, stranger: subprocess.Popen[bytes]
) -> None:
    yard.boot("boot-1")
    async with yard.monitor() as samples:
        box.gpus[5].run(stranger.pid)
        inventory = await yard.passes(samples, is_only(5, Health.FOREIGN))
        assert f"of root (pid {stranger.pid})" in inventory.gpus[5].health_reason
        (process,) = (await samples.after(1.0)).gpus[5].processes or ()
        assert (process.pid, process.user, process.job) == (stranger.pid, "root", None)
    async with yard.monitor() as samples:
        assert is_only(5, Health.FOREIGN)((await yard.inventory("n1"))[0])
        box.gpus[5].stop(stranger.pid)
        await yard.passes(samples, all_well)
        assert await yard.events() == [("gpu_foreign", uuid(5)), ("gpu_ok", uuid(5))]


async def test_a_jobs_process_is_at_home_while_the_job_holds_the_gpu(box: FakeDriver, yard: Yard) -> None:
    await yard.bus.ensure((FACTS_STREAM,))
    await tell_fact(yard, RankState.RUNNING, uuid(5))
    with subprocess.Popen(
        (sys.executable, "-c", SLEEPER),
        env={"GPUYARD_JOB_ID": "digits-1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yard.boot("boot-1")
        box.gpus[5].run(process.pid)
        async with yard.monitor() as samples:
            for _ in range(10):
                (seen,) = (await samples.after(1.0)).gpus[5].processes or ()
                assert seen.job == "digits-1"
            assert all_well((await yard.inventory("n1"))[0])
            await tell_fact(yard, RankState.EXITED, uuid(5))
            await yard.passes(samples, is_only(5, Health.FOREIGN))
        process.kill()


async def tell_fact(yard: Yard, state: RankState, *gpus: str) -> None:
    fact = GangFact("n1", "digits-1", 1, 1, yard.clock.now(), (RankFact(0, state, gpus),))
    await yard.bus.append(FACT(node="n1", job="digits-1"), encode(fact))


async def test_a_changed_driver_is_told_in_words_and_nothing_is_placed(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        box.version_code = 18
        inventory = await yard.passes(
            samples, lambda now: {gpu.health for gpu in now.gpus} == {Health.UNKNOWN}
        )
        assert "driver was changed" in inventory.gpus[0].health_reason
        assert "Restart the monitor" in inventory.advice
        assert (await samples.after(1.0)).gpus == ()
        await samples.after(61.0)
        assert await yard.events() == [("driver_changed", None)]
        box.version_code = 0
        assert (await yard.passes(samples, all_well, 62)).advice == ""


async def test_a_driver_that_is_gone_leaves_the_gpus_unknown(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor():
        pass
    box.init_code = 9
    async with yard.monitor():
        inventory, _ = await yard.inventory("n1")
        assert [gpu.health for gpu in inventory.gpus] == [Health.UNKNOWN] * 8
        assert "modprobe" in inventory.advice
        assert await yard.events() == [("driver_lost", None)]


async def test_a_machine_that_never_had_a_gpu_is_fine(box: FakeDriver, yard: Yard) -> None:
    box.init_code = 12
    async with yard.monitor() as samples:
        await samples.after(1.0)
        inventory, _ = await yard.inventory("n1")
        assert (inventory.gpus, inventory.advice) == ((), "")
        assert inventory.source.startswith("no GPUs: ")
        assert await yard.events() == []


async def test_mig_mode_takes_a_gpu_out(box: FakeDriver, yard: Yard) -> None:
    box.gpus[3].mig_on = 1
    async with yard.monitor() as samples:
        inventory = await yard.passes(samples, is_only(3, Health.OUT), 1)
        assert "MIG mode is on, and Gpuyard hands out whole GPUs" in inventory.gpus[3].health_reason


@pytest.mark.parametrize("kind", [GRAPHICS, MPS])
async def test_a_stranger_that_draws_stays_seen_while_the_hardware_is_looked_at_anew(
    box: FakeDriver, yard: Yard, stranger: subprocess.Popen[bytes], kind: int
) -> None:
    yard.boot("boot-1")
    box.gpus[5].run(stranger.pid, kind=kind)
    # Not at a second at which what is costly is read too.
    async with yard.monitor(inventory_every_s=61.0) as samples:
        await yard.passes(samples, is_only(5, Health.FOREIGN))
        for _ in range(70):
            await samples.after(1.0)
            assert is_only(5, Health.FOREIGN)((await yard.inventory("n1"))[0])


async def test_a_lost_gpu_is_back_a_minute_after_it_answers(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        box.gpus[3].lost, box.count = 1, 3
        await samples.after(60.0)
        await yard.passes(samples, lambda now: now.gpus[3].health is Health.OUT, 1)
        box.gpus[3].lost, box.count = 0, 8
        await yard.passes(samples, all_well, 66)


@pytest.mark.parametrize("number", [62, 74, 79, 119])
async def test_a_reset_shows_by_the_energy_counter(box: FakeDriver, yard: Yard, number: int) -> None:
    box.gpus[3].energy_mj = 9_000_000
    async with yard.monitor() as samples:
        box.xid(3, number)
        await yard.passes(samples, is_only(3, Health.OUT))
        box.gpus[3].energy_mj += 1_000_000
        await yard.passes(samples, is_only(3, Health.OUT), 8)
    # The reset comes between two monitors: it needs a device that nobody holds.
    box.gpus[3].energy_mj = 2_000
    async with yard.monitor() as samples:
        await yard.passes(samples, all_well, 1)
    assert await yard.events() == [("xid", uuid(3)), ("gpu_out", uuid(3)), ("gpu_ok", uuid(3))]


async def test_without_an_energy_counter_an_xid_lasts_until_the_boot(box: FakeDriver, yard: Yard) -> None:
    box.gpus[3].refuse("nvmlDeviceGetTotalEnergyConsumption")
    for _ in range(2):
        async with yard.monitor() as samples:
            box.xid(3, 119)
            await yard.passes(samples, is_only(3, Health.OUT))


async def test_rules_that_are_switched_off_take_nothing_out(box: FakeDriver, yard: Yard) -> None:
    nvlink_down(box)
    box.xid(3, 74)
    async with yard.monitor() as samples:
        await yard.passes(samples, is_only(3, Health.OUT))
    async with yard.monitor("nvlink", "xid") as samples:
        await yard.passes(samples, all_well, 1)
        box.xid(3, 79)
        await yard.passes(samples, all_well, 10)
