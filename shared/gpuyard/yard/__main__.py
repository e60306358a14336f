"""`python -m gpuyard.yard OPTIONS`: the lean process behind `gpuyard up`; OPTIONS is JSON of `Options`."""

import asyncio
import sys

import msgspec

from gpuyard.contracts.errors import GpuyardError
from gpuyard.yard.options import Options
from gpuyard.yard.outcome import tell
from gpuyard.yard.up import narrate, serve

INTERRUPTED = 130


def main(argv: list[str]) -> int:
    options = msgspec.json.decode(argv[0], type=Options)
    try:
        asyncio.run(serve(options))
    except GpuyardError as error:
        narrate(told(error, as_json=options.as_json))
        tell(options.ready_fd, error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED  # before there was anything to stop
    return 0


def told(error: GpuyardError, *, as_json: bool) -> str:
    if as_json:
        return msgspec.json.encode(error.to_failure()).decode()
    return f"error: {error.message}\n{error.hint}".rstrip()


sys.exit(main(sys.argv[1:]))
