"""Ranks in real containers: what they may do, what they see, how they end, what is left of them."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from docker import APIClient

from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import ERR, Box, RankKey
from gpuyard_executor.supervisor.processes import all_pids
from tests.docker.daemon import Daemon
from tests.docker.images import make_busybox
from tests.docker.nvidia_runtime import MISSING
from tests.docker.rig import GENEROUS_S, Rig, bridges, names, new_key, rig_at

UUIDS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")


@pytest.fixture
async def rig(dockerd: Daemon, tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_at(dockerd, tmp_path / "node") as rig:
        yield rig
        for status in await rig.engine.list():
            await rig.engine.stop(status.key, 0.0)
            await rig.end(status.key)


@pytest.fixture
def client(dockerd: Daemon) -> Iterator[APIClient]:
    with closing(dockerd.client()) as client:
        yield client


# -- what a rank may -----------------------------------------------------------------------------------------


async def test_a_rank_is_nobody_with_no_rights(rig: Rig) -> None:
    text = await rig.text(
        "sh", "-c", "id -u; id -g; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status"
    )
    uid, gid, *lines = text.split("\n")
    assert (uid, gid) == ("59000", "59000")
    fields = dict(re.findall(r"(\w+):\s+(\w+)", "\n".join(lines)))
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


async def test_it_writes_to_its_working_directory_and_not_to_the_image_or_its_pipes(rig: Rig) -> None:
    text = await rig.text(
        "sh", "-c", "pwd; touch here && echo yes; touch /bin/x || echo no; touch /run/gpuyard/x || echo no"
    )
    assert text == "/workspace\nyes\nno\nno\n"


async def test_it_sees_no_mounts_of_the_machine_but_two(rig: Rig) -> None:
    mounts = await rig.text("cat", "/proc/self/mounts")
    disks = [line.split()[1] for line in mounts.splitlines() if line.startswith("/dev/")]
    etc = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/sbin/docker-init"}
    assert set(disks) - etc == {"/workspace", "/run/gpuyard"}


async def test_its_limits_hold(rig: Rig) -> None:
    box = Box(memory_bytes=64 << 20, cpus=0.5, shm_bytes=8 << 20)
    script = (
        "df -k /dev/shm | tail -1; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    )
    key = await rig.run("sh", "-c", script, box=box)
    await rig.end(key)
    shm, limit = (await rig.output(key)).decode().splitlines()
    assert shm.split()[1] == "8192"
    assert limit == str(64 << 20)


async def test_a_fork_bomb_meets_its_limit(dockerd: Daemon, tmp_path: Path) -> None:
    async with rig_at(dockerd, tmp_path / "node", docker_pids=32) as rig:
        key = await rig.run("sh", "-c", "for i in $(seq 100); do sleep 100 & done; wait")
        assert (await rig.end(key)).end
        assert b"can't fork" in await rig.output(key, ERR)


async def test_the_environment_is_the_ranks_own_and_hidden(rig: Rig, client: APIClient) -> None:
    nasty = "a 'b' \"c\" $d `e` \\ \n é"
    key = await rig.prepare("sh", "-c", 'printf "%s" "$SECRET"; sleep 1000')
    await rig.status(key, RankState.READY)
    await rig.engine.start(key, {"SECRET": nasty, "PATH": "/bin"})
    await rig.until_prints(key)
    (name,) = [name for name in names(client) if str(key) in name]
    assert "d `e`" not in str(client.inspect_container(name))
    await rig.engine.stop(key, 0.0)
    await rig.end(key)
    assert (await rig.output(key)).decode() == nasty


# -- GPUs ----------------------------------------------------------------------------------------------------


async def test_a_rank_gets_its_gpus_and_no_others(rig: Rig) -> None:
    script = "ls /dev | grep nvidia; echo $NVIDIA_VISIBLE_DEVICES"
    text = await rig.text("sh", "-c", script, gpus=UUIDS)
    assert text.split() == [*(f"nvidia-{uuid}" for uuid in UUIDS), ",".join(UUIDS)]
    assert rig.daemon.seen_gpus.read_text().splitlines()[-1] == f"rank-0 {','.join(UUIDS)}"


async def test_without_gpus_it_sees_none(rig: Rig) -> None:
    assert await rig.text("sh", "-c", "ls /dev | grep nvidia || echo none") == "none\n"


@pytest.mark.parametrize("gpus", [(), UUIDS[:1]])
async def test_neither_image_nor_user_can_have_more_gpus(
    rig: Rig, client: APIClient, gpus: tuple[str, ...]
) -> None:
    make_busybox(client, "gpuyard-test/greedy:1", ("NVIDIA_VISIBLE_DEVICES=all",))
    box = Box("gpuyard-test/greedy:1")
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    text = await rig.text("sh", "-c", "ls /dev | grep nvidia || true", gpus=gpus, box=box, env=env)
    assert text.split() == [f"nvidia-{gpu}" for gpu in gpus]


async def test_an_image_that_would_trick_the_runtime_is_refused(rig: Rig, client: APIClient) -> None:
    make_busybox(client, "gpuyard-test/evil:1", ("LD_PRELOAD=/evil.so",))
    end = (await rig.end(await rig.prepare("true", gpus=UUIDS, box=Box("gpuyard-test/evil:1")))).end
    assert end
    assert end.cause is ExitCause.IMAGE
    assert "LD_PRELOAD" in end.message


async def test_a_gpu_that_the_runtime_does_not_know(rig: Rig) -> None:
    end = (await rig.end(await rig.run("true", gpus=(MISSING,)))).end
    assert end
    assert (end.code, end.cause) == (None, ExitCause.LAUNCH)
    assert "unknown device" in end.message


# -- output --------------------------------------------------------------------------------------------------


async def test_binary_junk_survives(rig: Rig) -> None:
    key = await rig.run("cat", "/bin/busybox")
    assert (await rig.end(key)).end
    busybox = next(path for path in ("/bin/busybox", "/usr/bin/busybox") if Path(path).exists())
    wanted = hashlib.sha256(Path(busybox).read_bytes()).hexdigest()
    assert hashlib.sha256(await rig.output(key)).hexdigest() == wanted


async def test_a_line_of_ten_megabytes_survives(rig: Rig) -> None:
    key = await rig.run("sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' x; echo")
    await rig.end(key)
    assert await rig.output(key) == b"x" * 10_000_000 + b"\n"


async def test_an_unfinished_line_comes_at_once(rig: Rig) -> None:
    key = await rig.run("sh", "-c", "printf 'epoch 1 ...'; sleep 1000")
    async for (chunk,) in rig.engine.output(key):
        assert chunk.data == b"epoch 1 ..."
        break


async def test_output_may_be_opened_again_by_name(rig: Rig) -> None:
    assert await rig.text("sh", "-c", "echo one > /dev/stdout; echo two >> /proc/self/fd/1") == "one\ntwo\n"


# -- gangs ---------------------------------------------------------------------------------------------------


def gang_keys(count: int = 2) -> list[RankKey]:
    job = new_key().job
    return [RankKey(job, 1, rank) for rank in range(count)]


async def run_gang(rig: Rig, *commands: str) -> list[RankKey]:
    keys = gang_keys(len(commands))
    plans = [
        rig.prepare("sh", "-c", each, key=key, peers=2) for key, each in zip(keys, commands, strict=True)
    ]
    await asyncio.gather(*plans)
    for key in keys:
        await rig.status(key, RankState.READY)
    for key in keys:
        await rig.engine.start(key, {})
    return keys


async def test_ranks_of_a_gang_reach_each_other_by_name(rig: Rig, client: APIClient) -> None:
    listens = "echo hello | nc -l -p 5000"
    asks = "until nc rank-0 5000; do sleep 0.05; done"
    first, second = await run_gang(rig, listens, asks)
    assert (await rig.end(second)).end
    assert await rig.output(second) == b"hello\n"
    await rig.end(first)
    assert bridges(client) == set()


async def test_gangs_reach_neither_each_other_nor_the_machine(rig: Rig) -> None:
    """The machine's own address is tried by way of every route that a container has."""
    waits = "ip -4 -o addr show eth0 | awk '{print $4}' | cut -d/ -f1; echo x | nc -l -p 5000"
    server, other = await run_gang(rig, waits, "sleep 1000")
    async for (chunk,) in rig.engine.output(server):
        address = chunk.data.decode().strip()
        break
    asks = f"nc -w 1 {address} 5000; echo $?; ping -c 1 -W 1 $(ip r | awk '/default/ {{print $3}}'); echo $?"
    stranger, _ = await run_gang(rig, asks, "true")
    await rig.end(stranger)
    lines = (await rig.output(stranger)).decode().split("\n")
    assert "x" not in lines
    assert (lines[0], lines[-2]) == ("1", "1")
    for key in (server, other):
        await rig.engine.stop(key, 0.0)
        await rig.end(key)


