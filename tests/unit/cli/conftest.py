"""Commands run in this process, each against a yard in memory that is prepared for it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gpuyard.cli.main import main
from gpuyard.client.aio import AsyncClient
from tests.unit.client.fake_yard import FakeYard, fake_yard

Prepare = Callable[[FakeYard], Awaitable[object]]


@dataclass
class Result:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs `gpuyard` commands."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.yard = FakeYard()
        self.dirs: list[str | None] = []
        """What each command was given as `--dir`."""

    def __call__(self, *arguments: str, prepare: Prepare | None = None, timeout_s: float = 10.0) -> Result:
        @asynccontextmanager
        async def connect(yard_dir: str | None) -> AsyncIterator[AsyncClient]:
            self.dirs.append(yard_dir)
            async with fake_yard() as self.yard:
                if prepare:
                    await prepare(self.yard)
                async with AsyncClient(bus=self.yard.bus, timeout_s=timeout_s) as client:
                    yield client

        code = main(arguments, connect=connect)
        captured = self._capture.readouterr()
        return Result(code, captured.out, captured.err)


@pytest.fixture
def shell(capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capfd)
