import uuid
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.codec import validated
from gpuyard.contracts.hardware import Inventory
from gpuyard.topology import captures
from gpuyard.topology.capture import parse_capture
from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.simulated import SimulatedNode, advance, look, simulate
from gpuyard_monitor.core.wired import expected_nvlinks

START_S = 1_700_000_000.0
NAME = "azure-ndv2-v100-8gpu"


def cold(node: str = "n1", name: str = NAME) -> SimulatedNode:
    return simulate(captures.load(name), node, START_S)


def held(*uuids: str) -> dict[str, frozenset[str]]:
    return {uuid: frozenset({"job-a"}) for uuid in uuids}


def worked(node: SimulatedNode, busy: Iterable[str], seconds: int) -> list[SimulatedNode]:
    states = [node]
    for _ in range(seconds):
        states.append(advance(states[-1], states[-1].at_s + 1.0, held(*busy)))
    return states[1:]


def sample(node: SimulatedNode) -> tuple[Reading, ...]:
    return look(node).readings


@pytest.mark.parametrize("name", captures.names())
def test_every_capture_makes_a_valid_inventory_and_sample(name: str) -> None:
    node = cold(name=name)
    hardware, found = node.hardware, node.hardware.found
    assert found
    assert hardware.simulated
    assert name in hardware.source
    validated(Inventory("n1", START_S, hardware.host, found.gpus, found.links, found.nics))
    assert [gpu.index for gpu in found.gpus] == list(range(len(found.gpus)))
    assert all(link.gb_s for link in found.links)
    assert [reading.uuid for reading in sample(node)] == [gpu.uuid for gpu in found.gpus]


@pytest.mark.parametrize("name", captures.names())
def test_every_simulated_gpu_has_the_nvlinks_that_it_should_have(name: str) -> None:
    gpus = cold(name=name).gpus
    assert {gpu.uuid: gpu.nvlinks for gpu in gpus} == expected_nvlinks(gpus)


def test_uuids_depend_on_node_and_index_alone() -> None:
    first, again = cold("n1").gpus, cold("n1", "aws-p4d-a100-8gpu").gpus
    other = cold("n2").gpus
    assert [gpu.uuid for gpu in first] == [gpu.uuid for gpu in again]
    assert len({gpu.uuid for gpu in (*first, *other)}) == 16
    assert all(gpu.uuid == f"GPU-{uuid.UUID(gpu.uuid.removeprefix('GPU-'))}" for gpu in first)


def test_the_host_is_as_large_as_its_affinities_say() -> None:
    host = cold(name="hgx-a100-4gpu-delta").hardware.host
    assert (host.cpus, host.numa_nodes, host.hostname) == (64, 4, "n1")
    host = cold(name="b200-8gpu-no-affinity").hardware.host
    assert (host.cpus, host.numa_nodes) == (None, None)


def test_held_gpus_work_and_the_others_idle() -> None:
    node = cold()
    busy = frozenset(gpu.uuid for gpu in node.gpus[2:4])
    for state in worked(node, busy, 120):
        for gpu in sample(state):
            assert gpu.utilisation is not None
            assert 0.70 <= gpu.utilisation <= 0.98 if gpu.uuid in busy else gpu.utilisation <= 0.01
    last = sample(worked(node, busy, 120)[-1])
    assert (last[2].temperature_c or 0) > 65 > 40 > (last[0].temperature_c or 99)
    assert (last[2].power_w or 0) > 200 > 45 > (last[0].power_w or 99)
    assert (last[2].memory_used_bytes or 0) > 50 * (last[0].memory_used_bytes or 0)


def test_values_move_but_never_jump() -> None:
    node = cold()
    busy = frozenset([node.gpus[0].uuid])
    seen = [sample(state)[0] for state in worked(node, busy, 200)]
    for before, after in pairwise(seen):
        assert abs((after.temperature_c or 0) - (before.temperature_c or 0)) < 4
        assert abs((after.power_w or 0) - (before.power_w or 0)) < 80
    assert len({gpu.utilisation for gpu in seen}) > 50


def test_a_gpu_given_back_has_its_memory_free_at_once_and_cools_slowly() -> None:
    node = cold()
    busy = frozenset([node.gpus[0].uuid])
    hot = worked(node, busy, 100)[-1]
    freed = sample(advance(hot, hot.at_s + 1, {}))[0]
    assert freed.memory_used_bytes == sample(node)[0].memory_used_bytes
    assert (freed.temperature_c or 0) > 60
    cooled = sample(worked(hot, (), 200)[-1])[0]
    assert (cooled.temperature_c or 99) < 35


def test_the_same_history_gives_the_same_samples() -> None:
    busy = frozenset([cold().gpus[1].uuid])
    one, other = worked(cold(), busy, 20), worked(cold(), busy, 20)
    assert [sample(state) for state in one] == [sample(state) for state in other]
    assert sample(one[-1])[1] != sample(one[-1])[2]


@given(
    steps=st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.sets(st.integers(0, 7))),
        max_size=30,
    )
)
def test_samples_stay_in_range_whatever_the_clock_does(steps: list[tuple[float, set[int]]]) -> None:
    node = cold()
    uuids = [gpu.uuid for gpu in node.gpus]
    for passed_s, busy in steps:
        node = advance(node, node.at_s + passed_s, held(*(uuids[index] for index in busy)))
        for gpu in sample(node):
            assert (gpu.memory_used_bytes or 0) <= (node.gpus[0].memory_bytes or 0)
            assert (gpu.power_w or 0) <= node.model.most_w


def test_a_gpu_of_unknown_model_has_unknown_memory() -> None:
    capture = parse_capture("box", "GPU0\nGPU0 X")
    node = simulate(capture, "n1", START_S)
    assert node.gpus[0].memory_bytes is None
    assert sample(node)[0].memory_used_bytes is None
    assert look(node).memory_used_bytes is None


def test_the_process_on_a_held_gpu_is_its_jobs() -> None:
    node = cold()
    state = worked(node, [node.gpus[1].uuid], 3)[-1]
    readings = sample(state)
    assert readings[0].processes == ()
    (process,) = readings[1].processes or ()
    assert process.memory_bytes == readings[1].memory_used_bytes
    assert look(state).origins[process.pid].job == "job-a"


def test_nvlink_counters_grow_with_work_alone() -> None:
    node = cold()
    states = worked(node, [node.gpus[1].uuid], 5)
    sent = [sample(state)[1].nvlink_tx_bytes or 0 for state in states]
    assert all(a < b for a, b in pairwise(sent))
    assert sample(states[-1])[0].nvlink_tx_bytes == 0
    assert sample(cold(name="8gpu-epyc-node-sys"))[0].nvlink_tx_bytes is None


def test_another_capture_is_another_machine() -> None:
    assert cold(name=NAME).hardware.host.boot_id == cold(name=NAME).hardware.host.boot_id
    assert cold(name=NAME).hardware.host.boot_id != cold(name="aws-p4d-a100-8gpu").hardware.host.boot_id