async def test_a_rank_alone_finds_itself(rig: Rig) -> None:
    assert "127.0.0.1" in await rig.text("sh", "-c", "grep rank-0 /etc/hosts")
    assert "eth" not in await rig.text("ip", "addr")


async def test_a_gang_over_several_nodes_is_refused(rig: Rig) -> None:
    end = (await rig.end(await rig.prepare("true", is_spread=True))).end
    assert end
    assert end.cause is ExitCause.LAUNCH


# -- ends ----------------------------------------------------------------------------------------------------


async def test_out_of_memory(rig: Rig) -> None:
    key = await rig.run("tail", "/dev/zero", box=Box(memory_bytes=32 << 20))
    end = (await rig.end(key)).end
    assert end
    assert (end.code, end.cause) == (137, ExitCause.OOM)


async def test_an_image_that_is_nowhere(rig: Rig) -> None:
    end = (await rig.end(await rig.prepare("true", box=Box("gpuyard-test/nowhere:9")))).end
    assert end
    assert (end.code, end.cause) == (None, ExitCause.IMAGE)
    assert "gpuyard-test/nowhere:9" in end.message


async def test_a_stop_while_it_is_prepared(rig: Rig) -> None:
    key = await rig.prepare("true")
    await rig.engine.stop(key, GENEROUS_S)
    end = (await rig.end(key)).end
    assert end
    assert (end.code, end.stopped) == (None, True)


