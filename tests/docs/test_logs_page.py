"""The page about logs shows what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from gpuyard.cli.log_options import LogOptions
from tests.unit.cli.conftest import Shell, shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec

__all__ = ["shell"]
PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "logs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```console\n\$ gpuyard ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


async def train(yard: FakeYard) -> None:
    """The job of the page."""
    job = await yard.start(await yard.record(a_job(a_spec(ranks=4)), "queued"))
    for rank in range(4):
        second = "loss=nan" if rank == 2 else "loss=2.12"
        last = ["saved checkpoint-3"] if rank == 0 else []
        await yard.print_lines(job, rank, "step 1", "loss=2.31", "step 2", second, "step 3", *last, end=True)
    await yard.end(job)


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_examples_are_current(command: str, output: str, shell: Shell) -> None:
    result = shell(*shlex.split(command), prepare=train)
    assert (result.code, result.out) == (0, output)


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_every_option_is_on_the_page() -> None:
    names = {"everything": "all", "ignore_case": "-i", "context": "-C"}
    flags = {names.get(name, name) for name in LogOptions.__dataclass_fields__}
    assert [flag for flag in sorted(flags) if f"{flag if flag[0] == '-' else f'--{flag}'}" not in PAGE] == []
