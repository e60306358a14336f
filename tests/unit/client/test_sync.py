import inspect
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from gpuyard import AsyncClient, Client, InvalidSpec, JobState, NotFound
from tests.unit.client.fake_yard import FakeYard, a_spec, fake_yard


async def live_and_end(yard: FakeYard, job: object) -> None:
    started = await yard.start(next(iter(yard.jobs.values())))
    await yard.print_lines(started, 0, "hello", "world", end=True)
    await yard.end(started)


@pytest.fixture
def client() -> Iterator[Client]:
    """A client on a yard that lives on the client's own loop, as everything of the memory bus must."""
    yard_holder = AsyncExitStack()
    client = Client()

    async def enter() -> None:
        yard = await yard_holder.enter_async_context(fake_yard())
        yard.script = live_and_end
        client._client = AsyncClient(bus=yard.bus)
        await client._client.__aenter__()

    client._start()
    client._run(enter())
    yield client
    client._run(yard_holder.aclose())
    client._stop()


def test_a_job_from_submit_to_end(client: Client) -> None:
    job = client.submit(a_spec())
    assert client.wait(job, timeout_s=30).state is JobState.SUCCEEDED
    assert [line.text for line in client.logs(job)] == [b"hello", b"world"]
    assert [line.text for line in client.logs(job, follow=True)] == [b"hello", b"world"]
    assert [event.kind for event in client.events(job)] == ["queued", "placed", "running", "succeeded"]
    assert [change.state for change in client.watch(job)] == [JobState.SUCCEEDED]
    assert client.get("train").id == client.list()[0].id
    assert client.list(active_only=True) == []
    assert client.nodes(sample_wait_s=0) == []
    assert next(client.watch_nodes()) == []
    assert list(client.node_events()) == []
    assert client.connected


def test_errors_are_the_same(client: Client) -> None:
    with pytest.raises(NotFound):
        client.get("nothing")
    with pytest.raises(NotFound):
        next(client.logs("nothing"))
    with pytest.raises(InvalidSpec):
        client.history("no node!")


def test_an_iterator_that_is_left_early_is_closed(client: Client) -> None:
    job = client.submit(a_spec())
    client.wait(job, timeout_s=30)
    lines = client.logs(job)
    next(lines)
    del lines
    assert client.get(job).id == job.id


def test_ctrl_c_while_waiting_for_the_next_line_ends_the_iterator(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    changes = client.events(follow=True)
    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(changes)
    monkeypatch.undo()
    assert client.list() == []


def test_calls_may_come_from_several_threads(client: Client) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(client.submit(a_spec(), request_id="same").id))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_client_that_finds_no_yard_leaves_no_thread(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    with pytest.raises(NotFound), Client(dir=str(tmp_path)):
        pass
    assert threading.active_count() == before


def test_the_twins_have_the_same_calls_and_parameters() -> None:
    for name, call in inspect.getmembers(Client, inspect.isfunction):
        if name.startswith("_"):
            continue
        twin = inspect.signature(getattr(AsyncClient, name)).parameters
        ours = inspect.signature(call).parameters
        assert {key: value.default for key, value in ours.items()} == {
            key: value.default for key, value in twin.items()
        }, name
    assert {name for name in dir(AsyncClient) if name[0] != "_"} == {
        name for name in dir(Client) if name[0] != "_"
    }


def test_outside_its_block_a_client_says_so() -> None:
    client = Client()
    with pytest.raises(RuntimeError, match="`with` block"):
        client.list()
