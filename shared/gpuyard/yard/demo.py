"""`gpuyard demo`: start a yard, train on handwritten digits with a gang of two, look at the result, stop.

It does what a user would do, with the same commands, and fails if any of it does not turn out as promised.
"""

import asyncio
import importlib.util
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import gpuyard
from gpuyard.client import locate
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import GpuyardError, NotFound, Unavailable
from gpuyard.yard import start, stop
from gpuyard.yard.layout import Layout
from gpuyard.yard.machine import gpu_count
from gpuyard.yard.options import Options

FOLDER = Path(".demo") / "yard"
EXAMPLE = Path("examples") / "digits" / "job.toml"
CAPTURE = "v100-8gpu-cubemesh-1hca"
LEAST_ACCURACY = 0.95
RANKS = 2
_TIMEOUT_S = 1800.0
_ACCURACY = re.compile(rb"test accuracy: ([01]\.[0-9]+)")

Say = Callable[[str], None]


class DemoFailed(GpuyardError):
    """The demo did not turn out as promised."""

    code = "demo_failed"
    exit_code = 1


async def demonstrate(say: Say) -> None:
    """Run the demo.

    Raises:
        DemoFailed: the training failed or is worse than promised.
        GpuyardError: something could not be started.

    """
    check_example_packages()
    job_file = find_example()
    layout = Layout(FOLDER.absolute())
    async with _fresh_yard(layout, say):
        output = await _run(job_file, layout, say)
        accuracy = judged(output, layout)
        say(f"\nTest accuracy {accuracy}, as promised at least {LEAST_ACCURACY}.")
        await _show_what_was_kept(layout, output, say)
    say(f"Look again: gpuyard up --detach --dir {FOLDER} && gpuyard logs --dir {FOLDER} digits")


def check_example_packages() -> None:
    missing = [name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"the example needs {' and '.join(missing)}, not installed for {sys.executable}",
            "Install them with `make setup`, or `pip install 'gpuyard[examples]'`.",
        )


def find_example() -> Path:
    """The job file of the example: under the current directory, or beside the sources."""
    sources = Path(gpuyard.__file__).parents[2]
    for base in (Path(), sources):
        if (base / EXAMPLE).exists():
            return base / EXAMPLE
    raise NotFound(f"there is no {EXAMPLE} here", "Run the demo in a checkout of Gpuyard.")


def judged(output: bytes, layout: Layout) -> float:
    """The accuracy that the program printed, if it is good enough and both ranks spoke."""
    where = f"Look into {layout.logs} and {layout.data('executor')}."
    silent = [rank for rank in range(RANKS) if b"[%d] " % rank not in output]
    if silent:
        raise DemoFailed(f"nothing was heard of rank {silent[0]}", where)
    found = _ACCURACY.findall(output)
    if not found:
        raise DemoFailed("the program did not print its test accuracy", where)
    accuracy = float(found[-1])
    if accuracy < LEAST_ACCURACY:
        raise DemoFailed(f"the test accuracy is {accuracy}, below {LEAST_ACCURACY}", where)
    return accuracy


@asynccontextmanager
async def _fresh_yard(layout: Layout, say: Say) -> AsyncIterator[None]:
    """A yard for as long as the body runs; nothing of it goes on afterwards."""
    await stop.stop(layout.root)
    shutil.rmtree(layout.root, ignore_errors=True)
    simulate = () if gpu_count() >= RANKS else (CAPTURE,)
    flags = "".join(f" --simulate {name}" for name in simulate)
    say(f"$ gpuyard up --detach --dir {FOLDER}{flags}")
    _let_signals_interrupt()
    try:
        options = Options(str(layout.root), start.choose_nodes(simulate, is_local=True))
        say((await asyncio.to_thread(start.leave_behind, options)).summary)
        yield
    finally:
        say(f"\n$ gpuyard down --stop-jobs --dir {FOLDER}")
        await _end(layout)


def _let_signals_interrupt() -> None:
    """Be ended like by Ctrl-C, so that the yard is stopped."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _end(layout: Layout) -> None:
    if locate.load(layout.root) is not None:
        with suppress(GpuyardError):  # what failed before is the news; the yard is stopped in any case
            async with AsyncClient(dir=layout.root) as client:
                await stop.cancel_jobs(client)
    await stop.stop(layout.root)


async def _run(job_file: Path, layout: Layout, say: Say) -> bytes:
    """Run the job like a user would, and pass its output on; returns the output."""
    say(f"\n$ gpuyard run -f {job_file} --dir {FOLDER}")
    command = (sys.executable, "-P", "-m", "gpuyard", "run", "-f", str(job_file), "--dir", str(layout.root))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            async for line in process.stdout:
                output += line
                print(line.decode(errors="replace"), end="", flush=True)
            code = await process.wait()
    except TimeoutError:
        raise DemoFailed(f"the training did not end within {_TIMEOUT_S:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
    if code:
        raise DemoFailed(
            f"`gpuyard run` ended with code {code}", f"Look into {layout.logs} and {layout.data('executor')}."
        )
    return bytes(output)


async def _show_what_was_kept(layout: Layout, output: bytes, say: Say) -> None:
    async with AsyncClient(dir=layout.root) as client:
        (job,) = await client.list()
        lines = [line async for line in client.logs(job)]
        events = [event async for event in client.events(job)]
    kept, seen = len([line for line in lines if line.stream == 0]), output.count(b"\n")
    if kept != seen:
        raise DemoFailed(f"{seen} lines were shown, but {kept} are stored", f"Look into {layout.logs}.")
    say(f"Kept {len(lines)} lines of {RANKS} ranks in {layout.data('logger')}")
    say(f"Kept {len(events)} events in {layout.nats_store}")
