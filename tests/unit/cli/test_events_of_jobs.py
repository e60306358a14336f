from gpuyard.contracts.job import Job
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec


async def ended(yard: FakeYard) -> Job:
    return await yard.end(await yard.start(await yard.record(a_job(a_spec(ranks=2)), "queued")))


def test_events_of_a_job_and_of_all(shell: Shell) -> None:
    async def two(yard: FakeYard) -> None:
        await ended(yard)
        await yard.record(a_job(a_spec("other"), request_id="r2"), "queued")

    of_one = shell("events", "train", "-f", prepare=two)
    assert [line.split()[2] for line in of_one.out.splitlines()] == [
        "queued",
        "placed",
        "running",
        "succeeded",
    ]
    events = shell("events", "--json", prepare=two).json_lines
    assert [event["kind"] for event in events] == ["queued", "placed", "running", "succeeded", "queued"]
    rest = shell("events", "--json", "--after", str(events[1]["seq"]), prepare=two).json_lines
    assert rest == events[2:]
    assert {"seq", "index", "job", "state", "attempt", "kind", "at_s", "message"} <= rest[0].keys()