async def test_all_processes_of_a_rank_hear_the_stop(rig: Rig) -> None:
    child = "(trap 'echo child; exit' TERM; while :; do sleep 0.05; done) &"
    script = f"{child} trap 'wait; exit 5' TERM; echo up; wait"
    key = await rig.run("sh", "-c", script)
    await rig.until_prints(key)
    await rig.engine.stop(key, GENEROUS_S)
    end = (await rig.end(key)).end
    assert end
    assert end.code == 5
    assert await rig.output(key) == b"up\nchild\n"


async def test_a_container_that_somebody_removed(rig: Rig, client: APIClient) -> None:
    key = await rig.run("sleep", "1000")
    await rig.status(key, RankState.RUNNING)
    (name,) = [name for name in names(client) if str(key) in name]
    client.remove_container(name, force=True)
    end = (await rig.end(key)).end
    assert end
    assert end.cause in (ExitCause.UNKNOWN, None)
    assert end.code in (None, 137)


# -- adoption ------------------------------------------------------------------------------------------------


async def test_exits_that_were_missed_are_learned(dockerd: Daemon, client: APIClient, tmp_path: Path) -> None:
    async with rig_at(dockerd, tmp_path / "node") as rig:
        key = await rig.run("sh", "-c", "echo one; read x < go; echo two; exit 7")
        await rig.until_prints(key)
        (name,) = [name for name in names(client) if str(key) in name]
        go = rig.home / "work" / str(key.gang) / "go"
    go.write_text("now\n")
    go.write_text("now\n")
    client.wait(name)
    async with rig_at(dockerd, tmp_path / "node") as rig:
        end = (await rig.end(key)).end
        assert end
        assert end.code == 7
        assert await rig.output(key) == b"one\ntwo\n"


async def test_strangers_with_the_label_are_removed_and_others_never_touched(
    dockerd: Daemon, client: APIClient, tmp_path: Path
) -> None:
    home = tmp_path / "node"
    stray = {"gpuyard.home": str(home), "gpuyard.rank": "lost.1.0"}
    labels = {"stray": stray, "other-home": stray | {"gpuyard.home": str(tmp_path / "other")}, "plain": {}}
    for name, label in labels.items():
        client.create_container("gpuyard-test/busybox:1", ["sleep", "1000"], name=name, labels=label)
        client.start(name)
    async with rig_at(dockerd, home):
        while "stray" in names(client):
            await asyncio.sleep(0.02)
    running = {name for name in ("plain", "other-home") if client.inspect_container(name)["State"]["Running"]}
    for name in ("plain", "other-home"):
        client.remove_container(name, force=True)
    assert running == {"plain", "other-home"}


async def test_one_executor_for_one_directory(dockerd: Daemon, tmp_path: Path) -> None:
    async with rig_at(dockerd, tmp_path / "node"):
        with pytest.raises(Conflict):
            async with rig_at(dockerd, tmp_path / "node"):
                pass


# -- what is left --------------------------------------------------------------------------------------------


async def test_many_containers_leave_nothing_behind(
    dockerd: Daemon, client: APIClient, tmp_path: Path
) -> None:
    """A row of single ranks, then gangs all at once."""
    before, processes = names(client), len(all_pids())
    async with rig_at(dockerd, tmp_path / "node") as rig:
        for _ in range(40):
            key = await rig.run("true")
            await rig.end(key)
            await rig.engine.remove(key)
        keys = [
            key
            for keys in await asyncio.gather(*(run_gang(rig, "true", "true") for _ in range(12)))
            for key in keys
        ]
        for key in keys:
            await rig.end(key)
            await rig.engine.remove(key)
        assert list((tmp_path / "node" / "ranks").iterdir()) == []
    assert names(client) == before
    assert bridges(client) == set()
    assert client.volumes()["Volumes"] in ([], None)
    mounts = Path("/proc/self/mounts").read_text()
    assert str(tmp_path) not in mounts
    while len(all_pids()) > processes + 3:  # other programs of the machine come and go
        await asyncio.sleep(0.05)
