"""A platform backend in plain Python: `nats-py` and `msgpack`, nothing of Gpuyard.

    pip install nats-py msgpack
    python backend.py --url nats://TOKEN@127.0.0.1:4222 --gpus 2 -- python train.py

Submits a job, follows its events (to stderr) and its output (to stdout); the exit code is 0 if it succeeded.
docs/guides/backend.md explains the rules it follows.
"""

import argparse
import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress

import msgpack
import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext

FINAL = ("succeeded", "failed", "cancelled")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def submit(nc: Client, js: JetStreamContext, spec: dict) -> dict:
    """Asks until there is an answer: the same `request_id` never makes a second job."""
    inbox = nc.new_inbox()
    answers = await nc.subscribe(inbox)
    request = {"type": "submit", "request_id": uuid.uuid4().hex, "spec": spec, "reply_to": inbox}
    while True:
        with suppress(NatsError):
            await js.publish("gpuyard.request.submit", msgpack.packb(request))
            return msgpack.unpackb((await answers.next_msg(timeout=10)).data)


async def read(js: JetStreamContext, subject: str) -> AsyncIterator[dict]:
    """Messages of a stream, in order and for ever. Whatever breaks, it goes on after the last one."""
    after = 0
    while True:
        start = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=after + 1, idle_heartbeat=1.0
        )
        with suppress(NatsError):
            subscription = await js.subscribe(subject, ordered_consumer=True, config=start)
            async for message in subscription.messages:
                after = message.metadata.sequence.stream
                yield msgpack.unpackb(message.data)
        await asyncio.sleep(1)


async def follow_events(js: JetStreamContext, job: str) -> dict:
    """Tells what happens to the job, from its first event to its last, and returns its last record."""
    async for record in read(js, f"gpuyard.state.job.{job}"):
        for event in record["events"]:
            say(f"{event['kind']}: {event['message']}")
        if record["state"] in FINAL:
            return record
    raise AssertionError("reading never ends by itself")


class Output:
    """The lines of a job, each printed once and in order, whether it comes live or from a logger."""

    def __init__(self, nc: Client, js: JetStreamContext, job: str) -> None:
        self.nc, self.js, self.job = nc, js, job
        self.next: dict[tuple[int, int], int] = {}  # (attempt, rank): number of the line that comes next
        self.ended: set[tuple[int, int]] = set()

    async def follow(self) -> None:
        """Prints lines as they appear; those the stream has lost to a logger are asked from there."""
        async for batch in read(self.js, f"gpuyard.log.*.{self.job}.>"):
            if batch["first_seq"] > self.next.get((batch["attempt"], batch["rank"]), 0):
                await self.catch_up(batch["attempt"])
            self.take(batch)

    def take(self, batch: dict) -> None:
        """Prints what is new in a batch: batches may overlap."""
        source = (batch["attempt"], batch["rank"])
        texts = [text for _, _, data in batch["chunks"] for text in data.removesuffix(b"\n").split(b"\n")]
        for seq, text in enumerate(texts, batch["first_seq"]):
            if seq >= self.next.get(source, 0):
                sys.stdout.buffer.write(b"[%d] %s\n" % (batch["rank"], text))
        sys.stdout.buffer.flush()
        self.next[source] = max(self.next.get(source, 0), batch["next_seq"])
        if batch["end"]:
            self.ended.add(source)

    async def catch_up(self, attempt: int) -> None:
        """Takes what a logger has stored beyond what was printed."""
        complete = False
        while not complete:
            after = [(rank, seq) for (of, rank), seq in self.next.items() if of == attempt]
            query = msgpack.packb({"job": self.job, "attempt": attempt, "after": after})
            try:
                answer = await self.nc.request("gpuyard.query.logs", query, timeout=10)
            except NatsError:  # the loggers are away; they will be back
                await asyncio.sleep(1)
                continue
            page = msgpack.unpackb(answer.data, strict_map_key=False)
            for batch in page["batches"]:
                self.take(batch)
            complete = page["complete"]
        self.ended.update((attempt, rank) for rank in page["ended"])

    async def finish(self, record: dict) -> None:
        """Waits for the last lines: they may come after the news that the job has ended."""
        slots = (record["placement"] or {"slots": []})["slots"]
        ranks = {(record["attempt"], slot["rank"]) for slot in slots}
        try:
            async with asyncio.timeout(10):
                while not ranks <= self.ended:
                    await self.catch_up(record["attempt"])
                    await asyncio.sleep(0.1)
        except TimeoutError:
            say(f"no end of output from {len(ranks - self.ended)} ranks")  # they may never have started


async def run(url: str, spec: dict) -> int:
    async with asyncio.timeout(10):
        nc = await nats.connect(url, max_reconnect_attempts=-1)
    js = nc.jetstream()
    answer = await submit(nc, js, spec)
    if answer["type"] == "failure":
        say(f"refused ({answer['code']}): {answer['message']}. {answer['hint']}")
        return 1
    say(f"accepted: {answer['job']}")
    output = Output(nc, js, answer["job"])
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(output.follow())
        record = await follow_events(js, answer["job"])
        await output.finish(record)
        following.cancel()
    await nc.close()
    say(f"ended: {record['state']}")
    return 0 if record["state"] == "succeeded" else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Submit a job to Gpuyard and follow it.")
    parser.add_argument("--url", default=os.environ.get("GPUYARD_URL", "nats://127.0.0.1:4222"))
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    spec = {"name": "backend", "tasks": [{"command": arguments.command, "gpus": arguments.gpus}]}
    return asyncio.run(run(arguments.url, spec))


if __name__ == "__main__":
    sys.exit(main())
