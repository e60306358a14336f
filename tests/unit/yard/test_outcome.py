import os

import pytest

from gpuyard.contracts.errors import Conflict, Fault, GpuyardError
from gpuyard.yard.outcome import Ready, RunningYard, hear, tell

READY = Ready(RunningYard("/y", 7, "127.0.0.1:1", {}), "all is well")


def passed_on(outcome: Ready | GpuyardError) -> bytes:
    hearing, telling = os.pipe()
    tell(telling, outcome)
    with os.fdopen(hearing, "rb") as pipe:
        return pipe.read()


def test_ready_comes_through() -> None:
    assert hear(passed_on(READY), "log") == READY


def test_an_error_is_raised_on_the_other_side() -> None:
    with pytest.raises(Conflict, match="a yard already runs") as error:
        hear(passed_on(Conflict("a yard already runs", "stop it", pid=7)), "log")
    assert error.value.hint == "stop it"
    assert error.value.details == {"pid": "7"}


def test_silence_is_a_fault() -> None:
    with pytest.raises(Fault, match="without a word") as error:
        hear(b"", "/y/logs/up.log")
    assert "/y/logs/up.log" in error.value.hint


def test_nobody_need_listen() -> None:
    tell(None, READY)
    hearing, telling = os.pipe()
    os.close(hearing)
    tell(telling, READY)
