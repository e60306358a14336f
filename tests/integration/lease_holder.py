"""A process that competes for leadership and says how it goes. Its argument is the bus's URL.

It prints `leads TERM`, then `lost`, then what came of a write with its old fence.
"""

import asyncio
import sys

from gpuyard.bus.lease import Lease
from gpuyard.bus.nats_bus import connect
from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.subjects import LEADER, STATE_STREAM, TERM
from gpuyard.runtime.clock import SystemClock


async def main(url: str) -> None:
    async with connect(url, "holder") as bus:
        lease = Lease(bus, STATE_STREAM, LEADER(), TERM(), owner="holder", clock=SystemClock())
        reign = await lease.acquire()
        print("leads", reign.term, flush=True)
        await reign.lost.wait()
        print("lost", flush=True)
        try:
            await bus.append("gpuyard.state.job.j", b"late", expect=reign.fence, timeout_s=30.0)
            print("wrote", flush=True)
        except Conflict:
            print("refused", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
